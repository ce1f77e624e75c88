"""CPU that the server counted by class: it is the profile where it is complete, else it stands beside the model."""

from __future__ import annotations

import pytest

from engine.core.view import Result
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
        assert total == measured == pytest.approx(wanted, rel=1e-9)
        assert low < total < high
        assert model is not None and model != total
    assert result.summary["counted_share"] == pytest.approx(1 / 1.02)
    assert 0 < result.summary["model_error"] < 1 and result.summary["trust_grade"] == "good"
    assert result.summary["attributed"] + result.summary["unattributed"] == pytest.approx(result.summary["y_measured"])
    assert any("counted the CPU of every statement" in note for note in result.notes) and not result.problems


def test_incomplete_counters_and_those_of_another_server_stand_beside_the_model() -> None:
    part = profile(CLASSES[:2])
    rows = {queryid: rest for queryid, *rest in part.tables["classes"].select("queryid", "y_total", "y_default").rows()}
    assert all(total == model for total, model in rows.values())
    assert any("of classes with" in note for note in part.notes)
    other = profile(extra=0.5)  # less than the statements used
    assert other.summary["y_source"] == "the classes' own counters"
    assert [problem.kind for problem in other.problems] == ["other-server"]
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


# --- as an exporter's series ---------------------------------------------------------------------------------------------

STEP = {at: n for n, at in enumerate(TIMES)}
CALLS, SECONDS = "pg_stat_statements_calls_total", "pg_stat_statements_seconds_total"


def statements() -> dict[tuple[str, str], list[tuple[int, float]]]:
    return {
        (name, queryid): [(at, calls_of(queryid, n) * factor) for at, n in STEP.items()]
        for queryid in CLASSES
        for name, factor in ((CALLS, 1), (SECONDS, 0.01))
    }


def counted(**parts: float) -> dict[tuple[str, str], list[tuple[int, float]]]:
    """Series of the CPU of each class by name, each with its share of it."""
    return {
        (name, queryid): [(at, share * calls_of(queryid, n) * COST_US[queryid] / 1e6) for at, n in STEP.items()]
        for queryid in CLASSES
        for name, share in parts.items()
    }


def container(pod: str = "db1", factor: float = 1.02) -> bytes:
    """The CPU of a pod's containers, of which only that of the database counts, and its limit."""
    used = [sum(calls_of(q, n) * COST_US[q] for q in CLASSES) / 1e6 for n in STEP.values()]
    lines = []
    for name, share in (("postgres", factor), ("", factor + 5), ("POD", 1), ("postgres-exporter", 3), ("pgbouncer", 2)):
        labels = f'pod="{pod}",container="{name}",instance="node7:10250"'
        lines += [f'container_cpu_usage_seconds_total{{cpu="total",{labels}}} {value * share} {at * 1000}\n'
                  for at, value in zip(TIMES, used, strict=True)]  # fmt: skip
        lines.append(f'kube_pod_container_resource_limits{{resource="cpu",{labels}}} 4 {TIMES[0] * 1000}\n')
        lines.append(f'kube_pod_container_resource_limits{{resource="memory",{labels}}} 9e9 {TIMES[0] * 1000}\n')
    return "".join(lines).encode()


@pytest.mark.parametrize(
    "parts",
    [
        {"pg_stat_kcache_exec_user_time": 0.6, "pg_stat_kcache_exec_system_time": 0.3, "pg_stat_kcache_plan_user_time": 0.1,
         "pg_stat_kcache_plan_system_time": 0.0},
        {"pg_stat_kcache_user_time_seconds_total": 0.75, "pg_stat_kcache_system_time_seconds_total": 0.25},
        {"pgwatch_pg_stat_kcache_exec_total_time": 1.0},
    ],
)  # fmt: skip
def test_counters_of_an_exporter_are_the_profile_too(parts: dict[str, float]) -> None:
    """The query that an operator wrote for the exporter may have no users or databases, and may be asked for apart."""
    apart = answer(counted(**parts)).replace(b', "datname": "shop"', b"")
    result = compute({"classes.json": answer(statements()), "kcache.json": apart, "cpu.prom": container()}, draws=20)
    rows = result.tables["classes"].select("queryid", "y_total", "cpu_measured_us").rows()
    assert {queryid for queryid, *_ in rows} == set(CLASSES)
    for queryid, total, measured in rows:
        assert total == measured == pytest.approx(calls_of(queryid, len(TIMES) - 1) * COST_US[queryid], rel=1e-9)
    assert result.summary["counted_share"] == pytest.approx(1 / 1.02) and not result.problems
    assert result.summary["y_source"].startswith("cadvisor") and result.summary["cores"] == 4


def test_each_server_has_the_counters_of_its_own() -> None:
    files = {}
    for number, host in enumerate((b"db1", b"db2"), 1):
        series = answer(counted(pg_stat_kcache_exec_total_time=float(number)) | statements())
        files[f"{number}.json"] = series.replace(b"db1:9187", host + b":9187")
        files[f"cpu-{number}.prom"] = container(host.decode(), 1.02 * number)
    for number in (1, 2):
        result = compute(files, source=f"db{number}", draws=0)
        assert result.summary["counted_share"] == pytest.approx(1 / 1.02), number
        for queryid, measured in result.tables["classes"].select("queryid", "cpu_measured_us").rows():
            assert measured == pytest.approx(number * calls_of(queryid, len(TIMES) - 1) * COST_US[queryid])


def test_half_of_a_counter_is_none() -> None:
    half = answer(counted(pg_stat_kcache_exec_user_time=0.6) | statements())
    result = compute({"a.json": half, "cpu.prom": container()}, draws=20)
    assert [problem.kind for problem in result.problems] == ["half-counted"]
    assert not result.tables["classes"]["cpu_measured_us"].count()


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
