"""Each format as real files have it, and how files are recognised."""

from __future__ import annotations

import json
import math

import pytest

from engine.core.reading import Source
from engine.formats.timestamps import instant_ms
from engine.query_profile.reading.kinds import KINDS
from engine.query_profile.reading.wlr_csv import WlrCsv
from tests.engine.query_profile.builders import MTIME, compute, read, recognised
from tests.reference import reference


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("001.csv", "wlr-csv"),
        ("capture-pg15/wlr-layout/calls.csv", "wlr-csv"),
        ("capture-pg15/pgss_info.csv", "pgss-info"),
        ("capture-pg15/cpu/db_process_cpu.csv", "cpu-csv"),
        ("capture-pg15/cpu/mpstat.json", "sysstat-json"),
        ("capture-pg15/cpu/sadf.json", "sysstat-json"),
        ("capture-pg15/cpu/sadf-d.csv", "sadf-d"),
        ("capture-pg15/cpu/vmstat.txt", "vmstat"),
        ("capture-mariadb/slow.log", "slow-log"),
        ("capture-mariadb/slow.pt-query-digest.json", "pt-query-digest"),
        ("examples/cpu-generic.csv", "cpu-csv"),
        ("examples/pgss-17.csv", "pgss-csv"),
        ("examples/pgss-9.6.csv", "pgss-csv"),
        ("examples/mysql8-digest.tsv", "mysql-digest"),
        ("examples/node_exporter-20261120T235408Z.prom", "exporter-series"),
        ("examples/slow-mysql8.log", "slow-log"),
        ("examples/docker-stats.jsonl", "docker-stats"),
        ("real/percona-toolkit/slow009.txt", "slow-log"),
        ("real/pgmonitor/pg_stat_statements.csv", "pgss-csv"),
        ("real/postgres-checkup/1_dbname_1.json", "pgss-json"),
        ("capture-pg15/truth/classes.csv", None),
        ("capture-mariadb/truth/user_cpu.csv", None),
        ("capture-pg15/cpu/sar-u.txt", None),
        ("upstream/001-on-001.full.json", None),
        ("README.md", None),
    ],
)
def test_files_are_recognised_by_content(path: str, kind: str | None) -> None:
    file = reference("query-profile") / path
    assert recognised(file.name, file.read_bytes()) == ([kind] if kind else [])


def test_pgss_columns_of_every_version() -> None:
    root = reference("query-profile") / "examples"
    new = read("pgss-17.csv", (root / "pgss-17.csv").read_bytes(), "pgss-csv").rows["snapshots"].to_dicts()
    assert [row["calls"] for row in new] == [1200, 3, 40]
    assert new[0]["time_us"] == 48250.0
    assert new[0]["io_us"] == 400.0
    assert new[0]["since_ms"] == instant_ms("2026-01-05 09:00:00.5+00")
    assert [row["nested"] for row in new] == [False, False, True]
    assert len({row["key"] for row in new}) == 3
    old = read("pgss-9.6.csv", (root / "pgss-9.6.csv").read_bytes(), "pgss-csv").rows["snapshots"].to_dicts()
    assert (old[0]["time_us"], old[0]["queryid"], old[0]["since_ms"]) == (21500.0, "3012345678", None)
    oldest = b"userid,dbid,query,calls,total_time,rows\n10,5,SELECT 1,3,1.5,3\n"
    row = read("pgss.csv", oldest, "pgss-csv").rows["snapshots"].to_dicts()[0]
    assert row["key"].startswith("md5:")
    assert row["time_us"] == 1500.0


def test_appended_snapshots_without_a_time_column() -> None:
    data = (reference("query-profile") / "real/pgmonitor/pg_stat_statements.csv").read_bytes()
    reading = read("pg_stat_statements.csv", data, "pgss-csv")
    frame = reading.rows["snapshots"]
    assert frame["part"].max() == 12
    assert frame.height == 1547
    assert frame["key"].n_unique() == 119
    assert [p.kind for p in reading.problems] == ["no-time"]
    header = b"userid,dbid,queryid,query,calls,total_time\n"
    repeated = header + b"1,2,3,S,1,1\n" + header + b"1,2,4,T,1,1\n"
    assert read("p.csv", repeated, "pgss-csv").rows["snapshots"]["part"].to_list() == [0, 1]


