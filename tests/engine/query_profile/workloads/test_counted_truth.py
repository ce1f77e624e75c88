"""A real server's CPU by class, as its kernel counted it: what pg_stat_kcache says is shown unchanged, agrees with what the
backends used, and the model's distance from it is the error that the view reports."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import polars as pl
import pytest

from engine.core.view import Result
from engine.query_profile.tables import CLASSES
from tests.engine.query_profile.builders import compute
from tests.reference import reference

LONG = ("sortmd5", "md5gen", "distinct", "rangesum", "join", "regex", "window", "wide", "jsonb")
"""Kinds of work whose statements take long: the CPU of short ones goes mostly into parsing, planning and the protocol, which
pg_stat_kcache does not count."""


def capture() -> Path:
    return reference("query-profile") / "capture-pg15"


def truth() -> dict[str, tuple[str, float]]:
    """By query id: the kind of work, and the microseconds of CPU that pg_stat_kcache counted in the whole capture."""
    with (capture() / "truth/classes.csv").open() as file:
        return {row["queryid"]: (row["group"], float(row["kcache_exec_cpu_ms"]) * 1e3) for row in csv.DictReader(file)}


@pytest.fixture(scope="module")
def result() -> Result:
    """The profile of the capture, with what was counted by class spread over the snapshots as the elapsed time is."""
    paths = sorted((capture() / "pgss").iterdir())
    snapshots = [pl.read_csv(path, schema_overrides={"queryid": pl.String}) for path in paths]
    time = [dict(one.group_by("queryid").agg(pl.col("total_exec_time").sum()).iter_rows()) for one in snapshots]
    files = {path.name: path.read_bytes() for path in paths}
    files["db_process_cpu.csv"] = (capture() / "cpu/db_process_cpu.csv").read_bytes()
    for path, spent in zip(paths, time, strict=True):
        text = io.StringIO("queryid,top,userid,dbid,exec_user_time,exec_system_time\n")
        text.seek(0, io.SEEK_END)
        for queryid, (_, cpu) in truth().items():
            first, last = time[0].get(queryid, 0.0), time[-1].get(queryid, 0.0)
            share = (spent.get(queryid, 0.0) - first) / (last - first) if last > first else 0.0
            text.write(f"{queryid},t,0,0,{cpu * share / 1e6!r},0\n")
        files[path.name.replace("pgss-", "kcache-")] = text.getvalue().encode()
    return compute(files, draws=20)


def test_what_was_counted_is_shown_as_it_is(result: Result) -> None:
    wanted = truth()
    rows = result.tables[CLASSES.name].filter(pl.col("cpu_measured_us") > 0).select("queryid", "cpu_measured_us").rows()
    assert sum(measured for _, measured in rows) == pytest.approx(sum(cpu for _, cpu in wanted.values()), rel=1e-3)
    for queryid, measured in rows:
        assert measured == pytest.approx(wanted[queryid][1], rel=1e-6), queryid
    assert 0.8 < result.summary["counted_share"] < 0.9 and not result.problems


def test_it_is_what_the_backends_used(result: Result) -> None:
    """By kind of work: what the scheduler counted of the processes that did nothing else, parsing and planning included."""
    with (capture() / "truth/group_cpu.csv").open() as file:
        backends = {row["group"]: float(row["backend_cpu_us"]) for row in csv.DictReader(file)}
    of = {queryid: group for queryid, (group, _) in truth().items()}
    names = {"counted": "cpu_measured_us", "shown": "y_total", "model": "y_default", "wlr": "y_wlr"}
    by_kind = {name: dict.fromkeys(backends, 0.0) for name in names}
    for row in result.tables[CLASSES.name].iter_rows(named=True):
        for name, column in names.items():
            if of.get(row["queryid"]) in backends:
                by_kind[name][of[row["queryid"]]] += row[column] or 0.0
    off = {name: sum(abs(found[kind] - cpu) for kind, cpu in backends.items()) / sum(backends.values())
           for name, found in by_kind.items()}  # fmt: skip
    assert by_kind["shown"] == by_kind["counted"]
    assert off["counted"] < 0.15 and off["model"] < 0.2 and off["wlr"] > 0.9
    for kind, cpu in backends.items():
        assert by_kind["counted"][kind] <= cpu * 1.01, kind
        assert kind not in LONG or by_kind["counted"][kind] >= 0.9 * cpu, kind


def test_the_models_error_is_its_distance_from_what_was_counted(result: Result) -> None:
    rows = result.tables[CLASSES.name].select("cpu_measured_us", "y_default").rows()
    distance = sum(abs((model or 0.0) - (measured or 0.0)) for measured, model in rows)
    error = distance / sum(measured or 0.0 for measured, _ in rows)
    assert result.summary["model_error"] == pytest.approx(error) and 0.05 < error < 0.3
    assert any(f"puts {error * 100:.1f}% of it elsewhere" in note for note in result.notes)
