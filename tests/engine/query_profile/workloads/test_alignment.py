"""Resource series of the host aligned with intervals."""

from __future__ import annotations

import json
import math

import pytest

from tests.engine.query_profile.builders import compute, folder, kinds
from tests.reference import reference

PGSS = "userid,dbid,queryid,query,calls,total_time\n10,5,1,SELECT 1,{0},{0}\n"


TICKS = "9 (pg) S 1 1 1 0 -1 4194560 1 0 0 0 {} 0 0 0 20 0 1 0 100 1 1\n"


def measured(files: dict[str, str], **choices: str) -> tuple[float | None, list[str]]:
    """What the host used over three minutes of a server, and the problems."""
    snapshots = {f"s/pgss-20260101T00{t:02d}00Z.csv": PGSS.format(100 * (t + 1)) for t in range(4)}
    texts = {name: text.encode() for name, text in (snapshots | files).items()}
    result = compute(texts, method="ratio", draws="0", **choices)
    return result.summary["y_measured"], kinds(result)


def test_host_series_agree_with_each_other() -> None:
    """mpstat, sadf, vmstat and /proc/stat of the same 20 minutes tell the same CPU seconds (sysstat takes percent of the ticks
    that the kernel counted, which are fewer than the seconds that passed)."""
    root = reference("query-profile") / "capture-pg15"
    pgss = {f"pgss/{k}": v for k, v in list(folder(root / "pgss").items())[:25]}
    busy = {}
    for name in ("mpstat.json", "sadf.json", "sadf-d.csv", "vmstat.txt", "procstat"):
        stat = dict(list(folder(root / "cpu/procstat").items())[:25])
        files = stat if name == "procstat" else {name: (root / "cpu" / name).read_bytes()}
        extra = {} if name not in ("sadf-d.csv", "vmstat.txt") else {
            f"cores/{k}": v for k, v in list(folder(root / "cpu/procstat").items())[:1]
        }  # fmt: skip
        result = compute({**pgss, **files, **extra}, method="ratio", draws="0")
        busy[name] = (result.summary["y_measured"], result.summary["intervals_used"], result.summary["cores"])
    wanted, used, _ = busy["procstat"]
    assert used >= 23
    for name, (found, count, cores) in busy.items():
        assert cores == 2, name
        assert math.isclose(found / count, wanted / used, rel_tol=0.03), name
    # Percentages alone do not tell how many cores they are of.
    alone = compute({**pgss, "vmstat.txt": (root / "cpu/vmstat.txt").read_bytes()}, method="ratio", draws="0")
    assert "unknown-cores" in {p.kind for p in alone.problems}
    assert math.isclose(alone.summary["y_measured"] * 2, busy["vmstat.txt"][0], rel_tol=1e-9)


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
