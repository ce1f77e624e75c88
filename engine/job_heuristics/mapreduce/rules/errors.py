"""Errors that Dr. Elephant throws instead of a result, and assumptions made here to give one.

See docs/models/job-heuristics.md, "Where Dr. Elephant shows nothing".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from engine.core.text import clean
from engine.job_heuristics.dr_elephant.display import integer
from engine.job_heuristics.mapreduce.model import job_conf
from engine.job_heuristics.mapreduce.rules.heuristic import SIDES, Jobs, MapReduceRules
from engine.job_heuristics.mapreduce.rules.metrics import CONTAINERS

_NULL_STATE = 'java.lang.NullPointerException: Cannot invoke "String.equals(Object)" because "<local13>" is null'
_NO_SLOW_START = 'java.lang.NullPointerException: Cannot invoke "String.trim()" because "in" is null'
_NEITHER = "java.lang.RuntimeException: job neither succeeded or failed. can not process it "
_OPEN_TASK = 'java.lang.NullPointerException: Cannot invoke "String.equals(Object)": a task has no final state'


def errors(jobs: Jobs, rules: MapReduceRules) -> list[str]:
    """Return Dr. Elephant's first exception per job; empty if it shows a result."""
    maps, reduces = jobs.side("map"), jobs.side("reduce")
    unfinished = (maps["n"] + reduces["n"] - maps["ended"] - reduces["ended"]).tolist()
    thrown = [(rule.excluded, each) for rule in rules.rules if (each := rule.heuristic.error(jobs))]
    texts = []
    names = ("job_id", "state", "source", "broken", "conf_file", "job_type")
    for j, cells in enumerate(zip(*(jobs.frame[name].to_list() for name in names), strict=True)):
        row = dict(zip(names, cells, strict=True))
        text = _before_heuristics(row, bool(unfinished[j]))
        if not text:
            text = next((each[j] for excluded, each in thrown if j in each and row["job_type"] not in excluded), "")
        texts.append(clean(text or _slow_start_error(jobs.properties[j].get(job_conf.SLOW_START))))
    return texts


def _before_heuristics(row: Mapping[str, Any], unfinished: bool) -> str:
    """Return the error of reading a job; empty if its heuristics run."""
    state, source = row["state"], row["source"]
    if row["broken"]:
        return str(row["broken"])
    if state == "RUNNING" and source == "history":
        return _NULL_STATE
    if state not in ("SUCCEEDED", "FAILED"):
        return _NEITHER
    if row["conf_file"] is None:
        return f"java.lang.RuntimeException: Can't find config of {row['job_id']}"
    return _OPEN_TASK if unfinished else ""


def _slow_start_error(value: str | None) -> str:
    """Return the error of parsing the slow-start share, which the wait metric reads and does not use."""
    if value is None:
        return _NO_SLOW_START
    return "" if job_conf.is_double(value) else f'java.lang.NumberFormatException: For input string: "{value}"'


def assumptions(jobs: Jobs) -> list[str]:
    """Return the assumptions made for each job."""
    maps, reduces = jobs.side("map"), jobs.side("reduce")
    timed, fallback, n = (maps[name] + reduces[name] for name in ("timed", "fallback", "n"))
    measured = (maps["avg_physical_bytes"] > 0) | (reduces["avg_physical_bytes"] > 0)
    columns = zip(
        jobs.frame["state"].to_list(), jobs.frame["conf_file"].to_list(),
        fallback.tolist(), (n - timed).tolist(), maps["instant"].tolist(), ((timed > 0) & ~measured).tolist(),
        _huge(jobs), strict=True,
    )  # fmt: skip
    notes = []
    for j, (state, conf_file, chosen, untimed, instant, unmeasured, huge) in enumerate(columns):
        words: list[str] = []
        if chosen:
            words.append("the file names no successful attempts: those that succeeded are taken")
        if untimed and state == "SUCCEEDED":
            words.append(f"{untimed} ended task(s) have no times")
        if instant:
            words.append(f"{instant} map(s) of 0 ms are left out of Mapper Speed")
        if conf_file is not None:
            words += _container_notes(jobs.properties[j])
        else:
            words.append("no configuration found: containers of 2048 MB and an unknown job type are assumed")
        if huge:
            words.append(
                "memory x time is beyond 64 bit: it wraps around as Dr. Elephant's does, and no total counts it"
            )
        if unmeasured:
            words.append("memory was not measured: all of it would count as wasted")
        if state == "RUNNING":
            words.append("still running: verdicts and metrics are over the tasks that have ended so far")
        elif state not in ("SUCCEEDED", "FAILED"):
            words.append(f"{state}: verdicts and metrics are over the tasks that ended")
        notes.append("; ".join(words))
    return notes


def _huge(jobs: Jobs) -> list[bool]:
    """Return which jobs have more memory x time than a 64-bit number holds."""
    products = [
        [mb * s for mb, s in zip(jobs.frame[name].to_list(), jobs.side(side)["seconds"].tolist(), strict=True)]
        for name, side in zip(CONTAINERS, SIDES, strict=True)
    ]
    return [max(map(abs, (*both, sum(both)))) >= 2**63 for both in zip(*products, strict=True)]


def _container_notes(properties: Mapping[str, str]) -> list[str]:
    """Return sentences on containers whose size is no number of MB."""
    words = []
    for side, key in job_conf.MEMORY.items():
        value = properties.get(key)
        if value is None:
            continue
        number = integer(value)
        if number is None:
            stated = job_conf.stated_mb(properties, side)
            mb = job_conf.DEFAULT_MB if stated < 0 else stated
            words.append(
                f"{side} container {clean(value, 100)!r} is not a number: metrics count 2048 MB, the memory heuristic {mb} MB"
            )
        elif number < 0:
            words.append(f"{side} container {value} means Hadoop's own choice: 2048 MB is assumed")
    return words
