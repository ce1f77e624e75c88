"""A small file of each kind, and bytes that make careless readers slow when they are repeated."""

from __future__ import annotations

from collections.abc import Iterator

from tests.contract.file_samples import SAMPLES

_SCRAPE = b'# TYPE node_cpu_seconds_total counter\nnode_cpu_seconds_total{cpu="0",mode="user"} 12.5\n'
_BENCHMARKS = (
    b'{"machine_info":{"python_version":"3"},"benchmarks":[{"fullname":"a","stats":{"mean":1.5,"data":[1.5]}}]}'
)

SEEDS: dict[str, tuple[str, bytes]] = {
    **{kind: sample for samples in SAMPLES.values() for kind, sample in samples.items()},
    # broker load
    "metric-scrape": ("1767240060.prom", _SCRAPE),
    "topic-description": ("topics.txt", b"Topic: a\tTopicId: x\tPartitionCount: 1\tReplicationFactor: 1\tConfigs: \n"
                          b"\tTopic: a\tPartition: 0\tLeader: 1\tReplicas: 1,2\tIsr: 1,2\n"),
    "log-directories": ("dirs.txt", b'Querying brokers\n{"version":1,"brokers":[{"broker":1,"logDirs":[{"logDir":"/d",'
                        b'"error":null,"partitions":[{"partition":"a-0","size":5}]}]}]}\n'),
    "reassignment": ("plan.json", b'{"version":1,"partitions":[{"topic":"a","partition":0,"replicas":[1,2]}]}\n'),
    "capacity": ("capacity.json", b'{"brokerCapacities":[{"brokerId":"-1","capacity":{"DISK":"1000","CPU":"100"}}]}'),
    "cruise-control-json": ("load.json", b'{"brokers":[{"Broker":1,"Host":"h","FollowerNwInRate":1.5,"DiskMB":1.0}]}'),
    "cruise-control-text": ("load.txt", b"   HOST   BROKER   RACK   DISK_CAP(MB)\n   h,   1,   r,   10.0\n\n"),
    "sample-records": ("samples.b64", b"AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n"),
    "csv": ("brokers.csv", b"broker,host,rack\n1,h,r\n2,i,r\n"),
    "parquet": ("metrics.parquet", b"PAR1"),
    # job heuristics
    "jhist": ("job_1_0001-1-ben-x-2-1-1-SUCCEEDED-default-1.jhist", b'Avro-Json\n{"type":"record","name":"Event","fields":[]}\n'
              b'{"type":"JOB_SUBMITTED","event":{"e":{"jobid":"job_1_0001","jobName":"x"}}}\n'),
    "job-conf": ("job_1_0001_conf.xml", b"<?xml version=\"1.0\"?><configuration>\n<property><name>a</name><value>1</value>"
                 b"</property>\n</configuration>\n"),
    "mapreduce-rest": ("job.json", b'{"job":{"id":"job_1_0001","state":"SUCCEEDED","startTime":1}}'),
    "rumen": ("trace.json", b'{"jobID":"job_1_0001","submitTime":1,"mapTasks":[]}\n'),
    "job-summary": ("job.summary", b"jobId=job_1_0001,submitTime=1,status=SUCCEEDED,jobName=a\n"),
    # query profile
    "wlr-csv": ("t.csv", b"q.a,q.b,user_us\n1,2,3\n4,5,6\n"),
    "pgss-csv": ("pgss.csv", b"userid,dbid,queryid,query,calls,total_exec_time,rows\n1,2,3,SELECT 1,4,5.5,6\n"),
    "pgss-json": ("pgss.json", b'[{"queryid":"3","query":"SELECT 1","calls":4,"total_exec_time":5.5,"rows":6}]\n'),
    "pgss-info": ("info.csv", b"captured_at,dealloc,stats_reset\n2026-01-01T00:00:00Z,0,2026-01-01T00:00:00Z\n"),
    "mysql-digest": ("digest.tsv", b"SCHEMA_NAME\tDIGEST\tDIGEST_TEXT\tCOUNT_STAR\tSUM_TIMER_WAIT\na\tb\tSELECT ?\t1\t2\n"),
    "slow-log": ("slow.log", b"# Time: 2026-01-01T00:00:00Z\n# User@Host: root[root] @ localhost []  Id: 5\n# Query_time: 1.5"
                 b"  Lock_time: 0.1 Rows_sent: 1  Rows_examined: 2\nSET timestamp=1767225600;\nSELECT 'a', 1 FROM t;\n"),
    "pt-query-digest": ("digest.json", b'{"classes":[{"checksum":"A","fingerprint":"select ?","query_count":1,'
                        b'"metrics":{"Query_time":{"sum":"1.5"}}}]}'),
    "cpu-csv": ("cpu.csv", b"captured_at,user_us,system_us\n2026-01-01T00:00:00Z,1,2\n2026-01-01T00:01:00Z,3,4\n"),
    "proc-stat": ("stat", b"cpu  1 2 3 4 5 6 7 8 9 0\ncpu0 1 2 3 4 5 6 7 8 9 0\n"),
    "pid-stat": ("stat", b"12 (post (x)) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17\n"),
    "vmstat": ("vmstat.txt", b"procs ----memory---- -cpu- ---timestamp---\n r  b us sy id wa st                 UTC\n"
               b" 1  0  5  1 94  0  0 2026-01-01 00:00:00\n 1  0  5  1 94  0  0 2026-01-01 00:00:05\n"),
    "sysstat-json": ("mpstat.json", b'{"sysstat":{"hosts":[{"nodename":"a","number-of-cpus":2,"date":"2026-01-01","statistics":['
                     b'{"timestamp":"00:00:05","cpu-load":[{"cpu":"all","usr":1.5,"sys":1.5,"idle":97.0}]}]}]}}\n'),
    "sadf-d": ("sadf.csv", b"# hostname;interval;timestamp;CPU;%user;%nice;%system;%iowait;%steal;%idle\n"
               b"a;60;2026-01-01 00:01:00 UTC;-1;10;0;1;0;0;89\n"),
    "docker-stats": ("stats.json", b'{"Name":"db","Container":"x","CPUPerc":"12.3%"}\n{"Name":"db","CPUPerc":"1%"}\n'),
    "node-exporter-cpu": ("node.prom", _SCRAPE),
    # run comparison
    "run-metadata": ("started.json", b'{"timestamp":1767225600,"pull":"x"}'),
    "clusterloader-report": ("SchedulingThroughput_load_2026-01-01T00:00:00Z.json", b'{"version":"v1","dataItems":'
                             b'[{"data":{"Perc50":1.5},"unit":"ms","labels":{"Metric":"x"}}]}'),
    "build-log": ("build-log.txt", b"I0101 00:00:00.000000  1 x.go:1] [Result:x] {\nI0101 1] foo: {\"a\": 1}\n"),
    "go-benchmark": ("bench.txt", b"goos: linux\ngoarch: amd64\npkg: a\nBenchmarkA-8   \t 100\t  1.5 ns/op\t 5 B/op\nPASS\n"),
    "k6-summary": ("summary.json", b'{"root_group":{"name":""},"metrics":{"http_req_duration":{"avg":1.5,"p(95)":2.5}}}'),
    "pytest-benchmark": ("bench.json", _BENCHMARKS),
    "hyperfine": ("hyperfine.json", b'{"results":[{"command":"a","mean":1.5,"times":[1.5,1.6]}]}'),
    "jmh": ("jmh.json", b'[{"jmhVersion":"1","benchmark":"a","mode":"thrpt","primaryMetric":{"score":1.5,"scoreUnit":"ops/s"}}]'),
    "fio": ("fio.json", b'{"fio version":"fio-3","timestamp":1,"jobs":[{"jobname":"a","read":{"iops":1.5,"bw":1}}]}'),
    "pyperf": ("perf.json", b'{"benchmarks":[{"runs":[{"values":[1.5]}],"metadata":{"name":"a"}}],"version":"1.0"}'),
    "kube-burner": ("burner.json", b'[{"metricName":"x","uuid":"u","timestamp":"2026-01-01T00:00:00Z","value":1.5}]'),
    "sysbench": ("sysbench.txt", b"sysbench 1.0.20\n\nSQL statistics:\n    transactions:      100    (10.5 per sec.)\n"
                 b"Latency (ms):\n         min:                 1.5\n         avg:     2.5\n"),
    "csv-series": ("nightly.csv", b"time,branch,p99\n2026-01-01T00:00:00Z,main,1.5\n2026-01-02T00:00:00Z,main,1.6\n"),
    # ring placement
    "ring-page": ("ring.json", b'{"shards":[{"id":"a","state":"ACTIVE","address":"h:1","tokens":[1,2]}],"now":"x"}'),
    "memberlist-json": ("members.json", b'{"ingesters":{"a":{"addr":"h:1","timestamp":1,"state":0,"tokens":[1,2]}}}'),
    "placement-rules": ("placement_rules.binpb", b"\x0a\x0b\x0a\x03abc\x12\x02ok\x18\x01\x10\x05"),
    "placement-stats": ("placement_stats.binpb", b"\x0a\x0b\x0a\x03abc\x12\x02ok\x18\x01\x10\x05"),
    "block": ("block.bin", b"data\x0a\x03abc\x05\x00\x00\x00"),
    "load-table": ("load.csv", b"tenant,dataset,bytes_per_s\na,b,1.5\n"),
    "overrides": ("overrides.yaml", b"overrides:\n  a:\n    ingestion_tenant_shard_size: 3\n"),
    "placement-metrics": ("metrics.prom", b"# TYPE pyroscope_x counter\n"
                          b'pyroscope_adaptive_placement_tenant_shard_limit{tenant="a"} 5\n'),
    "memberlist-binary": ("members.bin", b"\x0e\x34\x0a\x0c\x0a\x01a\x12\x07\x0a\x03h:1\x10\x05"),
}  # fmt: skip
"""Name and bytes of a small file, by kind. A new kind needs one."""

