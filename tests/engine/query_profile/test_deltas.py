"""Counters to work: resets, evictions, restarts, vanished classes; resource series laid onto intervals; the profile."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.parameters import parse
from engine.query_profile.insight import whatif
from engine.query_profile.view import VIEW
from engine.query_profile.workloads import profile
from engine.view import Context
from tests.engine.query_profile.made import compute, folder, inputs, kinds
from tests.reference import reference

HEADER = "userid,dbid,toplevel,queryid,query,calls,total_exec_time,rows"


def snapshot(*rows: tuple[int, float, float], query: str = "SELECT {}") -> bytes:
    """Rows of (queryid, calls, time in ms)."""
    lines = [f"10,5,t,{q},{query.format(q)},{calls:g},{ms:g},{calls:g}" for q, calls, ms in rows]
    return "\n".join([HEADER, *lines, ""]).encode()


def capture(
    *snapshots: bytes, cpu: list[int] | None = None, info: list[tuple[int, str]] | None = None
) -> dict[str, bytes]:
    files = {f"pgss-20260101T00{i:02d}00Z.csv": text for i, text in enumerate(snapshots)}
    used = cpu or [1000 * i for i in range(len(snapshots))]
    rows = [f"2026-01-01T00:{i:02d}:00Z,{value}000,0" for i, value in enumerate(used)]
    files["cpu.csv"] = "\n".join(["captured_at,user_us,system_us", *rows, ""]).encode()
    if info:
        lines = [f"2026-01-01T00:{i:02d}:00Z,{d},{r}" for i, (d, r) in enumerate(info)]
        files["info.csv"] = "\n".join(["captured_at,dealloc,stats_reset", *lines, ""]).encode()
    return files


def totals(files: dict[str, bytes]) -> tuple[dict[str, float], list[bool], list[str]]:
    result = compute(files, method="ratio", draws="0")
    rows = {row["class"]: row["x_total"] / 1000 for row in result.tables["classes"].iter_rows(named=True)}
    intervals = result.tables["intervals"]
    return rows, intervals["used"].to_list(), intervals["reason"].to_list()


STEADY = [(1, 10, 100), (2, 20, 200), (3, 5, 50)]


def test_plain_growth() -> None:
    found, used, _ = totals(
        capture(
            snapshot(*STEADY),
            snapshot((1, 11, 130), (2, 20, 200), (3, 6, 55)),
            snapshot((1, 12, 131), (2, 21, 205), (3, 6, 55)),
        )
    )
    assert found == {"1": 31, "2": 5, "3": 5}
    assert used == [True, True]


def test_a_new_class_counts_in_full_when_nothing_was_evicted() -> None:
    found, used, _ = totals(capture(snapshot(*STEADY), snapshot(*STEADY, (4, 2, 7)), snapshot(*STEADY, (4, 3, 9))))
    assert found["4"] == 9
    assert used == [True, True]


def test_a_new_class_is_doubtful_when_something_was_evicted() -> None:
    after = [*STEADY[:2], (4, 1000, 7000)]
    found, used, reasons = totals(
        capture(snapshot(*STEADY), snapshot(*after), snapshot((1, 11, 110), (2, 20, 200), (4, 1001, 7001)))
    )
    assert used == [False, True]
    assert "appeared" in reasons[0]
    assert "vanished" in reasons[0]
    assert found["4"] == 1
    info = [(0, "2026-01-01"), (0, "2026-01-01"), (0, "2026-01-01")]
    _, used, reasons = totals(
        capture(snapshot(*STEADY), snapshot(*STEADY, (4, 9, 9)), snapshot(*STEADY, (4, 9, 9)), info=info)
    )
    assert used == [True, True]
    info[1] = info[2] = (3, "2026-01-01")
    _, used, reasons = totals(
        capture(snapshot(*STEADY), snapshot(*STEADY, (4, 9, 9)), snapshot(*STEADY, (4, 9, 9)), info=info)
    )
    assert used == [False, True]


def test_stats_since_proves_a_new_class() -> None:
    def with_since(since: str, *rows: tuple[int, float, float]) -> bytes:
        lines = snapshot(*rows).decode().strip().split("\n")
        return "\n".join([lines[0] + ",stats_since", *(f"{line},{since}" for line in lines[1:]), ""]).encode()

    first = with_since("2025-12-31 00:00:00+00", *STEADY)
    second = with_since("2025-12-31 00:00:00+00", *STEADY)
    proven = with_since("2026-01-01 00:01:30+00", (9, 4, 44)).split(b"\n", 1)[1]
    info = [(0, "2026-01-01"), (0, "2026-01-01"), (5, "2026-01-01")]
    found, used, _ = totals(capture(first, second, second + proven, info=info))
    assert used == [True, True]
    assert found["9"] == 44


def test_one_class_that_fell_is_flagged_and_its_new_value_counts() -> None:
    files = capture(
        snapshot(*STEADY),
        snapshot((1, 2, 20), (2, 21, 210), (3, 6, 60)),
        snapshot((1, 3, 30), (2, 22, 220), (3, 7, 70)),
    )
    found, used, reasons = totals(files)
    assert used == [False, True]
    assert "1 class fell" in reasons[0]
    assert found["1"] == 10
    whole = compute(files, method="ratio").tables["intervals"]
    assert whole["x"].to_list() == [(20 + 10 + 10) * 1000, 30_000]


def test_a_time_that_fell_though_calls_grew_is_seen() -> None:
    _, used, reasons = totals(
        capture(
            snapshot(*STEADY),
            snapshot((1, 11, 90), (2, 21, 210), (3, 6, 60)),
            snapshot((1, 12, 91), (2, 22, 211), (3, 7, 61)),
        )
    )
    assert used == [False, True]
    assert "fell" in reasons[0]


def test_a_global_reset_is_not_used() -> None:
    _, used, reasons = totals(
        capture(snapshot(*STEADY), snapshot((1, 1, 1), (2, 2, 2), (3, 1, 1)), snapshot((1, 2, 2), (2, 3, 3), (3, 2, 2)))
    )
    assert used == [False, True]
    assert reasons[0] == "the statistics were reset"
    info = [(0, "2026-01-01"), (0, "2026-01-02"), (0, "2026-01-02")]
    _, used, reasons = totals(
        capture(
            snapshot(*STEADY), snapshot((1, 30, 300), (2, 40, 400), (3, 50, 500)),
            snapshot((1, 31, 301), (2, 40, 400), (3, 50, 500)), info=info,
        )
    )  # fmt: skip
    assert used == [False, True]


def test_after_a_known_reset_the_new_values_are_the_work() -> None:
    info = [(0, "2026-01-01"), (0, "2026-01-02"), (0, "2026-01-02")]
    files = capture(
        snapshot(*STEADY), snapshot((1, 30, 300), (2, 40, 400)), snapshot((1, 31, 301), (2, 40, 400)), info=info
    )
    assert compute(files, method="ratio", draws="0").tables["intervals"]["x"].to_list() == [700_000, 1_000]


def test_a_class_that_is_counted_from_a_later_moment_began_anew() -> None:
    """Evicted and back with more calls than before: no counter fell, only ``stats_since`` (or FIRST_SEEN) tells."""

    def one(calls: int, since: str) -> bytes:
        others = "".join(f"10,5,t,{q},SELECT {q},7,70,7,2025-12-01 00:00:00+00\n" for q in (8, 9))
        return (HEADER + f",stats_since\n10,5,t,1,SELECT 1,{calls},{calls},1,{since}\n" + others).encode()

    old, new = "2025-12-01 00:00:00+00", "2026-01-01 00:01:30+00"
    found, used, reasons = totals(capture(one(2, old), one(3, old), one(50, new), one(51, new)))
    assert used == [True, False, True]
    assert "began anew (reset)" in reasons[1]
    assert found["1"] == 2


@pytest.mark.parametrize(
    "other",
    [
        pytest.param([(1, 9000, 90_000), (2, 9000, 90_000), (3, 9000, 90_000)], id="always ahead"),
        pytest.param([(1, 9000, 90_000), (2, 1, 1), (3, 9000, 1)], id="ahead in some"),
        pytest.param([(7, 10, 10), (8, 10, 10), (9, 10, 10)], id="other classes"),
    ],
)
def test_two_servers_that_take_turns_under_one_name_are_refused(other: list[tuple[int, float, float]]) -> None:
    def later(rows: list[tuple[int, float, float]], t: int) -> bytes:
        return snapshot(*((q, calls + t, ms + 3 * t) for q, calls, ms in rows))

    files = capture(*(later(rows, t) for t in range(4) for rows in (STEADY, other)))
    result = compute(files, draws="0")
    assert "several-hosts" in kinds(result)
    assert not result.tables["intervals"]["used"].any()
    assert result.summary["y_measured"] is None
    assert result.tables["classes"]["x_total"].sum() == 0
    # one after another each of them is sound
    alone = compute(capture(*(later(STEADY, t) for t in range(4)), *(later(other, t) for t in range(4))), draws="0")
    assert "several-hosts" not in kinds(alone)


def test_a_restart_of_the_cpu_counter_is_not_used() -> None:
    _, used, reasons = totals(
        capture(
            snapshot(*STEADY), snapshot((1, 11, 130), (2, 20, 200), (3, 5, 50)), snapshot((1, 12, 131), (2, 20, 200), (3, 5, 50)),
            cpu=[5000, 100, 200],
        )
    )  # fmt: skip
    assert used == [False, True]
    assert "CPU counter fell" in reasons[0]


def test_one_snapshot_is_a_profile_since_the_reset() -> None:
    result = compute({"pgss-20260101T000000Z.csv": snapshot(*STEADY)})
    assert result.tables["classes"]["x_total"].to_list() == [200_000, 100_000, 50_000]
    assert result.tables["intervals"]["used"].to_list() == [False]
    assert any("one snapshot" in note for note in result.notes)


def test_postgres_checkups_own_deltas() -> None:
    """The same classes with the same differences, and its measure of error."""
    root = reference("query-profile") / "real/postgres-checkup"
    files = {k: v for k, v in folder(root).items() if "K000" not in k}
    wanted = next(iter(json.loads((root / "K000_query_analysis.json").read_text())["results"].values()))["data"]
    result = compute(files)
    frame = result.tables["classes"].filter(result.tables["classes"]["calls"] > 0)
    moved = [q for q in wanted["queries"].values() if q["diff_calls"]]
    assert sorted(round(t / 1000, 4) for t in frame["x_total"]) == sorted(round(q["diff_total_time"], 4) for q in moved)
    assert sorted(frame["calls"]) == sorted(q["diff_calls"] for q in moved)
    reason = result.tables["intervals"]["reason"][0]
    assert "6 classes appeared" in reason
    assert "6 classes vanished" in reason
    assert f"{wanted['relative_error_total_time']:.3g} %" in reason
    assert "rounded-queryid" in kinds(result)


def test_same_queryid_of_other_users_stays_apart() -> None:
    rows = b"10,5,t,7,S,1,1,1\n11,5,t,7,S,1,2,1\n10,5,f,7,S,1,3,1\n"
    more = b"10,5,t,7,S,2,11,1\n11,5,t,7,S,2,22,1\n10,5,f,7,S,2,33,1\n"
    head = HEADER.encode() + b"\n"
    frame = compute(capture(head + rows, head + more)).tables["classes"]
    assert sorted(frame["x_total"].to_list()) == [10_000, 20_000, 30_000]
    assert set(frame["queryid"]) == {"7"}
    assert frame["class"].n_unique() == 3


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 1000))
def test_deltas_of_growing_counters_add_up_to_last_less_first(seed: int) -> None:
    rng = np.random.default_rng(seed)
    calls = np.cumsum(rng.integers(0, 5, (5, 3)), axis=0) + 1
    times = np.cumsum(rng.random((5, 3)) * 10, axis=0) + 1
    texts = [
        snapshot(*((q + 1, int(calls[t, q]), float(np.round(times[t, q], 4))) for q in range(3))) for t in range(5)
    ]
    found, used, _ = totals(capture(*texts))
    assert all(used)
    for q in range(3):
        assert found[str(q + 1)] == pytest.approx(round(times[4, q], 4) - round(times[0, q], 4), abs=2e-3)


# --- the profile -----------------------------------------------------------------------------------------------------


def sample() -> dict[str, bytes]:
    rng = np.random.default_rng(2)
    rows = ["q.a,q.b,e.c,user_us"]
    for _ in range(60):
        x = rng.integers(1, 100_000, 3)
        rows.append(",".join(map(str, [*x, int(x @ [2, 1, 0.1]) + 1000])))
    return {"t.csv": "\n".join(rows).encode()}


def test_top_joins_the_rest_into_others() -> None:
    whole = compute(sample()).tables["classes"]
    frame = compute(sample(), top="1").tables["classes"]
    assert frame["class"].to_list() == [whole["class"][0], "Others - 2 items"]
    for column in ("y_total", "x_total", "y_share"):
        assert math.isclose(frame[column].sum(), whole[column].sum(), rel_tol=1e-9)


def test_ranks_filters_and_groups() -> None:
    times = compute(sample(), metric="time").tables["classes"]["x_total"].to_list()
    assert times == sorted(times, reverse=True)
    assert compute(sample(), filter="q.").tables["classes"].height == 2
    grouped = compute(sample(), group="verb").tables["classes"]
    assert dict(zip(grouped["class"], grouped["members"], strict=True)) == {"q": 2, "e": 1}
    # a group is not blamed for what only moves between its classes
    measured = compute(sample()).summary["y_measured"]
    for row in grouped.iter_rows(named=True):
        assert row["disagreement"] == pytest.approx(abs(row["y_default"] - row["y_wlr"]) / measured)


def test_windows_and_comparison() -> None:
    result = compute(sample(), window="31..60", compare="1..30", method="ratio")
    assert result.summary["intervals"] == 30
    frame = result.tables["comparison"]
    assert frame.height == 3
    assert set(frame["status"]) == {"both"}
    # one fit of both windows: CPU changes as time does, not as two fits differ
    same = compute(sample(), window="31..60", compare="1..30", draws="0").tables["comparison"]
    for row in same.iter_rows(named=True):
        assert math.isclose(row["y_now"], row["y_before"] * row["x_factor"], rel_tol=1e-9)
    assert "bad-window" in kinds(compute(sample(), window="from here"))
    with pytest.raises(profile.BadWindow):
        profile.window(_work(), "x..y..z")


def test_a_change_of_costs_between_two_windows_shows() -> None:
    """Where costs changed, each side of a comparison (and of a trend) has its own."""
    rng = np.random.default_rng(3)
    x = rng.integers(1000, 90_000, (200, 3))
    cost = np.where(np.arange(200)[:, None] < 100, [1.0, 2.0, 1.0], [3.0, 2.0, 1.0])
    y = (x * cost).sum(axis=1) * rng.normal(1, 0.01, 200)
    rows = [",".join(str(int(v)) for v in (*line, total)) for line, total in zip(x, y, strict=True)]
    files = {"t.csv": "\n".join(["q.1,q.2,q.3,user_us", *rows, ""]).encode()}
    result = compute(files, window="101..200", compare="1..100", draws="0")
    found = {
        r["class"]: r["y_now"] / r["y_before"] / r["x_factor"]
        for r in result.tables["comparison"].iter_rows(named=True)
    }
    assert found["q.1"] == pytest.approx(3, rel=0.1)
    assert found["q.2"] == pytest.approx(1, rel=0.1)
    detail = compute(files, draws="0").detail
    assert detail.by_class[100:, 0].sum() / x[100:, 0].sum() == pytest.approx(3, rel=0.1)


def _work() -> profile.Workload:
    from engine.query_profile.workloads.sources import gather
    from engine.view import Context
    from tests.engine.query_profile.made import inputs

    return gather(inputs(sample()), "", Context(0)).workloads[0]


def test_what_if_halves_or_removes() -> None:
    result = compute(sample(), what_if="q.a", faster="2")
    row = result.tables["what_if"].row(0, named=True)
    total = result.tables["classes"].filter(result.tables["classes"]["class"] == "q.a")["y_total"][0]
    assert math.isclose(row["saved"], total / 2)
    dropped = compute(sample(), what_if="q.a", drop="true").tables["what_if"].row(0, named=True)
    assert math.isclose(dropped["saved"], total)
    assert dropped["saved_low"] <= total <= dropped["saved_high"]
    assert "no-class" in kinds(compute(sample(), what_if="nope"))


def test_what_if_utilisation_and_latency() -> None:
    found = whatif.saving(4e6, 3e6, 5e6, faster=2, drop=False, used_us=8e6, seconds=5, cores=2)
    assert (found.saved, found.before) == (2e6, 0.8)
    assert math.isclose(found.after, 0.6)
    assert math.isclose(found.latency_factor, (1 - 0.64) / (1 - 0.36))


def test_calls_beside_times_are_found() -> None:
    root = reference("query-profile") / "capture-pg15/wlr-layout"
    files = {name: (root / name).read_bytes() for name in ("time_us.csv", "calls.csv")}
    result = compute(files)
    assert result.tables["classes"]["calls"].sum() > 600_000
    assert result.summary["mape"] < 0.04
    assert compute({"time_us.csv": files["time_us.csv"]}).summary["mape"] > 0.08


def test_check_finds_a_class_that_surely_takes_too_much() -> None:
    root = reference("query-profile")
    result = compute(folder(root / "001.csv"), max_share="0.5")
    assert [(f.level, f.subject) for f in result.findings] == [("severe", "q.21fb19005f6951c4")]
    assert compute(folder(root / "001.csv"), max_share="0.8").findings == ()


def test_a_check_that_knows_nothing_fails() -> None:
    for files in ({"t.csv": b"q.1,q.2\n1,2\n"}, {"pgss-20260101T000000Z.csv": snapshot(*STEADY)}):
        (finding,) = compute(files, max_share="0.5").findings
        assert (finding.level, finding.subject) == ("severe", "max-share")
        assert compute(files).findings == ()
    idle = capture(snapshot(*STEADY), snapshot(*STEADY), cpu=[1, 1])
    assert compute(idle, max_share="0.5", draws="0").findings == ()


def test_an_appended_row_changes_nothing_but_adds() -> None:
    """With the memo of a session the result is that of a fresh one."""
    from engine.inputs import FileInfo, Inputs
    from engine.parameters import parse
    from engine.query_profile.reading.wlr_csv import WlrCsv
    from engine.query_profile.view import VIEW
    from engine.reading import Source
    from engine.view import Context
    from tests.engine.query_profile.made import inputs

    data = sample()["t.csv"]
    cut = data.rfind(b"\n", 0, data.rfind(b"\n")) + 1
    context = Context(0)
    choice = parse(VIEW.parameters, [("method", "wlr")])
    first = inputs({"t.csv": data[:cut]})
    VIEW.compute(first, choice, context)
    kind = WlrCsv()
    begun = kind.read(Source("/in/t.csv", "t.csv", 0, cut), data[:cut], None, True)
    rest = kind.read(Source("/in/t.csv", "t.csv", 0, len(data), cut), data[cut:], begun.state, True)
    import polars as pl

    both = pl.concat(
        [first.table("matrix"), rest.rows["matrix"].with_columns(pl.lit(1, dtype=pl.UInt32).alias("file"))]
    )
    info = FileInfo(1, "/in/t.csv", "t.csv", "wlr-csv", 0, len(data), 2)
    grown = Inputs(2, {1: info}, (), lambda name: both if name == "matrix" else first.table(name))
    fresh = VIEW.compute(inputs({"t.csv": data}), choice, Context(0))
    appended = VIEW.compute(grown, choice, context)
    assert fresh.summary == appended.summary
    assert fresh.tables["predictions"].equals(appended.tables["predictions"])
    assert np.allclose(fresh.tables["classes"]["slope"], appended.tables["classes"]["slope"], rtol=1e-12)


def test_snapshots_that_come_one_by_one_give_what_all_at_once_give() -> None:
    """What is kept of earlier snapshots only saves time: also after a reset told later, and when old files are deleted."""
    rng = np.random.default_rng(4)
    calls = np.cumsum(rng.poisson(50, (12, 3)), axis=0)
    texts = [snapshot(*((j, c, c * 2.0) for j, c in enumerate(row) if j < 2 or i > 4)) for i, row in enumerate(calls)]
    texts[7] = snapshot((0, 3, 5), (1, 4, 6))
    whole = capture(*texts, cpu=[1000 * i * i for i in range(12)])
    cpu = {"cpu.csv": whole.pop("cpu.csv")}
    names = sorted(whole)
    context = Context(now_ms=0)
    given = parse(VIEW.parameters, [("draws", "0")])
    told = {"info.csv": b"captured_at,dealloc,stats_reset\n2026-01-01T00:02:00Z,0,1\n2026-01-01T00:03:00Z,0,2\n"}
    stages = [names[:1], names[:2], names[:6], names[:7], names, names, names[3:]]
    for version, stage in enumerate(stages, 1):
        files = cpu | {name: whole[name] for name in stage} | (told if version > 5 else {})
        found = inputs(files)
        kept = VIEW.compute(replace(found, version=version), given, context)
        fresh = VIEW.compute(replace(found, version=version), given, Context(now_ms=0))
        assert kept.summary == fresh.summary
        assert kept.tables.keys() == fresh.tables.keys()
        assert all(frame.equals(fresh.tables[name]) for name, frame in kept.tables.items())
    assert kept.summary["intervals"] == 8


def test_a_doubtful_class_does_not_invent_measured_cpu() -> None:
    """What a source does not count stays unknown in evicted classes too, and the CPU series beside it is used."""
    files = capture(
        snapshot(*STEADY), snapshot(*STEADY[:2], (4, 9, 9)), snapshot(*STEADY[:2], (4, 9, 10)), cpu=[0, 5, 9]
    )
    result = compute(files, draws="0")
    assert result.summary["y_source"] == "process"
    assert result.summary["y_measured"] == 4000
    assert result.tables["classes"]["cpu_measured_us"].null_count() == result.tables["classes"].height


def test_servers_of_the_same_name_are_told_apart() -> None:
    """Each has its own name, and source= finds it."""
    whole = capture(snapshot(*STEADY), snapshot(*STEADY))
    files = {f"{place}/{name}": text for place in ("one", "two") for name, text in whole.items()}
    result = compute(files, draws="0")
    labels = sorted(result.tables["sources"]["source"].to_list())
    assert labels == ["pg_stat_statements: pgss in one", "pg_stat_statements: pgss in two"]
    assert "not mixed in" in result.notes[0]
    assert compute(files, draws="0", source="in two").summary["source"] == labels[1]
    # a whole name is meant before longer ones
    more = {f"{place}/{name}": text for place in ("one", "one2") for name, text in whole.items()}
    more |= {f"one2/{name}": text for name, text in capture(*[snapshot(*STEADY)] * 5).items()}
    assert compute(more, draws="0", source=labels[0]).summary["source"] == labels[0]


def test_single_snapshots_of_other_versions_are_other_servers() -> None:
    old = b"userid,dbid,queryid,query,calls,total_time,rows\n10,5,1,SELECT 1,3,30,3\n"
    result = compute({"old.csv": old, "new.csv": snapshot(*STEADY)})
    assert sorted(result.tables["sources"]["source"].to_list()) == [
        "pg_stat_statements: new",
        "pg_stat_statements: old",
    ]
    assert result.tables["classes"]["x_total"].sum() == 350_000
    both = compute({"before.csv": snapshot(*STEADY), "after.csv": snapshot(*STEADY)})
    assert both.tables["sources"].height == 1


def test_each_server_has_the_cpu_that_lies_nearest_to_it() -> None:
    texts = snapshot(*STEADY), snapshot((1, 11, 130), (2, 20, 200), (3, 6, 55))
    one, two = capture(*texts, cpu=[0, 1000]), capture(*texts, cpu=[0, 7000])

    def measured(files: dict[str, bytes], source: str) -> float:
        return float(compute(files, draws="0", method="ratio", source=source).summary["y_measured"])

    apart = {f"{place}/{name}": text for place, files in (("db1", one), ("db2", two)) for name, text in files.items()}
    named = {f"{place}-{name}": text for place, files in (("db1", one), ("db2", two)) for name, text in files.items()}
    for files in (apart, named):
        assert [measured(files, place) for place in ("db1", "db2")] == [1e6, 7e6]
    # without a CPU of its own a server does not take another's
    del apart["db2/cpu.csv"]
    result = compute(apart, draws="0", source="db2")
    assert result.summary["y_measured"] is None
    assert "no-cpu" in kinds(result)
    # one that may be either's is used, and this is said
    shared = {name.removeprefix("db1/"): text for name, text in apart.items() if name == "db1/cpu.csv"}
    result = compute({**{k: v for k, v in named.items() if "cpu" not in k}, **shared}, draws="0", source="db1")
    assert any("right for one of them only" in note for note in result.notes)


def test_the_upper_end_of_others_is_no_more_than_everything() -> None:
    result = compute(capture(*(snapshot((1, i, i), (2, i * i, i), (3, 2 * i, 9 * i)) for i in range(1, 9))), top="1")
    others = result.tables["classes"].row(1, named=True)
    assert others["members"] == 2
    assert others["y_high"] <= max(result.summary["y_measured"], others["y_total"])