def test_mysql_digests() -> None:
    data = (reference("query-profile") / "examples/mysql8-digest.tsv").read_bytes()
    rows = read("d.tsv", data, "mysql-digest").rows["snapshots"].to_dicts()
    assert (rows[0]["calls"], rows[0]["time_us"], rows[0]["lock_us"]) == (1200, 48250.0, 1200.0)
    assert (rows[1]["queryid"], rows[1]["query"], rows[1]["calls"]) == ("", "(digest table full)", 37)
    escaped = (
        b"SCHEMA_NAME\tDIGEST\tDIGEST_TEXT\tCOUNT_STAR\tSUM_TIMER_WAIT\tSUM_CPU_TIME\n"
        b"shop\tab\tSELECT\\n1\\t2\t5\t1000000\t4000000\n"
    )
    row = read("d.tsv", escaped, "mysql-digest").rows["snapshots"].to_dicts()[0]
    assert row["query"] == "SELECT·1·2"
    assert row["cpu_us"] == 4.0


def test_slow_log_agrees_with_pt_query_digest() -> None:
    root = reference("query-profile") / "capture-mariadb"
    wanted = json.loads((root / "slow.pt-query-digest.json").read_text())
    frame = compute({"slow.log": (root / "slow.log").read_bytes()}).tables["classes"]
    assert frame["calls"].sum() == wanted["global"]["query_count"]
    total = float(wanted["global"]["metrics"]["Query_time"]["sum"])
    assert math.isclose(frame["x_total"].sum() / 1e6, total, abs_tol=1e-5)
    sums: dict[str, list[float]] = {}
    for row in frame.iter_rows(named=True):
        one = sums.setdefault(row["query"], [0.0, 0.0])
        one[0] += row["calls"]
        one[1] += row["x_total"] / 1e6
    for item in wanted["classes"]:
        if "price ? ?" in item["fingerprint"]:
            continue  # it takes + and - for the same
        seconds = float(item["metrics"]["Query_time"]["sum"])
        assert any(n == item["query_count"] and abs(t - seconds) < 2e-5 for n, t in sums.values()), item["fingerprint"]
    digest = compute({"d.json": (root / "slow.pt-query-digest.json").read_bytes()}).tables["classes"]
    assert digest["calls"].sum() == wanted["global"]["query_count"]


@pytest.mark.parametrize(
    ("name", "count", "seconds"),
    [("slow002.txt", 8, 0.76208), ("slow009.txt", 2001, 2001 * 0.000899), ("slow034.txt", 9, None),
     ("slow049.txt", 10, 1860), ("slow055.txt", 3, 0.0197), ("mysql5.7.log", 2, 0.003705)],
)  # fmt: skip
def test_old_and_new_slow_logs(name: str, count: int, seconds: float | None) -> None:
    data = (reference("query-profile") / "real/percona-toolkit" / name).read_bytes()
    rows = read(name, data, "slow-log").rows["interval_classes"]
    assert sum(rows["calls"]) == count
    if seconds is not None:
        assert math.isclose(sum(rows["time_us"]) / 1e6, seconds, rel_tol=1e-6)


def test_slow_log_read_in_pieces_gives_the_same() -> None:
    data = (reference("query-profile") / "capture-mariadb/slow.log").read_bytes()[:60_000]
    kind = next(k for k in KINDS if k.id == "slow-log")
    whole = kind.read(Source("/in/s", "s", MTIME, len(data)), data, None, True).rows["interval_classes"]
    sums: dict[tuple[object, ...], float] = {}
    offset, state = 0, None
    for end in (*range(997, len(data), 6_007), len(data)):
        final = end == len(data)
        reading = kind.read(Source("/in/s", "s", MTIME, end, offset), data[offset:end], state, final)
        offset, state = offset + reading.consumed, reading.state
        rows = reading.rows.get("interval_classes", {"key": [], "calls": [], "start_ms": []})
        for key, at, calls in zip(rows["key"], rows["start_ms"], rows["calls"], strict=True):
            sums[key, at] = sums.get((key, at), 0) + calls
    assert sums == dict(
        zip(zip(whole["key"], whole["start_ms"], strict=True), whole["calls"], strict=True)  # type: ignore[arg-type]
    )


