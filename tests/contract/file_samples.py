"""A small file of each kind that a view's sample data do not hold, by view and kind: its name and its bytes.

``test_recognition`` holds every reader to them.
"""

from __future__ import annotations

import base64
import io
import zipfile

import polars as pl

from sample_data.ring_placement.protobuf import write_bytes, write_int, write_packed


def _parquet(columns: dict[str, list[object]]) -> bytes:
    file = io.BytesIO()
    pl.DataFrame(columns).write_parquet(file)
    return file.getvalue()


def _snappy(content: bytes) -> bytes:
    """Pack as a Snappy block of one literal."""
    assert len(content) <= 60, "what one byte of length can say"
    return bytes([len(content), (len(content) - 1) << 2]) + content


def _tez_archive() -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        archive.writestr(
            "dag.json",
            '{"dag":{"entitytype":"TEZ_DAG_ID","entity":"dag_1760000000000_0001_1","otherinfo":{"status":"SUCCEEDED"}}}',
        )
    return made.getvalue()


def _spark_archive() -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(
            zipfile.ZipInfo("application_1760000000000_0001"),
            '{"Event":"SparkListenerApplicationStart","App Name":"count","App ID":"application_1760000000000_0001",'
            '"Timestamp":1760000000000,"User":"ann"}\n',
        )
    return file.getvalue()


def _memberlist_key() -> bytes:
    member = write_bytes(1, b"10.0.0.1:9095") + write_int(2, 1_760_000_000) + write_packed(6, [1, 2])
    return _snappy(write_bytes(1, write_bytes(1, b"writer-0") + write_bytes(2, member)))


def _partition_ring() -> bytes:
    partition = write_packed(1, [1, 2]) + write_int(2, 2) + write_int(3, 1_760_000_000)
    owner = write_bytes(1, b"ingester-1") + write_bytes(2, write_int(1, 1) + write_int(2, 1))
    return _snappy(write_bytes(1, write_int(1, 1) + write_bytes(2, partition)) + write_bytes(2, owner))


