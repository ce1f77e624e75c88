"""While files come, grow and go, results equal those computed from all files at once, whatever was written."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from engine.core.view import Context, Inputs, Result
from engine.job_heuristics.mapreduce.model.assembly import current_model
from engine.job_heuristics.parameters import JobParameters
from engine.job_heuristics.view import VIEW
from engine.live.options import LiveSettings
from engine.live.session import Session
from sample_data.job_heuristics import writer
from sample_data.job_heuristics.plans import CLUSTER, Shape, make
from sample_data.job_heuristics.writer import Attempt, Event

PARAMETERS = JobParameters()


def grows(seed: int, *, maps: int = 40, reduces: int = 6, state: str = "SUCCEEDED") -> writer.Job:
    """A job with failures and speculation."""
    rng = random.Random(seed)
    shape = Shape("grows", "bob", "etl", maps, reduces, slots=8, failing=0.3, spread=0.6, state=state)
    job = make(shape, 900 + seed, CLUSTER + 10**9, seed)
    tasks = []
    for task in job.maps:
        last = task.attempts[-1] if task.attempts else None
        if rng.random() < 0.3 and last is not None and last.finish_ms is not None and last.state == "SUCCEEDED":
            # A speculative race: the loser is killed after the task has ended.
            begun = (last.start_ms + last.finish_ms) // 2
            loser = Attempt(begun, last.finish_ms + 40, "KILLED", "slow.example.com", "/r9", avataar="SPECULATIVE")
            task = writer.Task(
                task.kind, task.scheduled_ms, (*task.attempts, loser), task.counters, task.files, task.state
            )
        tasks.append(task)
    return writer.Job(**{**{f: getattr(job, f) for f in job.__dataclass_fields__}, "maps": tuple(tasks)})


def lines_of(job: writer.Job) -> list[bytes]:
    """Head and events, the losers of races after the end of their task."""
    found: list[Event] = sorted(writer.events(job), key=lambda e: e[0] if e[1] != "JOB_FINISHED" else 2**60)
    return [writer.head(binary=False), *map(writer.text_line, found)]


class Watched:
    """A folder with some finished jobs, and one history that grows."""

    def __init__(self, folder: Path, job: writer.Job, others: int = 2, **settings: Any) -> None:
        for n in range(others):
            done = make(Shape(f"job{n}", "ann", "etl", 5, 1), n + 1, CLUSTER + 1000 * n, n)
            (folder / done.file_name).write_bytes(writer.text(done))
            (folder / f"{done.id}_conf.xml").write_bytes(writer.conf_xml(done))
        (folder / f"{job.id}_conf.xml").write_bytes(writer.conf_xml(job))
        self.path = folder / job.file_name
        self.session = Session([folder], [VIEW], settings=LiveSettings(cache=False, **settings), strict=True)
        self.session.scan()

    def write(self, data: bytes) -> None:
        with self.path.open("ab") as file:
            file.write(data)
        self.session.look({str(self.path)})

    def check(self) -> Result:
        """What is kept equals what a fresh start makes of the same rows."""
        kept = self.session.compute(VIEW.name, PARAMETERS, now_ms=0)
        inputs = self.session.inputs(VIEW.name)
        context = Context(0)
        fresh = VIEW.compute(inputs, PARAMETERS, context)
        assert kept.summary == fresh.summary
        for name, frame in fresh.tables.items():
            assert frame.equals(kept.tables[name]), name
        assert kept.detail.listing.equals(fresh.detail.listing)
        assert kept.findings == fresh.findings
        self.model(inputs, context)
        return kept

    def model(self, inputs: Inputs, context: Context) -> None:
        memo = self.session._memos[VIEW.name]
        kept = current_model(inputs, Context(0, memo=memo))
        fresh = current_model(inputs, context)
        for name in ("jobs", "tasks", "attempts", "conf"):
            assert getattr(kept, name).equals(getattr(fresh, name)), name
        for mine, other in zip(kept.arrays, fresh.arrays, strict=True):
            for field in mine.__struct_fields__:
                a, b = getattr(mine, field), getattr(other, field)
                pairs = [(a[k], b[k]) for k in b] if field in ("numbers", "counters") else [(a, b)]
                assert all((x == y).all() and x.dtype == y.dtype for x, y in pairs), field


@pytest.mark.parametrize(("seed", "state"), [(1, "SUCCEEDED"), (2, "FAILED")])
def test_growing_history_gives_what_a_fresh_start_gives(seed: int, state: str, tmp_path: Path) -> None:
    rng = random.Random(seed)
    data = b"".join(lines_of(grows(seed, state=state)))
    live = Watched(tmp_path, grows(seed, state=state))
    at = 0
    while at < len(data):
        step = rng.randrange(1, len(data) // 3)  # most cuts are within a line
        live.write(data[at : at + step])
        at += step
        result = live.check()
    assert result.tables["jobs"].filter(pl.col("name") == "grows")["state"].to_list() == [state]


def test_binary_history_grows_alike(tmp_path: Path) -> None:
    job = grows(4, maps=20)
    data = writer.binary(job)
    live = Watched(tmp_path, job)
    for at in range(0, len(data), len(data) // 5 + 1):
        live.write(data[at : at + len(data) // 5 + 1])
        live.check()


def disturbed(lines: list[bytes], rng: random.Random) -> list[bytes]:
    """Events twice, out of order, lost, of another task, attempt, side or job; tasks that come back."""
    head, body = lines[:1], list(lines[1:])
    for _ in range(rng.randrange(1, 12)):
        k = rng.randrange(len(body))
        match rng.randrange(6):
            case 0:
                body.insert(rng.randrange(len(body)), body[k])
            case 1:
                body.insert(rng.randrange(len(body)), body.pop(k))
            case 2:
                body.pop(k)
            case 3:
                body[k] = body[k].replace(b"_m_00000", b"_m_00001", rng.choice((1, -1)))
            case 4:
                body[k] = body[k].replace(b'"MAP"', b'"REDUCE"').replace(b'"SUCCEEDED"', b'"KILLED"')
            case _:
                body[k] = body[k].replace(b"_0_", b"_00_", 1).replace(b'_0"', b'_1"', 1)
    return head + body


@pytest.mark.parametrize("seed", range(2))
def test_arbitrary_events(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    job = grows(10 + seed, maps=12, reduces=3)
    lines = disturbed(lines_of(job), rng)
    live = Watched(tmp_path, job, others=2)
    at = 0
    while at < len(lines):
        step = rng.randrange(1, 60)
        live.write(b"".join(lines[at : at + step]))
        at += step
        live.check()


def test_a_half_written_last_line(tmp_path: Path) -> None:
    """A record cut anywhere is noted; also one that only lacks its line end."""
    rng = random.Random(0)
    job = grows(60, maps=15, reduces=3)
    lines = lines_of(job)
    live = Watched(tmp_path, job, settle_s=0)  # every look takes what is there for settled
    live.write(b"".join(lines[:30]))
    cuts = 0
    for begin in range(30, len(lines), 11):
        data = b"".join(lines[begin : begin + 11])
        cut = len(data) - 1 if begin % 33 == 8 else rng.randrange(1, len(data) - 1)
        live.write(data[:cut])
        jobs = live.check().tables["jobs"]
        cuts += jobs.filter(pl.col("upstream_says").str.contains("Unexpected end-of-input")).height
        live.write(data[cut:])
        live.check()
    assert cuts > 3


def test_several_jobs_grow_at_once(tmp_path: Path) -> None:
    jobs = [grows(30 + n, maps=15) for n in range(3)]
    live = Watched(tmp_path, jobs[0])
    lines = [lines_of(job) for job in jobs]
    for at in range(0, 80, 20):
        for job, mine in zip(jobs, lines, strict=True):
            with (tmp_path / job.file_name).open("ab") as file:
                file.write(b"".join(mine[at : at + 20]))
        live.session.scan()
        live.check()


def test_another_file_of_the_job_comes_and_goes(tmp_path: Path) -> None:
    job = grows(40)
    lines = lines_of(job)
    live = Watched(tmp_path, job)
    for at in range(0, 60, 20):
        live.write(b"".join(lines[at : at + 20]))
        live.check()
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / job.file_name).write_bytes(b"".join(lines[:50]))
    live.session.scan()
    live.check()
    live.write(b"".join(lines[60:80]))
    live.check()
    (tmp_path / "old" / job.file_name).unlink()
    live.session.scan()
    live.check()
    live.write(b"".join(lines[80:100]))
    live.check()
    (tmp_path / f"{job.id}_conf.xml").write_bytes(writer.conf_xml(job).replace(b">2048<", b">4096<"))
    live.session.scan()
    live.check()
    live.write(b"".join(lines[100:120]))
    live.check()
    live.write(b"".join(lines[120:130]))
    live.check()