def test_rate_limit_scales_counts() -> None:
    text = (
        b"# Time: 2026-01-05T09:00:01.500123Z\n# User@Host: app[app] @ web1 [10.0.0.5]  Id: 41\n"
        b"# Query_time: 0.5  Lock_time: 0.1  Rows_sent: 1  Rows_examined: 5\n"
        b"# Log_slow_rate_type: query  Log_slow_rate_limit: 10\nSET timestamp=1767603600;\nSELECT 1;\n"
    )
    rows = read("slow.log", text, "slow-log").rows["interval_classes"]
    assert (rows["calls"], rows["time_us"], rows["lock_us"]) == ([10.0], [5e6], [1e6])
    assert rows["start_ms"] == [1767603601000]


def test_local_times_of_old_logs_are_shifted_by_set_timestamp() -> None:
    text = (
        b"# Time: 260105 10:00:02\n# User@Host: a[a] @ h []\n# Query_time: 1.0  Lock_time: 0  Rows_sent: 1  Rows_examined: 5\n"
        b"SET timestamp=1767603601;\nSELECT 1;\n"
    )
    assert read("slow.log", text, "slow-log").rows["interval_classes"]["start_ms"] == [1767603602000]


def test_proc_pid_stat_sums_processes_and_their_children() -> None:
    line = b"%d (post gres: a) x) S 1 1 1 0 -1 4194560 100 0 0 0 %d %d %d %d 20 0 1 0 100 1 1\n"
    rows = read("pid-1795217883.txt", line % (7, 100, 20, 3, 1) + line % (9, 50, 5, 0, 0), "pid-stat").rows["host"]
    assert rows["name"] == ["user_us", "system_us"]
    assert rows["value"] == [1_530_000.0, 260_000.0]
    assert rows["at_ms"] == [1795217883000] * 2


def test_vmstat_drops_the_row_since_boot() -> None:
    data = (reference("query-profile") / "examples/vmstat-t.txt").read_bytes()
    rows = read("vmstat.txt", data, "vmstat").rows["host"]
    assert rows["value"][0] == 29
    assert rows["seconds"][0] == 5
    assert len(set(rows["at_ms"])) == 5


def test_node_exporter_counts_all_cpus() -> None:
    path = reference("query-profile") / "examples/node_exporter-20261120T235408Z.prom"
    rows = read(path.name, path.read_bytes(), "exporter-series").rows["host"]
    found = dict(zip(rows["name"], rows["value"], strict=True))
    assert math.isclose(found["user_us"], (1446.78 + 38.99 + 1582.75 + 33.88) * 1e6)
    assert math.isclose(found["system_us"], (342.9 + 1.52 + 398.19 + 9.46) * 1e6)
    assert rows["cores"][0] == 2
    assert rows["at_ms"][0] == instant_ms("2026-11-20T23:54:08Z")


def test_node_exporter_counts_each_moment_of_each_machine() -> None:
    """As ``/federate`` and VictoriaMetrics' export write it, with times in milliseconds."""
    lines = [
        f'node_cpu_seconds_total{{cpu="{cpu}",instance="{host}:9100",mode="user"}} {value} {at}\n'
        for host, at, values in (("a", 60_000, (1, 2)), ("a", 120_000, (4, 8)), ("b", 60_000, (16, 32)))
        for cpu, value in enumerate(values)
    ]
    rows = read("cpu.prom", "".join(lines).encode(), "exporter-series").rows["host"]
    found = list(zip(rows["host"], rows["at_ms"], rows["value"], rows["cores"], strict=True))
    assert found == [("a", 60_000, 3e6, 2.0), ("a", 120_000, 12e6, 2.0), ("b", 60_000, 48e6, 2.0)]


def test_a_growing_table_is_read_line_by_line() -> None:
    data = (reference("query-profile") / "001.csv").read_bytes()
    kind = WlrCsv()
    state, offset, rows = None, 0, 0
    for end in (100, 9_000, 50_000, 50_010, len(data)):
        reading = kind.read(Source("/in/a", "a.csv", MTIME, end, offset), data[offset:end], state, False)
        offset, state = offset + reading.consumed, reading.state
        if "matrix" in reading.rows:
            rows += len(reading.rows["matrix"]["values"][0]) // len(reading.rows["matrix"]["names"][0])
    assert (rows, offset) == (719, len(data))
    assert state["line"] == 721