PATTERNS = (
    b" ", b"\t", b"\n", b"\r", b"\x00", b"\xff", b"\x1b[", b'"', b'","', b"'", b"`", b"\\", b'\\"', b"a\\",
    b"0", b"1 ", b"1.", b"1,", b"00:", b"20-", b"0x", b"1e", b"_1", b"-",
    b"a", b"a ", b"a_", b"a.", b"a,", b"a;", b"a|", b"a: ", b"a=", b"a=b,", b"A\n", b":", b",", b";", b"=", b"@", b"#", b"# a: ",
    b"/*", b"?,", b"(?),", b"(", b"()", b"[", b"[],", b"{", b"{},", b"}", b'{"a":', b'"a":1,', b"<", b"<a>", b"&amp;", b"<!--",
    b"- ", b"a:\n", b"&a ", b"\x0a\x01", b"\x0a\xff\xff", b"\x80",
    b", Version: ", b"started with:", b"Query_time: ", b"SET timestamp=", b"2026-01-01 00:00:00 ", b"q.a,",
)  # fmt: skip
"""What is repeated: blanks, quotes, brackets, digits, separators, and words that readers look for."""

LINES = (b"\n", b"1,2,3\n")
"""Short lines, of which a file has many: an empty one, and one that is no record of anything."""


def files(seed: bytes, pattern: bytes, size: int) -> Iterator[bytes]:
    """Yield ``seed`` with about ``size`` bytes of ``pattern`` in its first line (a part of it, if it has one only), and behind
    it."""
    run = pattern * (size // len(pattern))
    first = seed.find(b"\n")
    for place in (first if 0 <= first < len(seed) - 1 else len(seed) * 2 // 3, len(seed)):
        yield seed[:place] + run + seed[place:]