SAMPLES: dict[str, dict[str, tuple[str, bytes]]] = {
    "broker-load": {
        "cruise-control-json": (
            "load.json",
            b'{"version":1,"hosts":[],"brokers":[{"Broker":1,"Host":"b1","BrokerState":"ALIVE","DiskMB":10.0,"DiskPct":1.0,'
            b'"CpuPct":2.0,"LeaderNwInRate":1.0,"FollowerNwInRate":1.0,"NwOutRate":1.0,"PnwOutRate":1.0,"Replicas":2,'
            b'"Leaders":1}]}',
        ),
        "cluster-listing": (
            "api-versions.txt",
            b"kafka-1.example.net:9092 (id: 1 rack: a) -> (\n\tProduce(0): 0 to 11\n)\n",
        ),
        "cruise-control-text": (
            "partition_load.txt",
            b"PARTITION LEADER FOLLOWERS CPU (%_CORES) DISK (MB) NW_IN (KB/s) NW_OUT (KB/s) MSG_IN (#/s)\n"
            b"orders-3 7 [8] 1.0 10.0 2.0 3.0 4.0\n",
        ),
        "parquet": (
            "brokers.parquet",
            _parquet({"broker": [1], "host": ["b1"], "rack": ["r1"], "alive": [True]}),
        ),
    },
    "job-heuristics": {
        "fleet-result": (
            "day=2026-01-05/manifest/part-00000.txt",
            b'{"loadlens": "0.1.0", "view": "job-heuristics", "at": "2026-01-05T10:00:00Z", "parameters": {"mode": "upstream"}, '
            b'"paths": ["hdfs:///done"], "files": 2, "bytes": 1000, "rows": {"jobs": 1}, "findings": {"low": 1}}\n',
        ),
        "mapreduce-rest": (
            "job.json",
            b'{"job":{"id":"job_1760000000000_0001","name":"sort","state":"SUCCEEDED","user":"ann","queue":"etl",'
            b'"submitTime":1760000000000,"startTime":1760000001000,"finishTime":1760000009000}}',
        ),
        "tez-answer": (
            "dag.json",
            b'{"entities":[{"entitytype":"TEZ_DAG_ID","entity":"dag_1760000000000_0001_1","starttime":1760000001000,'
            b'"otherinfo":{"status":"SUCCEEDED","startTime":1760000001000,"endTime":1760000009000}}]}',
        ),
        "tez-archive": ("dag_1760000000000_0001_1.zip", _tez_archive()),
        "tez-history": (
            "history.txt.appattempt_1760000000000_0001_000001",
            b'{"entityId":"dag_1760000000000_0001_1","entityType":"TEZ_DAG_ID","events":[{"ts":1760000001000,'
            b'"eventType":"DAG_STARTED"}],"otherInfo":{"startTime":1760000001000}}\x01\n'
            b'{"entityId":"vertex_1760000000000_0001_1_00","entityType":"TEZ_VERTEX_ID",'
            b'"otherInfo":{"vertexName":"Map 1"}}\x01\n',
        ),
        "spark-archive": ("eventLogs-application_1760000000000_0001.zip", _spark_archive()),
    },
    "query-profile": {
        "wlr-csv": ("table.csv", b"q1,q2,user_us\n1,2,300\n2,1,250\n"),
        "pgss-json": (
            "pgss-1760000000.json",
            b'[{"userid":10,"dbid":5,"queryid":42,"query":"select 1","calls":3,"total_exec_time":4.5,"rows":3}]',
        ),
        "pg-names": ("pg_roles.csv", b"oid,rolname\n10,postgres\n16385,app\n"),
        "mysql-digest": (
            "digest-1760000000.tsv",
            b"SCHEMA_NAME\tDIGEST\tDIGEST_TEXT\tCOUNT_STAR\tSUM_TIMER_WAIT\nshop\tabc123\tSELECT ?\t5\t9000000\n",
        ),
        "slow-log": (
            "slow.log",
            b"# Time: 2026-01-05T10:00:00.000000Z\n# User@Host: app[app] @ host []  Id: 8\n"
            b"# Query_time: 0.250000  Lock_time: 0.000010 Rows_sent: 1  Rows_examined: 100\n"
            b"SET timestamp=1767607200;\nselect * from t where id = 1;\n",
        ),
        "slow-log-table": (
            "slow_log.tsv",
            b"start_time\tuser_host\tquery_time\tlock_time\trows_sent\trows_examined\tdb\tsql_text\n"
            b"2026-01-05 10:00:00.5\tapp[app] @ web1 []\t00:00:01.250000\t00:00:00.000010\t1\t9\tshop\tSELECT a\\n FROM t\n",
        ),
        "postgresql-log": (
            "postgresql.log",
            b"2026-01-05 10:00:01.250 UTC [71] app@shop LOG:  duration: 12.5 ms  statement: SELECT a\n\tFROM t\n",
        ),
        "postgresql-csvlog": (
            "postgresql.csv",
            b"2026-01-05 10:00:01.250 UTC,app,shop,71,10.0.0.9:4,6b0.1,8,SELECT,2026-01-05 09:00:00 UTC,5/0,0,LOG,00000,"
            b'"duration: 12.5 ms  statement: SELECT a\n FROM t",,,,,,,,,api,client backend,,0\n',
        ),
        "postgresql-jsonlog": (
            "postgresql.json",
            b'{"timestamp":"2026-01-05 10:00:01.250 UTC","user":"app","dbname":"shop","pid":71,"error_severity":"LOG",'
            b'"message":"duration: 12.5 ms  statement: SELECT a FROM t"}\n',
        ),
        "cloudwatch-events": (
            "events.json",
            b'{"events":[{"timestamp":1767607201250,"message":"2026-01-05 10:00:01 UTC:10.0.0.9(4):app@shop:[71]:LOG:  duration: '
            b'12.5 ms  statement: SELECT a"}]}',
        ),
        "pg-stat-monitor": (
            "pgsm.csv",
            b"bucket,bucket_start_time,username,datname,queryid,query,calls,total_exec_time,rows,cpu_user_time,cpu_sys_time\n"
            b"3,2026-01-05 10:00:00+00,app,shop,-7,SELECT $1,4,20,4,8,1\n",
        ),
        "cgroup-cpu": ("cpu.stat-1767607200", b"usage_usec 300\nuser_usec 200\nsystem_usec 100\nnr_throttled 0\n"),
        "pidstat": (
            "pidstat.txt",
            b"Linux 6.1.0 (db1) \t2026-01-05 \t_x86_64_\t(2 CPU)\n\n# Time UID PID %usr %system %guest %wait %CPU CPU Command\n"
            b"1767607205 101 71 2.60 0.20 0.00 0.40 2.80 0 postgres\n1767607210 101 71 1.00 0.20 0.00 0.40 1.20 0 postgres\n",
        ),
        "pt-query-digest": (
            "digest.json",
            b'{"classes":[{"checksum":"ABC","fingerprint":"select ?","query_count":2,"ts_min":"2026-01-05 10:00:00",'
            b'"ts_max":"2026-01-05 10:05:00","example":{"query":"select 1"},"metrics":{"Query_time":{"sum":"0.5"}}}]}',
        ),
        "pid-stat": (
            "pidstat-1760000000",
            b"1234 (postgres) S 1 1234 1234 0 -1 4194560 100 0 0 0 250 50 10 5 20 0 1 0 100 1000000 200\n",
        ),
        "vmstat": (
            "vmstat.txt",
            b"procs -----------memory---------- ---swap-- -----io---- -system-- ------cpu----- -----timestamp-----\n"
            b" r  b   swpd   free   buff  cache   si   so    bi    bo   in   cs us sy id wa st                 UTC\n"
            b" 1  0      0 100000   1000 200000    0    0     1     1   10   20  5  2 92  1  0 2026-01-05 10:00:00\n"
            b" 1  0      0 100000   1000 200000    0    0     1     1   10   20  6  2 91  1  0 2026-01-05 10:01:00\n",
        ),
        "sysstat-json": (
            "mpstat.json",
            b'{"sysstat":{"hosts":[{"nodename":"db1","number-of-cpus":2,"date":"2026-01-05","statistics":['
            b'{"timestamp":"10:00:00","cpu-load":[{"cpu":"all","usr":5.0,"nice":0.0,"sys":2.0,"iowait":1.0,"irq":0.0,'
            b'"soft":0.0,"steal":0.0,"guest":0.0,"gnice":0.0,"idle":92.0}]},'
            b'{"timestamp":"10:01:00","cpu-load":[{"cpu":"all","usr":6.0,"nice":0.0,"sys":2.0,"iowait":1.0,"irq":0.0,'
            b'"soft":0.0,"steal":0.0,"guest":0.0,"gnice":0.0,"idle":91.0}]}]}]}}',
        ),
        "sadf-d": (
            "sadf.csv",
            b"# hostname;interval;timestamp;CPU;%user;%nice;%system;%iowait;%steal;%idle\n"
            b"db1;60;2026-01-05 10:00:00 UTC;-1;5.0;0.0;2.0;1.0;0.0;92.0\n",
        ),
        "docker-stats": (
            "docker-1760000000.json",
            b'{"BlockIO":"0B / 0B","CPUPerc":"12.50%","Container":"abc","MemPerc":"1.0%","Name":"db1"}\n',
        ),
        "pg-stat-kcache": (
            "kcache-1760000000.csv",
            b"captured_at,queryid,top,userid,dbid,exec_user_time,exec_system_time\n2026-01-05 10:00:00+00,42,t,10,5,1.5,0.5\n",
        ),
        "exporter-series": (
            "node-1760000000.prom",
            b"# HELP node_cpu_seconds_total Seconds the CPUs spent in each mode.\n# TYPE node_cpu_seconds_total counter\n"
            b'node_cpu_seconds_total{cpu="0",mode="idle"} 1000\nnode_cpu_seconds_total{cpu="0",mode="user"} 50\n',
        ),
    },
    "run-comparison": {
        "build-log": (
            "build-log.txt",
            b"I0105 10:00:00.000000] Running Suite: Kubernetes e2e suite\n"
            b'I0105 10:00:01.000000] [Result:Performance] {\nI0105 10:00:01.000000]   "version": "v1",\n'
            b'I0105 10:00:01.000000]   "dataItems": [{"data": {"Perc50": 5.5}, "unit": "ms",\n'
            b'I0105 10:00:01.000000]   "labels": {"Verb": "GET", "Resource": "pods", "Count": "10"}}]\n'
            b"I0105 10:00:01.000000] }\nI0105 10:00:01.000000] [Finished:Performance]\n",
        ),
        "k6-summary": (
            "summary.json",
            b'{"root_group":{},"metrics":{"http_req_duration":{"type":"trend","contains":"time",'
            b'"values":{"avg":1.5,"p(95)":3.0}}}}',
        ),
        "pytest-benchmark": (
            "0001_unversioned.json",
            b'{"machine_info":{"python_version":"3.11"},"datetime":"2026-01-05T10:00:00","benchmarks":[{"group":null,'
            b'"fullname":"t.py::a","stats":{"min":0.1,"median":0.2,"mean":0.2}}]}',
        ),
        "jmh": (
            "jmh.json",
            b'[{"jmhVersion":"1.37","benchmark":"a.B.c","mode":"avgt","primaryMetric":{"score":5.0,"scoreUnit":"us/op"}}]',
        ),
        "fio": (
            "fio.json",
            b'{"fio version":"fio-3.33","timestamp_ms":1760000000000,"jobs":[{"jobname":"j","read":{"total_ios":4,'
            b'"iops":10.5,"bw_bytes":1000}}]}',
        ),
        "pyperf": (
            "pyperf.json",
            b'{"benchmarks":[{"runs":[{"values":[0.5,0.6]}],"metadata":{"name":"x"}}],"version":"1.0"}',
        ),
        "kube-burner": (
            "podLatencyQuantilesMeasurement-job.json",
            b'[{"quantileName":"Ready","uuid":"u","P99":5,"P50":2,"metricName":"podLatencyQuantilesMeasurement",'
            b'"jobName":"j","timestamp":"2026-01-05T10:00:00Z"}]',
        ),
        "iperf3": (
            "iperf.json",
            b'{"start":{"connected":[{"socket":5}],"version":"iperf 3.16","timestamp":{"timesecs":1760000000},"test_start":'
            b'{"protocol":"TCP"}},"intervals":[],"end":{"sum_sent":{"bits_per_second":9.5e9,"retransmits":12},"sum_received":'
            b'{"bits_per_second":9.25e9},"cpu_utilization_percent":{"host_total":31.5,"remote_total":12.5}}}',
        ),
        "google-benchmark": (
            "bench.json",
            b'{"context":{"date":"2026-01-05T10:00:00+00:00","num_cpus":4,"caches":[]},"benchmarks":[{"name":"Sum/8",'
            b'"run_name":"Sum/8","run_type":"iteration","iterations":9,"real_time":5.5,"cpu_time":5.25,"time_unit":"us"}]}',
        ),
        "google-benchmark-csv": (
            "bench.csv",
            b"name,iterations,real_time,cpu_time,time_unit,bytes_per_second,items_per_second,label,error_occurred,error_message\n"
            b'"Sum/8",9,5.5,5.25,us,,,,,\n',
        ),
        "criterion": ("sample.json", b'{"sampling_mode":"Flat","iters":[2.0,4.0],"times":[20.0,44.0]}'),
        "benchmarkdotnet": (
            "Cart-report-full.json",
            b'{"HostEnvironmentInfo":{"BenchmarkDotNetVersion":"0.13"},"Benchmarks":[{"FullName":"Cart.Sum",'
            b'"Statistics":{"OriginalValues":[5.5,5.25]}}]}',
        ),
        "asv": (
            "0a1b-env.json",
            b'{"commit_hash":"0a1b","date":1760000000000,"result_columns":["result","params"],'
            b'"results":{"cart.time_sum":[[0.5,0.25],[["1","2"]]]}}',
        ),
        "github-action-benchmark": ("output.json", b'[{"name":"Start","unit":"ms","value":50.5}]'),
        "github-action-history": (
            "data.js",
            b'window.BENCHMARK_DATA = {"entries":{"Cart":[{"commit":{"id":"0a1b"},"date":1760000000000,"tool":"go",'
            b'"benches":[{"name":"Sum","value":5.5,"unit":"ns/op"}]}]}}\n',
        ),
        "bencher": ("results.json", b'{"cart::sum":{"latency":{"value":50.5,"lower_value":49.5}}}'),
        "criterion-text": ("bench.txt", b"Gnuplot not found\nsum/8                   time:   [5.1 us 5.5 us 5.9 us]\n"),
        "libtest": (
            "bench.txt",
            b"\nrunning 1 test\ntest cart::sum ... bench:       1,234 ns/iter (+/- 56)\n\ntest result: ok.\n",
        ),
        "gungraun": (
            "bench.txt",
            b"     Running benches/cart.rs\ncart::group::sum small:8\n  Instructions:                1734|N/A             (*)\n"
            b"  Estimated Cycles:            2464|N/A             (*)\n",
        ),
        "catch2-text": (
            "tests.txt",
            b"-------\nbenchmark name                       samples       iterations    estimated\n"
            b"                                     mean          low mean      high mean\n"
            b"sum 8                                          100             2     6.6254 ms \n"
            b"                                        33.2 us     32.9 us    33.5 us \n"
            b"\n===\nAll tests passed (1 assertion in 1 test case)\n",
        ),
        "vegeta": (
            "vegeta.json",
            b'{"latencies":{"mean":2371194,"50th":2854306,"99th":3530000},"bytes_in":{"total":606700},'
            b'"earliest":"2026-01-05T10:00:00.645818631+02:00","throughput":101.5,"success":0.99}',
        ),
        "oha": (
            "oha.json",
            b'{"summary":{"successRate":1.0,"average":0.25,"requestsPerSec":100.5},"latencyPercentiles":{"p99":0.5},'
            b'"statusCodeDistribution":{"200":50}}',
        ),
        "ghz": (
            "ghz.json",
            b'{"date":"2026-01-05T10:00:00Z","average":500,"fastest":250,"slowest":1000,"rps":100.5,'
            b'"statusCodeDistribution":{"OK":50},"latencyDistribution":[{"percentage":99,"latency":900}]}',
        ),
        "autocannon": (
            "autocannon.json",
            b'{"start":"2026-01-05T10:00:00.000Z","errors":0,"non2xx":0,"2xx":50,"latency":{"mean":4.5,"p97_5":9,"p99":13},'
            b'"requests":{"mean":100.5}}',
        ),
        "gatling": (
            "stats.json",
            b'{"type":"GROUP","name":"All Requests","path":"","stats":{"name":"All Requests","numberOfRequests":{"total":"50",'
            b'"ok":"49","ko":"1"},"meanResponseTime":{"total":"42","ok":"41","ko":"90"},"percentiles3":{"total":"80","ok":"79",'
            b'"ko":"-"}},"contents":{}}',
        ),
        "ycsb": (
            "ycsb.log",
            b"[OVERALL], RunTime(ms), 800\n[OVERALL], Throughput(ops/sec), 1250.0\n[READ], AverageLatency(us), 412.5\n"
            b"[READ], 99thPercentileLatency(us), 2100\n[READ], Return=OK, 990\n[READ], Return=ERROR, 10\n",
        ),
        "kafka-producer-perf": (
            "producer.txt",
            b"4000 records sent, 800.0 records/sec (0.76 MB/sec), 4.5 ms avg latency, 90.0 ms max latency.\n"
            b"9000 records sent, 900.5 records/sec (0.86 MB/sec), 4.25 ms avg latency, 90.00 ms max latency, 3 ms 50th, 9 ms "
            b"95th, 20 ms 99th, 70 ms 99.9th.\n",
        ),
        "locust-parts": (
            "shop_stats_history.csv",
            b"Timestamp,User Count,Type,Name,Requests/s,50%,Total Request Count,Total Failure Count,Total Average Response Time\n"
            b"1760000000,4,GET,/login,9.5,12,40,1,14.5\n1760000001,4,GET,/login,9.5,30,50,1,15.5\n",
        ),
        "ab-gnuplot": (
            "requests.tsv",
            b"starttime\tseconds\tctime\tdtime\tttime\twait\nTue Jan 06 10:00:00 2026\t1767693600\t1\t4\t5\t4\n",
        ),
        "hyperfine-csv": (
            "hyperfine.csv",
            b"command,mean,stddev,median,user,system,min,max,parameter_jobs\nmake,1.5,0.1,1.4,1.2,0.2,1.3,1.8,4\n",
        ),
        "redis-benchmark": (
            "redis.csv",
            b'"test","rps","avg_latency_ms","p99_latency_ms"\n"SET","90000.5","0.25","0.75"\n',
        ),
        "jmeter-statistics": (
            "statistics.json",
            b'{"login":{"transaction":"login","sampleCount":50,"errorCount":1,"meanResTime":41.5,"pct1ResTime":63.0,'
            b'"throughput":20.5}}',
        ),
        "wrk": (
            "wrk.txt",
            b"Running 2s test @ http://shop.example/\n  Thread Stats   Avg      Stdev     Max   +/- Stdev\n"
            b"    Latency     4.33ms    2.14ms  27.42ms   97.49%\n  1917 requests in 2.00s, 655.22KB read\n"
            b"Requests/sec:    956.71\n",
        ),
        "hey": (
            "hey.txt",
            b"Summary:\n  Total:\t0.3294 secs\n  Slowest:\t0.0085 secs\n  Fastest:\t0.0023 secs\n  Average:\t0.0043 secs\n"
            b"  Requests/sec:\t910.7358\n\nStatus code distribution:\n  [200]\t300 responses\n",
        ),
        "ab": (
            "ab.txt",
            b"This is ApacheBench, Version 2.3 <$Revision$>\nComplete requests:      300\n"
            b"Requests per second:    718.42 [#/sec] (mean)\nTime per request:       5.568 [ms] (mean)\n"
            b" 100%     12 (longest request)\n",
        ),
        "pgbench": (
            "pgbench.txt",
            b"transaction type: cart.sql\nlatency average = 0.193 ms\ntps = 10098.453532 (without initial connection time)\n",
        ),
        "mlperf": (
            "mlperf_log_summary.txt",
            b"====\nMLPerf Results Summary\n====\nSUT name : shop\nSamples per second: 1210.5\nResult is : VALID\n"
            b"Test Parameters Used\n",
        ),
        "jmeter-jtl": ("results.jtl", b"timeStamp,elapsed,label,success\n1760000000000,50,login,true\n"),
        "jmeter-jtl-xml": (
            "results.jtl",
            b'<?xml version="1.0"?>\n<testResults version="1.2">\n<httpSample t="50" lb="login" ts="1760000000000" s="true"/>\n'
            b"</testResults>\n",
        ),
        "hey-csv": (
            "hey.csv",
            b"response-time,DNS+dialup,DNS,Request-write,Response-delay,Response-read,status-code,offset\n"
            b"0.0052,0.0002,0.0000,0.0000,0.0048,0.0001,200,0.0001\n",
        ),
        "locust": (
            "shop_stats.csv",
            b"Type,Name,Request Count,Failure Count,Median Response Time,Average Response Time,Requests/s\n"
            b"GET,/login,468,0,7,7.98,93.5\n,Aggregated,468,0,7,7.98,93.5\n",
        ),
        "k6-csv": (
            "results.csv",
            b"metric_name,timestamp,metric_value,status\nhttp_req_duration,1760000000,39.5,200\n",
        ),
        "k6-json": (
            "results.json",
            b'{"metric":"http_req_duration","type":"Metric","data":{"type":"trend","contains":"time"}}\n'
            b'{"metric":"http_req_duration","type":"Point","data":{"time":"2026-01-05T10:00:00Z","value":39.5}}\n',
        ),
        "catch2": (
            "bench.xml",
            b'<?xml version="1.0"?>\n<Catch name="cart"><TestCase name="sum"><BenchmarkResults name="sum 8" samples="20">\n'
            b'<mean value="3251.5"/></BenchmarkResults></TestCase></Catch>\n',
        ),
        "sysbench": (
            "sysbench.txt",
            b"sysbench 1.0.20 (using system LuaJIT 2.1.0)\nRunning the test with following options:\n"
            b"General statistics:\n    total time:      10.0003s\nLatency (ms):\n         min:      0.50\n"
            b"         avg:      1.00\n         max:      2.00\n         95th percentile:      1.50\n         sum:      9.00\n",
        ),
    },
    "ring-placement": {
        "memberlist-json": (
            "ring-key.json",
            b'{"ingesters":{"writer-0":{"addr":"10.0.0.1:9095","timestamp":1760000000,"state":0,"tokens":[1,2],"zone":"a"}}}',
        ),
        "memberlist-binary": ("ring-key.bin", _memberlist_key()),
        "partition-ring": (
            "partitions.json",
            b'{"partitions":{"1":{"tokens":[1,2],"state":2,"stateTimestamp":1760000000}},'
            b'"owners":{"ingester-1":{"ownedPartition":1,"state":1}}}',
        ),
        "partition-ring-binary": ("partitions.bin", _partition_ring()),
        "ring-html": (
            "ring.html",
            b"<p>Current time: 2026-01-05 10:00:00 +0000 UTC</p><table><tr><th>Instance ID</th><th>Availability Zone</th>"
            b"<th>State</th><th>Address</th><th>Registered At</th><th>Last Heartbeat</th><th>Tokens</th></tr>"
            b"<tr><td>ingester-1</td><td>a</td><td>ACTIVE</td><td>10.0.0.1:9095</td><td>2026-01-05T09:00:00Z</td>"
            b"<td>5s ago (09:59:55)</td><td>128</td></tr></table></html>",
        ),
        "ring-store": (
            "consul.json",
            b'[{"Key":"collectors/ring","Value":"' + base64.b64encode(_memberlist_key()) + b'"}]',
        ),
        "overrides": (
            "config.yaml",
            b"target: all\ningester:\n  ring:\n    replication_factor: 3\n    zone_awareness_enabled: true\n"
            b"    heartbeat_timeout: 1m0s\n",
        ),
        "key-table": ("keys.csv", b"tenant,token,bytes_per_s\nacme,123456,1000\n"),
        "load-table": ("load.csv", b"tenant,dataset,bytes_per_s\nacme,cart,1000\n"),
    },
}
