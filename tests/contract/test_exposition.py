"""Reports as Prometheus text that the textfile collector accepts, for every view; files written as a whole; feeding commands."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import pytest

from engine.core.parameters import parse
from engine.core.view import Result
from engine.formats.prometheus import text
from engine.output.exposition import MOST, to_prometheus
from engine.views import VIEWS
from tests.contract.samples import FED, opened, play, view
from tui.__main__ import main
from tui.cli import feeds
from tui.cli.output import UsageError

UNITS = ("_ratio", "_bytes", "_seconds", "_cores", "_per_second", "_info", "_metrics")
"""Ends of names that say a base unit, or count."""
COUNTS = ("leaders", "replicas", "calls", "violated", "survivable", "down", "load", "findings", "problems", "jobs", "severe",
          "critical")  # fmt: skip
OF_OTHER_TYPES = ("_count", "_sum", "_bucket", "_total", "_created")
"""Ends of names that no gauge may have: they belong to counters, summaries and histograms."""
SAMPLE = re.compile(
    r'(loadlens_[a-z_]+)(\{(?:[a-z]+="(?:[^"\\\n]|\\["\\n])*",?)*\})? (NaN|[-+]?Inf|-?[0-9.]+(?:e[-+]?[0-9]+)?)'
)


@pytest.fixture(scope="module", params=FED)
def result(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Result:
    session = opened(request.param, play(request.param, tmp_path_factory.mktemp("played")))
    found = session.compute(request.param, parse(view(request.param).parameters, []))
    session.close()
    return found


def test_the_text_is_what_a_collector_takes(result: Result) -> None:
    written = to_prometheus(view(result.view), result)
    *lines, end = written.removesuffix("\n").split("\n")
    assert end == "# EOF" and written.endswith("\n")
    family, seen, series = "", set(), set()
    for line in lines:
        if line.startswith("# HELP "):
            family = line.split()[2]
            assert family not in seen, "all samples of a family stand together"
            seen.add(family)
            assert (family.endswith(UNITS) or family.endswith(COUNTS)) and not family.endswith(OF_OTHER_TYPES), family
        elif line.startswith("# TYPE "):
            assert line == f"# TYPE {family} gauge"
        else:
            found = SAMPLE.fullmatch(line)
            assert found and found[1] == family, line
            assert line.rpartition(" ")[0] not in series, line
            series.add(line.rpartition(" ")[0])
            assert not re.search(r'[{,](?:partition|query|job)="', line)
    wanted = {"build_info", "data_timestamp_seconds", "findings", "problems"} | (
        {"finding_info"} if result.findings else set()
    )
    for gauge in getattr(view(result.view), "gauges", ()):
        frame = result.tables.get(gauge.table)
        if frame is not None and not gauge.only and frame[gauge.column].is_not_null().any():
            wanted.add(gauge.name)
    assert {f"loadlens_{name}" for name in wanted} <= seen
    [scrape] = text.parts("f", written.encode())
    assert not scrape.problems and scrape.samples.height == len(series)


def test_declared_gauges_name_columns_that_exist() -> None:
    for entry in VIEWS:
        loaded = entry.load()
        declared = {table.name: table for table in loaded.tables}
        gauges = getattr(loaded, "gauges", ())
        names = [gauge.name for gauge in gauges]
        assert len(set(names)) == len(names)
        for gauge in gauges:
            columns = declared[gauge.table].schema
            assert {gauge.column, *gauge.labels.values()} <= columns.keys(), gauge.name


def test_values_are_in_base_units_and_the_rest_is_added_up(result: Result) -> None:
    for gauge in getattr(view(result.view), "gauges", ()):
        frame = result.tables.get(gauge.table)
        if frame is None or gauge.only:
            continue
        rows = [line for line in to_prometheus(view(result.view), result).split("\n")
                if line.startswith(f"loadlens_{gauge.name}{{")]  # fmt: skip
        assert len(rows) <= max(MOST + 1, frame.height if gauge.each else 0)
        values = [
            value for value in frame[gauge.column].cast(float).to_list() if value is not None and math.isfinite(value)
        ]
        if gauge.adds or frame.height <= MOST:
            shown = [float(row.rpartition(" ")[2]) for row in rows]
            assert sum(v for v in shown if math.isfinite(v)) == pytest.approx(sum(values) * gauge.factor)


def test_a_report_goes_to_a_file_as_a_whole(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = play("ring-placement", tmp_path / "in")
    target = tmp_path / "out" / "x.prom"
    target.parent.mkdir()
    target.write_text("old")
    words = ["report", "ring-placement", str(folder), "--no-cache"]
    assert main([*words, "--format", "prometheus", "--output", str(target)]) == 0
    assert target.read_text().endswith("# EOF\n") and not capsys.readouterr().out
    assert [path.name for path in target.parent.iterdir()] == ["x.prom"]
    assert main([*words, "--output", str(tmp_path / "gone" / "x.prom")]) == 2
    assert main([*words, "--format", "ndjson", "--table", "nodes"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert len(rows) > 3 and all("instance" in row for row in rows)


@pytest.mark.parametrize("name", [entry.name for entry in VIEWS])
def test_feeds_prints_comments_commands_and_crontab_lines(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["feeds", name, "--output", "/m"]) == 0
    printed = capsys.readouterr().out
    for ask in feeds.ASKS.get(name, ()):
        assert f"\n{feeds.one_week(ask, 'http://prometheus:9090', '/m')}\n" in printed
    if name in feeds.ASKS:
        commands = [line for line in printed.splitlines() if line and not line.startswith("#")]
        assert all(line.startswith(("mkdir ", "curl ")) for line in commands), "the rest could be piped to a shell"
    for about, command in feeds.OTHERS.get(name, ()):
        assert f"# {about}\n" in printed and command.replace("{folder}", "/m") in printed


def test_feeds_takes_addresses_only_and_quotes_them() -> None:
    assert "'https://p/a;b/api/v1/query'" in "\n".join(feeds.lines("query-profile", "https://p/a;b/", "/m"))
    for odd in ("prometheus:9090", "ftp://p", "http://p p", "http://", "http://[", "http://p\x1b[0m"):
        with pytest.raises(UsageError):
            feeds.lines("query-profile", odd, "/m")


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("broker-load", ("kafka_server_brokertopicmetrics_bytesin_total", "kafka_log_Log_Value", "kafka_log_log_size",
                         "kafka_server_BrokerTopicMetrics_OneMinuteRate", "process_cpu_seconds_total",
                         "node_cpu_seconds_total", "container_cpu_usage_seconds_total", "container_spec_cpu_quota",
                         "kafka_topic_partition_leader", "kafka_topic_partition_current_offset", "kafka_broker_info",
                         "kminion_kafka_topic_partition_high_water_mark", "kminion_kafka_broker_info",
                         "kminion_kafka_broker_log_dir_size_total_bytes", "kafka_cluster_partition_replicascount")),
        ("query-profile", ("pg_stat_statements_calls_total", "pg_stat_statements_query_id", "node_cpu_seconds_total",
                           "pg_stat_kcache_exec_user_time", "pgwatch_pg_stat_kcache_exec_total_time",
                           "container_cpu_usage_seconds_total",
                           "mysql_perf_schema_events_statements_cpu_time_seconds_total")),
        ("ring-placement", ("pyroscope_segment_writer_client_sent_bytes_sum",
                            "pyroscope_adaptive_placement_dataset_shard_limit", "cortex_ring_members",
                            "pyroscope_adaptive_placement_dataset_shard_usage_per_shard_bytes_per_second",
                            "cortex_distributor_received_samples_total", "loki_ingester_memory_streams")),
    ],
)  # fmt: skip
def test_what_is_asked_for_is_what_readers_know(name: str, wanted: tuple[str, ...]) -> None:
    selectors = [re.search(r'__name__=~"([^"]+)"', ask.selector) for ask in feeds.ASKS[name]]
    patterns = [found[1] for found in selectors if found] + [ask.selector.split("{")[0] for ask in feeds.ASKS[name]]
    for series in wanted:
        assert any(pattern and re.fullmatch(pattern, series) for pattern in patterns), series
