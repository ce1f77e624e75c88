"""The command ``feeds``: the exact commands that get a view's data. It only prints; no connection is opened."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from tui.cli.output import FINE, UsageError, write

if TYPE_CHECKING:
    import argparse


@dataclass(frozen=True, slots=True)
class Ask:
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
"""What each view asks a Prometheus, in the order of use; the others have nothing there."""

WITHOUT: dict[str, tuple[str, ...]] = {
    "broker-load": (
        "* * * * * for h in b1 b2 b3; do mkdir -p {folder}/$h && curl -s http://$h:7071/metrics -o "
        "{folder}/$h/$(date +\\%s).prom; done",
        "*/5 * * * * kafka-topics.sh --bootstrap-server b1:9092 --describe > {folder}/topics.txt",
    ),
    "job-heuristics": (
        "*/2 * * * * hdfs dfs -get -f /mr-history/done/$(date +\\%Y/\\%m/\\%d) {folder}/jobs/",
        "*/2 * * * * hdfs dfs -get -f /spark-logs {folder}/jobs/",
    ),
    "query-profile": (
        '* * * * * psql -Atc "\\copy (select now() captured_at, s.* from pg_stat_statements s) to '
        "'{folder}/pgss-$(date +\\%s).csv' csv header\"",
        "* * * * * cp /proc/stat {folder}/stat-$(date +\\%s)",
    ),
    "run-comparison": ("*/10 * * * * gsutil -m rsync -r gs://BUCKET/logs/JOB {folder}/JOB",),
    "ring-placement": (
        "* * * * * curl -s -H 'Accept: application/json' http://DISTRIBUTOR:4040/ring-segment-writer -o {folder}/ring.json",
        "* * * * * curl -s -H 'Accept: application/json' http://DISTRIBUTOR:8080/ingester/ring -o {folder}/ingester-ring.json",
    ),
}
"""Lines of a crontab that get the same, or what Prometheus does not have, without one."""
ONCE = {"job-heuristics": "mkdir -p {folder}/jobs"}
"""What must be done before those lines run: ``hdfs dfs -get`` makes no folder."""


def print_feeds(arguments: argparse.Namespace) -> int:
    """Print the commands that feed a view; return the exit code."""
    write("\n".join(lines(arguments.view, arguments.prometheus, arguments.output)) + "\n")
    return FINE


def lines(view: str, address: str | None, folder: str) -> list[str]:
    """Return the commands as lines of a shell script. Raises UsageError for what is no address."""
    out: list[str] = []
    asks = ASKS.get(view, ())
    if address is not None and not asks:
        out.append(f"# Nothing that {view} needs is in a Prometheus; from elsewhere:")
    elif asks:
        out += _asked(asks, _base(address or "http://prometheus:9090"), folder)
        out += ["", "# What Prometheus does not have, or all of it without one (lines of a crontab):"]
    if view in ONCE:
        out += ["# once:", ONCE[view].format(folder=folder), "# lines of a crontab:"]
    without = WITHOUT.get(view, (f"# copy its files to {{folder}}: docs/views/{view}.md says which it reads",))
    out += [f"# {line.format(folder=folder)}" if asks else line.format(folder=folder) for line in without]
    return [*out, "", f"# then: loadlens {folder}, or: loadlens report {view} {folder}"]


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
