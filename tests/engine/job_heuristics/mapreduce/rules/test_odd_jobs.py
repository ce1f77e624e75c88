"""Random odd jobs, against the plain formulas of ``tests.engine.job_heuristics.formulas``: numbers, verdicts and texts."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import polars as pl
import pytest

from engine.core.view import Context, Inputs, Result
from engine.job_heuristics.parameters import JobParameters
from engine.job_heuristics.view import VIEW
from tests.chance import more
from tests.engine.job_heuristics.formulas import expected
from tests.engine.job_heuristics.helper import inputs_of
from tests.engine.job_heuristics.odd_jobs import OddJob, odd_job


def compute(files: Mapping[str, bytes] | Inputs, context: Context | None = None, **parameters: Any) -> Result:
    inputs = files if isinstance(files, Inputs) else inputs_of(files)
    return VIEW.compute(inputs, JobParameters(**parameters), context or Context(0))


def computed(jobs: list[OddJob], *, binary: bool = False) -> Result:
    """All jobs at once."""
    return compute({path: data for job in jobs for path, data in job.files(binary=binary).items()})


def shown(result: Result) -> dict[str, dict[str, Any]]:
    """By job id, what ``expected`` holds too, and ``upstream_says``."""
    rows = {row["job_id"]: {**row, "verdicts": []} for row in result.tables["jobs"].to_dicts()}
    for job, heuristic, severity, score, details in result.tables["heuristics"].iter_rows():
        rows[job]["verdicts"].append((heuristic, severity, score, json.loads(details)))
    return rows


@pytest.mark.parametrize(("first", "binary"), [(0, False), (10_000, True)])
def test_odd_jobs_are_as_the_formulas_say(first: int, binary: bool) -> None:
    jobs = [odd_job(seed) for seed in range(first, first + more(25))]
    rows = shown(computed(jobs, binary=binary))
    compared = 0
    for job in jobs:
        wanted, row = expected(job), rows[job.id]
        assert bool(row["upstream_says"]) == (wanted is None), (job.id, row["upstream_says"])
        if wanted is not None:
            assert {name: row[name] for name in wanted} == wanted, job.id
            compared += 1
    assert len(jobs) / 2 < compared < len(jobs), "some are shown, some make Dr. Elephant stumble"


def test_a_bad_job_takes_no_other_with_it() -> None:
    good = [job for job in map(odd_job, range(200, 230)) if 20 < len(job.events) < 150][:3]
    alone = shown(computed(good))
    bad = good[0].id
    others = alone.keys() - {bad}
    sound = {path: data for job in good for path, data in job.files().items()}
    for name, (path, data) in poisons(good[0]).items():
        files, context = inputs_of({**sound, path: data}), Context(0)
        result = compute(files, context, job=bad, split_size=2**20, reduces=9)
        rows = shown(result)
        assert {job: rows[job] for job in others} == {job: alone[job] for job in others}, name
        assert all(abs(result.summary[total]) < 2**62 for total in ("used_mb_s", "wasted_mb_s")), name
        assert compute(files, context, mode="published").tables["jobs"].height == len(good), name


def poisons(job: OddJob) -> dict[str, tuple[str, bytes]]:
    """By name, a file of ``job`` that no other job should suffer from."""
    (history, text), (conf, xml) = job.files().items()
    largest, least = str(2**63 - 1).encode(), str(-(2**63)).encode()

    def with_conf(**properties: str) -> tuple[str, bytes]:
        rows = "".join(
            f"<property><name>{name.replace('_', '.')}</name><value>{value}</value></property>"
            for name, value in properties.items()
        )
        return conf, xml.replace(b"</configuration>", rows.encode() + b"</configuration>")

    def changed(pattern: bytes, value: bytes) -> tuple[str, bytes]:
        return history, re.sub(pattern, rb"\g<1>" + value, text)

    return {
        "largest counters": changed(rb'("value":)-?\d+', largest),
        "least counters": changed(rb'("value":)-?\d+', least),
        "beyond 64 bit": changed(rb'("value":)-?\d+', b"9" * 30),
        "beyond all numbers": changed(rb'("value":)-?\d+', b"9" * 5000),
        "no time": changed(rb'("finishTime":)-?\d+', b"-1"),
        "end of time": changed(rb'("finishTime":)-?\d+', str(2**53).encode()),
        "arrays": changed(rb'("clockSplits":)\[[^]]*\]', b"[" + b",".join([b"9" * 400] * 12) + b"]"),
        "arrays of texts": changed(rb'("cpuUsages":)\[[^]]*\]', b'["a",null,{}]'),
        "rubbish": (history, text[: len(text) // 2] + bytes(range(256)) * 20),
        "container": with_conf(mapreduce_map_memory_mb=str(2**63 - 1), mapreduce_reduce_memory_mb=str(2**62)),
        "settings": with_conf(
            mapreduce_task_io_sort_mb="nan", mapreduce_map_sort_spill_percent="inf", mapreduce_map_cpu_vcores="9" * 99,
            mapreduce_job_reduce_slowstart_completedmaps="1e308",
        ),
    }  # fmt: skip


def test_wrapped_numbers_are_noted_and_not_summed() -> None:
    job = odd_job(3)
    files = job.files()
    conf = next(path for path in files if path.endswith(".xml"))
    memory = "<property><name>mapreduce.map.memory.mb</name><value>9000000000000000000</value></property>"
    final = b"<configuration>" + memory.replace("</property>", "<final>true</final></property>").encode()
    files[conf] = files[conf].replace(b"<configuration>", final)
    result = compute(files)
    assert "wraps around" in result.tables["jobs"]["notes"].item()
    assert result.summary["used_mb_s"] == 0
    assert result.tables["rollup"].filter(pl.col("by") == "user")["used_mb_s"].to_list() == [0]
