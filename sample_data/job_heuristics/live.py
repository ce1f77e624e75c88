"""Plays a cluster: jobs start, their tasks finish, histories move from staging to done, new jobs come."""

from __future__ import annotations

import itertools
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

from sample_data.job_heuristics import spark_log, tez_history, writer
from sample_data.job_heuristics.make import put_done, put_spark, put_tez, spark_id, tez_id
from sample_data.job_heuristics.plans import make
from sample_data.job_heuristics.shapes import HISTORY, LIVE, SPARK_FINISHED, SPARK_LIVE, TEZ_LIVE

SEED = 23
STEP_S = 10.0
"""Seconds between two updates."""
AT_ONCE = 2
"""Jobs that run at the same time."""
KEPT = 20
"""Played jobs kept in the done folder: the oldest go, so that a demonstration can run for days."""


class _Running:
    """One job whose history grows in its staging folder."""

    def __init__(self, root: Path, job: writer.Job, *, binary: bool) -> None:
        self.root, self.job, self.binary = root, job, binary
        self.events = writer.events(job)
        self.folder = root / "staging" / job.user / ".staging" / job.id
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / f"{job.id}_1_conf.xml").write_bytes(writer.conf_xml(job))
        self.file = self.folder / f"{job.id}_1.jhist"
        self.file.write_bytes(writer.head(binary=binary))

    def until(self, now_ms: int) -> bool:
        """Append all events up to now; return whether the job has ended."""
        due = list(itertools.takewhile(lambda event: event[0] <= now_ms, self.events))
        if due:
            del self.events[: len(due)]
            with self.file.open("ab") as out:
                out.write(b"".join(map(writer.binary_record if self.binary else writer.text_line, due)))
        return not self.events

    def finish(self) -> None:
        """Move the finished job to the done folder, as the history server does."""
        put_done(self.root, self.job, binary=self.binary)
        shutil.rmtree(self.folder, ignore_errors=True)


class _RunningApp:
    """One Spark application whose event log grows."""

    def __init__(self, root: Path, plan: spark_log.AppPlan, number: int, start_ms: int) -> None:
        self.path = root / "spark" / f"{spark_id(number)}.inprogress"
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.events = spark_log.events(plan, spark_id(number), start_ms, SEED)

    def until(self, now_ms: int) -> bool:
        """Append all events up to now; return whether the application has ended and its log has its final name."""
        with self.path.open("ab") as out:
            out.write(b"".join(spark_log.grown(self.events, now_ms)))
        if not self.events:
            self.path = self.path.rename(self.path.with_suffix(""))
        return not self.events


def steps(target: Path) -> Iterator[float]:
    """Write the starting files, then make one change per ``next()``; yields the seconds until the next one."""
    began_ms = int(time.time() * 1000)
    numbers = itertools.count(1)
    for shape, hours in HISTORY:
        number = next(numbers)
        put_done(target, make(shape, number, began_ms - int(hours * 3_600_000), SEED), binary=number % 2 == 0)
    coming = itertools.cycle(LIVE)
    running: list[_Running] = []
    played: list[_Running] = []
    # The first two are under way when the dashboard opens.
    for head_start in (48_000, 14_000):
        number = next(numbers)
        job = make(next(coming), number, began_ms - head_start, SEED)
        running.append(_Running(target, job, binary=number % 2 == 0))
        running[-1].until(began_ms)
    for number, (plan, hours) in enumerate(SPARK_FINISHED, 1):
        put_spark(target, plan, number, began_ms - int(hours * 3_600_000))
    plans, apps = itertools.cycle(SPARK_LIVE), itertools.count(len(SPARK_FINISHED) + 1)
    app = _RunningApp(target, next(plans), next(apps), began_ms - 20_000)
    app.until(began_ms)
    sessions = itertools.count(1)
    session = tez_history.events(tez_id(next(sessions)), TEZ_LIVE, began_ms - 40_000, SEED)
    put_tez(target, tez_history.grown(session, began_ms))
    ended: list[Path] = []
    yield STEP_S
    now_ms = began_ms
    while True:
        now_ms += int(STEP_S * 1000)
        if app.until(now_ms):
            ended.append(app.path)
            app = _RunningApp(target, next(plans), next(apps), now_ms)
        if not session:
            number = next(sessions)
            session = tez_history.events(tez_id(number), TEZ_LIVE, now_ms, SEED)
            _forget_tez(target, tez_id(number - KEPT))
        put_tez(target, tez_history.grown(session, now_ms))
        while len(ended) > KEPT:
            ended.pop(0).unlink(missing_ok=True)
        for each in list(running):
            if each.until(now_ms):
                each.finish()
                running.remove(each)
                played.append(each)
        while len(running) < AT_ONCE:
            number = next(numbers)
            running.append(_Running(target, make(next(coming), number, now_ms, SEED), binary=number % 2 == 0))
        while len(played) > KEPT:
            _forget(target, played.pop(0).job)
        yield STEP_S


def _forget_tez(target: Path, app_id: str) -> None:
    for path in (target / "tez").rglob(f"*_{app_id.removeprefix('application_')}_*"):
        path.unlink()


def _forget(target: Path, job: writer.Job) -> None:
    for path in target.rglob(f"{job.id}*"):
        if path.is_file():
            path.unlink()
