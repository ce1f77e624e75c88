"""The command ``feeds``: the exact commands that get a view's data. It only prints; no connection is opened."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import msgspec

from tui.cli.output import FINE, UsageError, write

if TYPE_CHECKING:
    import argparse


class Ask(msgspec.Struct, frozen=True):
    """One question to Prometheus: the ``selector`` of its series, a ``file`` for the answer, and what it is ``about``."""

    selector: str
    file: str
    about: str


ASKS: dict[str, tuple[Ask, ...]] = {
    "broker-load": (
        Ask(
            '{__name__=~"kafka_server_(?i:brokertopicmetrics)_.*|kafka_log_(?i:log)_(?i:size|value)|kafka_server_app_info.*|'
            'kafka_cluster_partition_(replicascount|insyncreplicascount)|process_cpu_seconds_total|redpanda_kafka_request_bytes_total|redpanda_cpu_busy_seconds_total",job=~".*(kafka|'
            'redpanda).*"}',
            "kafka",
            "traffic, sizes and CPU of the brokers; correct the job to yours",
        ),
        Ask('{__name__=~"kafka_topic_partition_(leader|replicas|in_sync_replica|current_offset)|kafka_broker_info|'
            'kminion_kafka_(broker_info|topic_info|topic_partition_high_water_mark|(broker|topic)_log_dir_size_total_bytes)"}',
            "cluster", "leaders, offsets and log-dir totals, where kafka_exporter or kminion runs"),
        Ask('{__name__=~"node_cpu_seconds_total|node_uname_info",mode=~"idle|",instance=~"kafka.*"}', "node-cpu",
            "CPU of their machines; correct the instance to yours, or leave it out"),
        Ask('{__name__=~"container_cpu_usage_seconds_total|container_spec_cpu_(quota|period)|'
            'kube_pod_container_resource_limits",container=~".*kafka.*"}', "container-cpu", "or of their containers"),
        Ask('{__name__=~"kubelet_volume_stats_(used|capacity)_bytes",persistentvolumeclaim=~".*kafka.*"}', "volumes",
            "and their volumes, where no size of partitions is known"),
    ),
    "query-profile": (
        Ask('{__name__=~"(pgwatch_)?pg_stat_(statements|kcache)_.*|mysql_perf_schema_events_statements_.*"}', "statements",
            "query classes, as postgres_exporter (collector stat_statements) or mysqld_exporter lists them"),
        Ask('{__name__=~"node_cpu_seconds_total|node_uname_info",instance=~"db.*"}', "node-cpu",
            "CPU of the database servers; correct the instance to yours, or leave it out"),
        Ask('{__name__=~"container_cpu_usage_seconds_total|container_spec_cpu_(quota|period)|'
            'kube_pod_container_resource_limits",container=~".*(postgres|mysql|maria|database).*"}', "container-cpu",
            "or of their containers"),
    ),
    "ring-placement": (
        Ask('{__name__=~"pyroscope_(adaptive_placement|segment_writer|ring)_.*(usage|limit|bytes_sum|members).*"}', "placement",
            "Pyroscope's placement metrics; the ring page is needed beside them"),
        Ask('{__name__=~"(cortex|loki|tempo)_(distributor_(received|bytes|spans).*|ingester_(memory|active|owned).*|ring_members)'
            '"}', "tenants", "loads of tenants of Mimir, Loki, Tempo; the ring page is needed beside them"),
    ),
}  # fmt: skip
"""What each view asks a Prometheus, in the order of use; Prometheus has nothing for the others."""

OTHERS: dict[str, tuple[tuple[str, str], ...]] = {
    "broker-load": (
        ("JMX-exporter and node_exporter scrapes; time from the name or the mtime",
         "* * * * * for h in b1 b2 b3; do mkdir -p {folder}/$h && curl -s http://$h:7071/metrics -o "
         "{folder}/$h/$(date +\\%s).prom; done"),
        ("topology; likewise kafka-log-dirs --describe",
         "*/5 * * * * kafka-topics.sh --bootstrap-server b1:9092 --describe > {folder}/topics.txt"),
        ("Cruise Control's load, partition_load or kafka_cluster_state, as JSON or text",
         "curl -s 'http://CC:9090/kafkacruisecontrol/load?json=true' -o {folder}/load.json"),
        ("racks, and which brokers are alive",
         "*/5 * * * * kafka-broker-api-versions.sh --bootstrap-server b1:9092 > {folder}/api-versions.txt"),
        ("copy: reassignment JSON, capacity.json (plain, cores, JBOD), brokers.csv (broker, host, rack, alive)", ""),
        ("from any exporter: CSV or Parquet of raw metrics, samples or observations", ""),
    ),
    "job-heuristics": (
        ("hdfs dfs -get makes no folder", "mkdir -p {folder}/jobs"),
        (".jhist of finished jobs, text and binary, Hadoop 0.23 to 3, with their JOBID_conf.xml",
         "*/2 * * * * hdfs dfs -get -f /mr-history/done/$(date +\\%Y/\\%m/\\%d) {folder}/jobs/"),
        ("the same of running jobs (or watch a mounted HDFS)",
         "*/2 * * * * hdfs dfs -get -f /tmp/hadoop-yarn/staging/USER/.staging {folder}/jobs/"),
        ("Spark event logs, 1.3 to 4.x (1.0 to 1.2 as folders): plain, packed or rolling, running or finished",
         "*/2 * * * * hdfs dfs -get -f /spark-logs {folder}/jobs/"),
        ("or one application from Spark's history server",
         "curl -s http://HISTORY:18080/api/v1/applications/APPID/logs -o {folder}/jobs/APPID.zip"),
        ("Tez: proto histories of Hive 3 and 4, CDP and HDP 3 (app_data, dag_data), finished or running",
         "*/2 * * * * hdfs dfs -get -f /warehouse/tablespace/external/hive/sys.db/dag_data {folder}/jobs/"),
        ("Tez: answers of the timeline server; likewise TEZ_TASK_ID, TEZ_VERTEX_ID, TEZ_DAG_ID, TEZ_APPLICATION",
         "curl -s 'http://TIMELINE:8188/ws/v1/timeline/TEZ_TASK_ATTEMPT_ID?primaryFilter=TEZ_DAG_ID:DAGID&limit=500000' "
         "-o {folder}/jobs/DAGID.json"),
        ("Tez: DAGID.zip of the Tez UI (Download data), history.txt.*, summarylog-* and entitylog-* of timeline 1.5",
         "hdfs dfs -get -f /ats/done/APPID {folder}/jobs/"),
        ("REST answers of the MapReduce history server and application master, in the server's own paths",
         "curl -s --create-dirs http://HISTORY:19888/ws/v1/history/mapreduce/jobs/JOBID/tasks -o {folder}/jobs/JOBID/tasks.json"),
    ),
    "query-profile": (
        ("the CPU of the server alone, right on a shared host and in a container: its control group's (likewise of mariadb, "
         "kubepods…, docker-ID.scope; version 1: cpuacct.usage)",
         "* * * * * cp /sys/fs/cgroup$(systemctl show -P ControlGroup postgresql@15-main)/cpu.stat "
         "{folder}/cpu.stat-$(date +\\%s)"),
        ("or of its processes (short connections are missed)",
         "pidstat -h -H -u -G postgres 5 > {folder}/pidstat.txt"),
        ("pg_stat_statements, PostgreSQL 9.2 to 18",
         '* * * * * psql -qc "copy (select now() captured_at, s.* from pg_stat_statements s) to stdout csv header" > '
         "{folder}/pgss-$(date +\\%s).csv"),
        ("CPU by class as pg_stat_kcache counts it: then it is the profile, and the model's error shows",
         '* * * * * psql -qc "copy (select now() captured_at, k.* from pg_stat_kcache() k) to stdout csv header" > '
         "{folder}/kcache-$(date +\\%s).csv"),
        ("names of users and databases; likewise of pg_database (oid, datname)",
         'psql -qc "copy (select oid, rolname from pg_roles) to stdout csv header" > {folder}/roles.csv'),
        ("MySQL and MariaDB statement digests",
         "* * * * * mariadb --batch -e 'select * from performance_schema.events_statements_summary_by_digest' > "
         "{folder}/digest-$(date +\\%s).tsv"),
        ("the table mysql.slow_log (log_output = TABLE)",
         "*/5 * * * * mariadb --batch -e 'select * from mysql.slow_log' > {folder}/slow_log.tsv"),
        ("pg_stat_monitor, with its CPU",
         '*/5 * * * * psql -qc "copy (select * from pg_stat_monitor) to stdout csv header" > {folder}/pgsm-$(date +\\%s).csv'),
        ("logs of a managed database, page by page",
         "aws logs filter-log-events --log-group-name /aws/rds/instance/NAME/slowquery > {folder}/events.json"),
        ("where the host runs nothing else: its CPU; likewise vmstat -t, mpstat -o JSON, sadf -j or -d; of the server: "
         "/proc/PID/stat, docker stats as JSON, cAdvisor, CSV (captured_at,user_us,system_us)",
         "* * * * * cp /proc/stat {folder}/stat-$(date +\\%s)"),
        ("watch their folder: slow logs, PostgreSQL's logs (stderr, csvlog, jsonlog; log_min_duration_statement = 0), "
         "pt-query-digest --output json", ""),
        ("from any exporter: VividCortex's table, a row per interval, a column per class and the resource", ""),
    ),
    "run-comparison": (
        ("run folders JOB/RUN/ of a CI: started.json, finished.json, artifacts/ (ClusterLoader2 summaries, perfdash kinds, "
         "kube-burner documents, build logs)",
         "*/10 * * * * gsutil -m rsync -r gs://BUCKET/logs/JOB {folder}/JOB"),
        ("go test -bench, pytest-benchmark, pyperf, hyperfine, JMH, fio, sysbench: a folder per run, any depth",
         "mkdir -p {folder}/after/1 && go test -bench . > {folder}/after/1/bench.txt"),
        ("Google Benchmark, with --benchmark_repetitions=10; likewise CSV",
         "./BENCHMARK --benchmark_out={folder}/after/1/bench.json --benchmark_out_format=json"),
        ("cargo bench: criterion's folder, or the text of criterion, libtest and gungraun",
         "cargo bench && cp -r target/criterion {folder}/after/1/"),
        ("BenchmarkDotNet (JSON exporter), Catch2 (text, XML), asv (results/), github-action-benchmark (list, data.js), Bencher",
         "TESTS -r xml > {folder}/after/1/catch2.xml"),
        ("JMeter: JTL as CSV or XML, or report/statistics.json", "jmeter -n -t plan.jmx -l {folder}/after/1/results.jtl"),
        ("k6: a stream as JSON or CSV, or --summary-export", "k6 run --out json={folder}/after/1/k6.json script.js"),
        ("vegeta, oha, ghz, autocannon: their JSON; Gatling: js/stats.json of the report",
         "vegeta report -type=json results.bin > {folder}/after/1/vegeta.json"),
        ("wrk, wrk2, hey, ab, pgbench, YCSB, kafka-producer-perf-test, MLPerf's summary: their text; redis-benchmark --csv",
         "wrk -d 30s --latency URL > {folder}/after/1/wrk.txt"),
        ("locust: PREFIX_stats.csv", "locust --headless -t 60s --csv {folder}/after/1/shop"),
        ("CSV with a time column: a run per row, a minute or more apart, or per value of a column run, build, commit, …", ""),
    ),
    "ring-placement": (
        ("Pyroscope: the ring page as JSON",
         "* * * * * curl -s -H 'Accept: application/json' http://DISTRIBUTOR:4040/ring-segment-writer -o {folder}/ring.json"),
        ("or its memberlist key, as JSON or as downloaded (?downloadKey=)",
         "curl -s 'http://DISTRIBUTOR:4040/memberlist?viewKey=collectors/segment-writer-ring&format=json' -o "
         "{folder}/ring-key.json"),
        ("limits, also inside a ConfigMap", "kubectl get configmap pyroscope-overrides -o yaml > {folder}/overrides.yaml"),
        ("loads, as the segment writer and placement count them",
         "curl -s http://DISTRIBUTOR:4040/metrics -o {folder}/distributor.prom"),
        ("copy from the bucket: placement_rules.binpb, placement_stats.binpb, footers of block.bin", ""),
        ("from any exporter: a table tenant,dataset,bytes_per_s[,fingerprint], CSV or Parquet", ""),
        ("Mimir, Loki (/ring), Tempo: the ring page as JSON, or as HTML with ?tokens=true",
         "* * * * * curl -s -H 'Accept: application/json' http://DISTRIBUTOR:8080/ingester/ring -o {folder}/ingester-ring.json"),
        ("the partition ring, JSON or HTML",
         "curl -s -H 'Accept: application/json' http://DISTRIBUTOR:8080/ingester/partition-ring -o {folder}/partition-ring.json"),
        ("or memberlist keys, exports of Consul and etcd",
         "curl -s 'http://DISTRIBUTOR:8080/memberlist?viewKey=collectors/ring&format=json' -o {folder}/ring-key.json"),
        ("shard sizes of tenants", "kubectl get configmap mimir-runtime -o yaml > {folder}/overrides.yaml"),
        ("replication, zones, heartbeat timeout, default shard sizes",
         "curl -s http://DISTRIBUTOR:8080/config -o {folder}/config.yaml"),
        ("loads: a file per ingester or distributor, or one for all with the label instance",
         "curl -s http://INGESTER:8080/metrics -o {folder}/ingester-0.prom"),
        ("from any exporter: CSV of tenant, a key (token, series, metric, stream or trace_id) and bytes_per_s", ""),
    ),
}  # fmt: skip
"""What else each view reads, and the command or line of a crontab that gets it; some files are only to be copied."""


def print_feeds(arguments: argparse.Namespace) -> int:
    """Print the commands that feed a view; return the exit code."""
    write("\n".join(lines(arguments.view, arguments.prometheus, arguments.output)) + "\n")
    return FINE


def lines(view: str, address: str | None, folder: str) -> list[str]:
    """Return the commands as lines of a shell script, ``folder`` as one word of the shell in each.

    Raises UsageError for a bad address, or a folder whose name no line of a script can hold.
    """
    if not folder.isprintable():
        raise UsageError(f"--output {folder!r} holds characters that a line of a script cannot hold")
    word = shlex.quote(folder)
    out: list[str] = []
    asks = ASKS.get(view, ())
    if asks:
        out += [*_asked(asks, _base(address or "http://prometheus:9090"), folder), ""]
    elif address is not None:
        out.append(f"# Prometheus has nothing that {view} reads.")
    out.append("# From elsewhere; lines that begin with a star are for a crontab:")
    for about, command in OTHERS.get(view, ((f"copy its files: docs/views/{view}.md says which it reads", ""),)):
        out += ["", f"# {about}"]
        if command:
            # A crontab takes % for the end of the line.
            line = command.replace("{folder}", word.replace("%", "\\%") if command.startswith("*") else word)
            out.append(f"# {line}" if asks else line)
    return [*out, "", f"# then: loadlens {word}, or: loadlens report {view} {word}"]


def one_week(ask: Ask, base: str, folder: str) -> str:
    """Return the command that asks for the raw samples of a week, each with the time of its scrape."""
    query, path = shlex.quote(f"query={ask.selector}[7d]"), shlex.quote(f"{folder}/{ask.file}.json")
    return f"curl -fsS --compressed {shlex.quote(base + '/api/v1/query')} --data-urlencode {query} -o {path}"


def _asked(asks: tuple[Ask, ...], base: str, folder: str) -> list[str]:
    out = [f"mkdir -p {shlex.quote(folder)}"]
    for ask in asks:
        out += ["", f"# {ask.about}", one_week(ask, base, folder)]
    first = asks[0]
    query, url = shlex.quote(f"query={first.selector}[1d]"), shlex.quote(base + "/api/v1/query")
    path = f"{shlex.quote(f'{folder}/{first.file}')}-$d.json"
    export = shlex.quote(f"match[]={first.selector}")
    return [
        *out,
        "",
        "# Where a week is more than the server gives at once (50,000,000 samples), day by day:",
        f"# for d in 0 1 2 3 4 5 6; do curl -fsS --compressed {url} --data-urlencode {query} "
        f'-d time=$(date -d "-$d day" +%s) -o {path}; done',
        "# VictoriaMetrics gives all of it as lines:",
        f"# curl -fsS {shlex.quote(base + '/api/v1/export')} -d {export} -d start=-7d -o "
        f"{shlex.quote(f'{folder}/{first.file}.jsonl')}",
    ]


def _base(address: str) -> str:
    """Return the address without what the commands add. Raises UsageError."""
    try:
        parts = urlsplit(address)
        good = parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        good = False
    if not good or any(not "!" <= character <= "~" for character in address):
        raise UsageError(f"--prometheus {address!r} is no address like http://prometheus:9090")
    return address.rstrip("/").removesuffix("/api/v1").removesuffix("/graph").rstrip("/")
