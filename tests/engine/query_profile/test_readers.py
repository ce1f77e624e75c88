"""Each format as real files have it, and how files are told apart."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from engine.formats.timestamps import instant_ms, name_instant_ms, name_stem
from engine.query_profile.reading.fingerprint import LABEL, fingerprint, label, verb
from engine.query_profile.reading.kinds import KINDS
from engine.query_profile.reading.wlr_csv import WlrCsv
from engine.query_profile.result import listing
from engine.query_profile.workloads.workload import ClassInfo
from engine.reading import Source
from tests.engine.query_profile.made import MTIME, compute, folder, kinds, read, recognised
from tests.reference import reference

SAMPLE = Path(__file__).parents[3] / "sample_data/query_profile/files"


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
        ("examples/node_exporter-20261120T235408Z.prom", "node-exporter-cpu"),
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


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("2026-11-20 23:38:03.365582+00", 1795217883366),
        ("20261120T233803.381Z", 1795217883381),
        ("1795217883.382", 1795217883382),
        ("1795217883382", 1795217883382),
        ("2026-11-20T23:38:03Z", 1795217883000),
        ("2026-11-21 01:08:03 +01:30", 1795217883000),
        ("2026-11-20", 1795132800000),
        ("0000-00-00 00:00:00.000000", None),
        ("yesterday", None),
        ("", None),
    ],
)
def test_instants(text: str, ms: int | None) -> None:
    assert instant_ms(text) == ms


def test_moments_in_names() -> None:
    assert name_instant_ms("pgss-20261120T233803.381Z.csv") == 1795217883381
    assert name_instant_ms("stat.1795217883") == 1795217883000
    assert name_instant_ms("pgss-2026-11-20_23-38-03.csv") == 1795217883000
    assert name_instant_ms("001.csv") is None
    assert name_stem("db1-pgss-20261120T233803.381Z.csv") == "db1-pgss"


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ("SELECT * FROM t WHERE a = 5 AND b = 'x''y'", "select * from t where a = ? and b = ?"),
        ("select a from T2 where x in (1, 2,3)", "select a from t2 where x in (?+)"),
        ("INSERT INTO t (a,b) VALUES (1,'a'),(2,'b')", "insert into t (a,b) values (?+)"),
        ("UPDATE i SET p = p - 3 WHERE id=-4", "update i set p = p -? where id=?"),
        ("SELECT 1 -- comment\n;", "select ?"),
        ("/* hint */ SELECT `Total` FROM x LIMIT 10, 20", "select `total` from x limit ?"),
        ("SELECT 0x1F, 1e-5, null", "select ?, ?, ?"),
    ],
)
def test_fingerprints(query: str, wanted: str) -> None:
    found = fingerprint(query)
    assert found.replace("- ?", "-?") == wanted
    assert fingerprint(found) == found


def test_verbs() -> None:
    assert [verb(q) for q in ("select 1", "  (WITH x", "/* a */ UPDATE t", "", "?")] == [
        "SELECT",
        "WITH",
        "UPDATE",
        "?",
        "?",
    ]


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


def test_cpu_that_mysql_counts_itself_stands_beside_the_measured() -> None:
    head = "SCHEMA_NAME\tDIGEST\tDIGEST_TEXT\tCOUNT_STAR\tSUM_TIMER_WAIT\tSUM_CPU_TIME\n"
    files = {
        f"digest-20260101T000{t}00Z.tsv": f"{head}shop\tab\tSELECT ?\t{t * 3}\t{t}000000\t{t}000000\n"
        f"NULL\tNULL\tNULL\t{t}\t{t}000000\t0\n"
        for t in range(3)
    }
    cpu = "captured_at,user_us,system_us\n" + "".join(f"2026-01-01T00:0{t}:00Z,{t * 2},0\n" for t in range(3))
    texts = {name: text.encode() for name, text in files.items()}
    alone = compute(texts, draws="0")
    assert (alone.summary["y_measured"], alone.summary["y_source"]) == (2, "the classes' own counters")
    result = compute({**texts, "cpu.csv": cpu.encode()}, draws="0")
    assert (result.summary["y_measured"], result.summary["y_source"]) == (4, "process")
    assert result.tables["classes"].sort("calls")["cpu_measured_us"].to_list() == [0, 2]
    assert any("25.0 % of the calls found no room" in note for note in result.notes)
    assert any("counted 0.0 s of CPU by class (50 %" in note for note in result.notes)


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


def test_host_series_agree_with_each_other() -> None:
    """mpstat, sadf, vmstat and /proc/stat of the same 20 minutes tell the same CPU seconds (sysstat takes percent of the ticks
    that the kernel counted, which are fewer than the seconds that passed)."""
    root = reference("query-profile") / "capture-pg15"
    pgss = {f"pgss/{k}": v for k, v in list(folder(root / "pgss").items())[:60]}
    busy = {}
    for name in ("mpstat.json", "sadf.json", "sadf-d.csv", "vmstat.txt", "procstat"):
        stat = dict(list(folder(root / "cpu/procstat").items())[:60])
        files = stat if name == "procstat" else {name: (root / "cpu" / name).read_bytes()}
        extra = {} if name not in ("sadf-d.csv", "vmstat.txt") else {
            f"cores/{k}": v for k, v in list(folder(root / "cpu/procstat").items())[:1]
        }  # fmt: skip
        result = compute({**pgss, **files, **extra}, method="ratio", draws="0")
        busy[name] = (result.summary["y_measured"], result.summary["intervals_used"], result.summary["cores"])
    wanted, used, _ = busy["procstat"]
    assert used >= 58
    for name, (found, count, cores) in busy.items():
        assert cores == 2, name
        assert math.isclose(found / count, wanted / used, rel_tol=0.03), name
    # Percentages alone do not tell how many cores they are of.
    alone = compute({**pgss, "vmstat.txt": (root / "cpu/vmstat.txt").read_bytes()}, method="ratio", draws="0")
    assert "unknown-cores" in {p.kind for p in alone.problems}
    assert math.isclose(alone.summary["y_measured"] * 2, busy["vmstat.txt"][0], rel_tol=1e-9)


def test_proc_pid_stat_sums_processes_and_their_children() -> None:
    line = b"%d (post gres: a) x) S 1 1 1 0 -1 4194560 100 0 0 0 %d %d %d %d 20 0 1 0 100 1 1\n"
    rows = read("pid-1795217883.txt", line % (7, 100, 20, 3, 1) + line % (9, 50, 5, 0, 0), "pid-stat").rows["host"]
    assert rows["name"] == ["user_us", "system_us"]
    assert rows["value"] == [1_530_000.0, 260_000.0]
    assert rows["at_ms"] == [1795217883000] * 2


PGSS = "userid,dbid,queryid,query,calls,total_time\n10,5,1,SELECT 1,{0},{0}\n"
TICKS = "9 (pg) S 1 1 1 0 -1 4194560 1 0 0 0 {} 0 0 0 20 0 1 0 100 1 1\n"


def measured(files: dict[str, str], **choices: str) -> tuple[float | None, list[str]]:
    """What the host used over three minutes of a server, and the problems."""
    snapshots = {f"s/pgss-20260101T00{t:02d}00Z.csv": PGSS.format(100 * (t + 1)) for t in range(4)}
    texts = {name: text.encode() for name, text in (snapshots | files).items()}
    result = compute(texts, method="ratio", draws="0", **choices)
    return result.summary["y_measured"], kinds(result)


def test_processes_with_a_file_each_are_one_server() -> None:
    files = {
        f"stat-{p}-20260101T00{t:02d}00Z": TICKS.replace("9 ", f"{p} ", 1).format(t * p)
        for p in (9, 21)
        for t in range(4)
    }
    assert measured(files) == (3 * 30 * 10_000, [])


def test_files_that_follow_one_another_are_one_series() -> None:
    """Numbered scrapes, and logs of a day each; but not files of the same time, which are of two hosts."""
    scrape = 'node_cpu_seconds_total{{cpu="0",mode="user"}} {} {}\n'
    minute = 1_767_225_600_000
    numbered = {f"scrape{t}.txt": scrape.format(t * 2, minute + 60_000 * t) for t in range(4)}
    assert measured(numbered) == (6e6, [])
    head = "captured_at,user_us,system_us\n"
    days = {
        "cpu-2025-12-31.csv": head + "20251231T235900Z,1,0\n20260101T000000Z,10,0\n",
        "cpu-2026-01-01.csv": head + "20260101T000100Z,20,0\n20260101T000200Z,35,0\n20260101T000300Z,40,0\n",
    }
    assert measured(days) == (30, [])
    at_once = {f"cpu-{n}.csv": head + "".join(f"20260101T00{t:02d}00Z,{t * n},0\n" for t in range(4)) for n in (1, 2)}
    assert measured(at_once) == (3, ["several-hosts"])


def test_counters_of_two_hosts_in_turn_are_refused() -> None:
    files = {
        f"stat-20260101T00{t // 2:02d}{t % 2 * 30:02d}Z": f"cpu {(t % 2) * 90_000 + t * 5} 0 0 100 0 0 0 0\n"
        for t in range(8)
    }
    assert measured(files) == (None, ["several-hosts"])


def test_docker_stats_hold_since_the_sample_before() -> None:
    line = '{{"CPUPerc":"{}%","Name":"db","Container":"db"}}\n'
    files = {f"docker-20260101T00{t:02d}00Z.jsonl": line.format(50 * t) for t in range(4)}
    assert measured(files) == (60e6 * (0.5 + 1 + 1.5), [])


def test_sadf_counts_the_cpus_that_it_lists() -> None:
    head = "# hostname;interval;timestamp;CPU;%user;%nice;%system;%iowait;%steal;%idle\n"
    rows = "".join(
        f"a;60;2026-01-01 00:{t:02d}:00 UTC;{cpu};10;0;0;0;0;90\n" for t in (1, 2, 3) for cpu in ("-1", "0", "1", "2")
    )
    assert measured({"sadf.csv": head + rows}) == (pytest.approx(180e6 * 0.1 * 3), [])


def test_mpstat_may_write_times_as_its_locale_does() -> None:
    def text(date: str, times: list[str]) -> str:
        load = [{"cpu": "all", "usr": 10.0, "idle": 90.0}]
        samples = [{"timestamp": time, "cpu-load": load} for time in times]
        host = {"nodename": "a", "number-of-cpus": 2, "date": date, "statistics": samples}
        return json.dumps({"sysstat": {"hosts": [host]}})

    plain = measured({"mpstat.json": text("2026-01-01", ["00:01:00", "00:02:00", "00:03:00"])})
    assert plain == (180e6 * 0.1 * 2, [])
    assert measured({"mpstat.json": text("01/01/26", ["12:01:00 AM", "12:02:00 AM", "12:03:00 AM"])}) == plain


def test_vmstat_drops_the_row_since_boot() -> None:
    data = (reference("query-profile") / "examples/vmstat-t.txt").read_bytes()
    rows = read("vmstat.txt", data, "vmstat").rows["host"]
    assert rows["value"][0] == 29
    assert rows["seconds"][0] == 5
    assert len(set(rows["at_ms"])) == 5


def test_node_exporter_counts_all_cpus() -> None:
    path = reference("query-profile") / "examples/node_exporter-20261120T235408Z.prom"
    rows = read(path.name, path.read_bytes(), "node-exporter-cpu").rows["host"]
    found = dict(zip(rows["name"], rows["value"], strict=True))
    assert math.isclose(found["user_us"], (1446.78 + 38.99 + 1582.75 + 33.88) * 1e6)
    assert math.isclose(found["system_us"], (342.9 + 1.52 + 398.19 + 9.46) * 1e6)
    assert rows["cores"][0] == 2
    assert rows["at_ms"][0] == instant_ms("2026-11-20T23:54:08Z")


def test_tables_of_other_classes_are_of_another_server() -> None:
    files = {
        name: f"q.{c}1,q.{c}2,user_us\n1,2,3\n2,3,5\n".encode()
        for name, c in (("a.csv", "a"), ("b.csv", "b"), ("c.csv", "a"))
    }
    result = compute(files, draws="0")
    assert result.tables["sources"]["source"].to_list() == ["a.csv, c.csv", "b.csv"]


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


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        (
            "SELECT NAME , `price` FROM `shop` . `items` WHERE ID = ? ",
            "SELECT NAME, price FROM shop.items WHERE ID = ?",
        ),
        ("SELECT COUNT ( * ) , AVG ( `price` ) FROM `items`", "SELECT COUNT (*), AVG (price) FROM items"),
        ("/* app:web */\n  SELECT\n\ta,\n b FROM t;", "SELECT a, b FROM t"),
        ("SELECT a,··b··FROM t", "SELECT a, b FROM t"),
        ("", ""),
        ("/* only a comment", "/* only a comment"),
        ("x" * 500, "x" * (LABEL - 1) + "…"),
    ],
)
def test_labels_are_one_short_line(query: str, wanted: str) -> None:
    assert label(query) == wanted


def test_equal_statements_are_told_apart_and_classes_without_text_keep_their_name() -> None:
    infos = [
        ClassInfo("12 (ann)", "12", "SELECT 1", "ann"),
        ClassInfo("12 (bob)", "12", "SELECT 1", "bob"),
        ClassInfo("-77123456", "-77123456", "SELECT 2"),
        ClassInfo("q.0a", "", ""),
    ]
    assert listing.labels(infos) == {
        "12 (ann)": "[ann] SELECT 1", "12 (bob)": "[bob] SELECT 1", "-77123456": "SELECT 2", "q.0a": "q.0a",
    }  # fmt: skip


def test_sparklines_of_groups_and_others_add_up_to_those_of_the_classes() -> None:
    files = folder(SAMPLE)
    whole = sum(sum(trend) for trend in compute(files).detail.listing["trend"])
    for choices in ({"group": "verb"}, {"top": 2}, {"group": "verb", "top": 1}, {"group": "user"}):
        trends = compute(files, **choices).detail.listing["trend"]
        assert all(len(trend) == 40 for trend in trends)
        assert sum(sum(trend) for trend in trends) == pytest.approx(whole)
    chosen = compute(files, group="verb", filter="select").detail.listing
    assert chosen["name"].to_list() == ["SELECT"]
    assert sum(chosen["trend"][0]) < whole
