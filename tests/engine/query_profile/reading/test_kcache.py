"""CPU that the server counted by class: it is the profile where it is complete, else it stands beside the model."""

from __future__ import annotations

import pytest

from engine.result import Result
from tests.engine.query_profile.builders import MTIME, compute, read
from tests.engine.query_profile.reading.test_exporter_series import TIMES, answer

STEPS, CLASSES = 30, ("11", "12", "13")
COST_US = {"11": 100.0, "12": 2_000.0, "13": 30_000.0}
"""CPU of a call, by class."""


def calls_of(queryid: str, step: int) -> int:
    """Calls up to a step, with some variety."""
    return sum(5 + (n * int(queryid)) % 17 for n in range(step))


def pgss(step: int) -> bytes:
    head = "captured_at,userid,dbid,toplevel,queryid,query,calls,total_exec_time,rows\n"
    at = MTIME // 1000 + 60 * step
    rows = [f"{at},10,5,t,{q},select {q},{calls_of(q, step)},{calls_of(q, step) * 7.5},0\n" for q in CLASSES]
    return (head + "".join(rows)).encode()


def kcache(step: int, classes: tuple[str, ...] = CLASSES, version: str = "2.3") -> bytes:
    at = MTIME // 1000 + 60 * step + 1
    cpu = {q: calls_of(q, step) * COST_US[q] / 1e6 for q in classes}
    if version == "2.0":
        head = "captured_at,queryid,userid,dbid,reads,writes,user_time,system_time\n"
        rows = [f"{at},{q},10,5,0,0,{value * 0.75!r},{value * 0.25!r}\n" for q, value in cpu.items()]
    else:
        head = "captured_at,queryid,top,userid,dbid,plan_user_time,plan_system_time,exec_user_time,exec_system_time,exec_reads\n"
        rows = [f"{at},{q},t,10,5,0,{value * 0.1!r},{value * 0.6!r},{value * 0.3!r},0\n" for q, value in cpu.items()]
    return (head + "".join(rows)).encode()


def profile(classes: tuple[str, ...] = CLASSES, version: str = "2.3", extra: float = 1.02) -> Result:
    files = {f"pgss-{step}.csv": pgss(step) for step in range(STEPS)}
    files |= {f"kcache-{step}.csv": kcache(step, classes, version) for step in range(STEPS)} if classes else {}
    used = [sum(calls_of(q, step) * COST_US[q] for q in CLASSES) * extra for step in range(STEPS)]
    rows = [f"{MTIME // 1000 + 60 * step},{value:.0f},0\n" for step, value in enumerate(used)]
    files["cpu.csv"] = ("captured_at,user_us,system_us\n" + "".join(rows)).encode()
    return compute(files, draws=20)


@pytest.mark.parametrize("version", ["2.0", "2.3"])
def test_complete_counters_are_the_profile_and_show_how_far_the_model_is_off(version: str) -> None:
    result = profile(version=version)
    rows = (
        result.tables["classes"].select("queryid", "y_total", "cpu_measured_us", "y_low", "y_high", "y_default").rows()
    )
    for queryid, total, measured, low, high, model in rows:
        wanted = calls_of(queryid, STEPS - 1) * COST_US[queryid]
        assert total == measured == low == high == pytest.approx(wanted, rel=1e-9)
        assert model is not None and model != total
    assert result.summary["counted_share"] == pytest.approx(1 / 1.02)
    assert 0 < result.summary["model_error"] < 1 and result.summary["trust_grade"] == "good"
    assert result.summary["attributed"] + result.summary["unattributed"] == pytest.approx(result.summary["y_measured"])
    assert any("counted the CPU of every class" in note for note in result.notes) and not result.problems


def test_incomplete_counters_and_those_of_another_server_stand_beside_the_model() -> None:
    part = profile(CLASSES[:2])
    rows = {queryid: rest for queryid, *rest in part.tables["classes"].select("queryid", "y_total", "y_default").rows()}
    assert all(total == model for total, model in rows.values())
    assert any("of classes with" in note for note in part.notes)
    other = profile(extra=10.0)
    assert all(total == model for total, model in other.tables["classes"].select("y_total", "y_default").rows())
    without = profile(())
    assert without.summary["model_error"] is None and not without.tables["classes"]["cpu_measured_us"].count()


def test_digests_of_an_exporter_are_complete_too() -> None:
    name = "mysql_perf_schema_events_statements_"
    step = {at: n for n, at in enumerate(TIMES)}
    series = {
        (name + ending, queryid): [(at, calls_of(queryid, step[at]) * factor) for at in TIMES]
        for queryid in CLASSES
        for ending, factor in (
            ("total", 1),
            ("seconds_total", 0.01),
            ("cpu_time_seconds_total", COST_US[queryid] / 1e6),
        )
    }
    data = answer(series).replace(b'"queryid"', b'"digest"')
    used = {at: sum(calls_of(q, n) * COST_US[q] for q in CLASSES) / 1e6 for at, n in step.items()}
    lines = [f'node_cpu_seconds_total{{cpu="0",mode="{mode}",instance="db1:9100"}} {value} {at * 1000}\n'
             for at, cpu in used.items() for mode, value in (("user", cpu), ("system", 0), ("idle", at))]  # fmt: skip
    result = compute({"digests.json": data, "node.prom": "".join(lines).encode()}, draws=20)
    for queryid, total in result.tables["classes"].select("queryid", "y_total").rows():
        assert total == pytest.approx(calls_of(queryid, len(TIMES) - 1) * COST_US[queryid])
    assert result.summary["trust_grade"] == "good"


def test_odd_rows_are_problems() -> None:
    good = kcache(3).decode().splitlines()
    data = "\n".join(
        [
            *good[:3],
            good[3].replace("t,10", "t,10", 1).rsplit(",", 1)[0] + ",x,y",
            good[1].replace(",0,", ",-1,", 1),
            "",
        ]
    )
    reading = read("kcache.csv", data.encode(), "pg-stat-kcache")
    assert reading.rows["snapshots"].height == 2 and len(reading.problems) == 2
