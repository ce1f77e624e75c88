"""Random applications: what the history server makes of a log, against a plain replay of one event after the other."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

from engine.core.view import Context
from engine.job_heuristics.spark.model.assembly import current_apps
from sample_data.job_heuristics.spark_log import line
from tests.engine.job_heuristics.helper import inputs_of

APP = "application_1760000000000_0007"
ENDS = (
    "Success",
    "Success",
    "Success",
    "ExceptionFailure",
    "TaskKilled",
    "TaskCommitDenied",
    "FetchFailed",
    "Resubmitted",
)


def random_log(seed: int) -> list[dict[str, Any]]:  # noqa: C901 - one branch for each event
    """Events in an order that a driver may deliver: stages shared by jobs and tried again, tasks that end late, executors
    that go and come again."""
    draw = random.Random(seed)
    events: list[dict[str, Any]] = [
        {"Event": "SparkListenerApplicationStart", "App Name": "x", "App ID": APP, "Timestamp": 1000, "User": "u"}
    ]
    task, running, tried, jobs = 0, [], Counter(), []

    def info(stage: int, attempt: int, **more: Any) -> dict[str, Any]:
        return {"Stage ID": stage, "Stage Attempt ID": attempt, "Stage Name": f"s{stage}", "Number of Tasks": 2 + stage % 3,
                "RDD Info": [], "Parent IDs": [], **more}  # fmt: skip

    for step in range(draw.randrange(40, 160)):
        at, kind = 2000 + step, draw.randrange(10)
        if kind == 0:
            number, stages = len(jobs), sorted(draw.sample(range(8), draw.randrange(1, 4)))
            jobs.append(number)
            done = {"Completion Time": 5} if draw.random() < 0.2 else {}
            events.append({"Event": "SparkListenerJobStart", "Job ID": number, "Submission Time": at, "Stage IDs": stages,
                           "Stage Infos": [info(s, tried[s], **done) for s in stages]})  # fmt: skip
        elif kind == 1 and jobs:
            result = {"Result": draw.choice(("JobSucceeded", "JobFailed"))}
            events.append({"Event": "SparkListenerJobEnd", "Job ID": draw.choice(jobs), "Completion Time": at,
                           "Job Result": result})  # fmt: skip
        elif kind == 2:
            stage = draw.randrange(8)
            events.append(
                {
                    "Event": "SparkListenerStageSubmitted",
                    "Stage Info": info(stage, tried[stage], **{"Submission Time": at}),
                }
            )
        elif kind == 3:
            stage = draw.randrange(8)
            more = {"Failure Reason": "lost"} if draw.random() < 0.3 else {}
            more |= {"Submission Time": at - 1} if draw.random() < 0.8 else {}
            events.append({"Event": "SparkListenerStageCompleted", "Stage Info": info(stage, tried[stage], **more)})
            tried[stage] += draw.random() < 0.3
        elif kind == 4:
            executor = str(draw.randrange(4))
            word = draw.choice(("Added", "Added", "Removed"))
            events.append({"Event": f"SparkListenerExecutor{word}", "Timestamp": at, "Executor ID": executor,
                           "Executor Info": {"Host": "h", "Total Cores": 2}, "Removed Reason": "r"})  # fmt: skip
        elif kind in (5, 6, 7):
            stage = draw.randrange(8)
            one = {
                "Task ID": task,
                "Index": draw.randrange(4),
                "Launch Time": at,
                "Executor ID": str(draw.randrange(4)),
                "Host": "h",
            }
            task += 1
            if draw.random() < 0.9:
                events.append(
                    {
                        "Event": "SparkListenerTaskStart",
                        "Stage ID": stage,
                        "Stage Attempt ID": tried[stage],
                        "Task Info": one,
                    }
                )
            running.append((stage, tried[stage], one))
        elif running:
            stage, attempt, one = running[draw.randrange(len(running))]
            reason = draw.choice(ENDS)
            if reason != "Resubmitted" and draw.random() < 0.9:
                running.remove((stage, attempt, one))
            end = {"Event": "SparkListenerTaskEnd", "Stage ID": stage, "Stage Attempt ID": attempt,
                   "Task End Reason": {"Reason": reason}, "Task Info": one | {"Finish Time": at + 7}}  # fmt: skip
            if draw.random() < 0.9:
                end["Task Metrics"] = {
                    "Executor Run Time": 1 << draw.randrange(12),
                    "JVM GC Time": 1 + draw.randrange(9),
                }
            events.append(end)
    return events


class Replay:
    """One event after the other, with nothing but dictionaries: as the listener is described."""

    def __init__(self) -> None:
        self.jobs: dict[int, dict[str, Any]] = {}
        self.live_jobs: dict[int, dict[str, Any]] = {}
        self.stages: dict[tuple[int, int], dict[str, Any]] = {}
        self.live: dict[tuple[int, int], dict[str, Any]] = {}
        self.executors: dict[str, dict[str, int]] = {}
        self.live_executors: dict[str, dict[str, int]] = {}
        self.open_tasks: set[int] = set()
        self.written: dict[int, dict[str, Any]] = {}

    def run(self, events: list[dict[str, Any]]) -> None:
        for event in events:
            handler = getattr(self, event["Event"].removeprefix("SparkListener"), None)
            if handler is not None:
                handler(event)
        for number, job in self.live_jobs.items():
            self.written[number] = dict(job)

    def stage(self, info: dict[str, Any]) -> dict[str, Any]:
        key = (info["Stage ID"], info["Stage Attempt ID"])
        if key not in self.live:
            self.live[key] = self.stages[key] = {
                "status": "PENDING", "jobs": [], "active": 0, "good": 0, "bad": 0, "killed": 0, "run": 0, "tasks": 0,
            }  # fmt: skip
        self.live[key]["tasks"] = info["Number of Tasks"]
        return self.live[key]

    def JobStart(self, event: dict[str, Any]) -> None:
        open_tasks = sum(i["Number of Tasks"] for i in event["Stage Infos"] if "Completion Time" not in i)
        job = {"status": "RUNNING", "ids": event["Stage IDs"], "tasks": open_tasks, "good": 0, "bad": 0, "killed": 0}
        self.live_jobs[event["Job ID"]] = self.jobs[event["Job ID"]] = job
        for info in event["Stage Infos"]:
            self.stage(info)["jobs"].append(job)

    def JobEnd(self, event: dict[str, Any]) -> None:
        job = self.live_jobs.pop(event["Job ID"], None)
        if job is None:
            return
        for key, stage in list(self.live.items()):
            if key[0] in job["ids"] and stage["status"] == "PENDING":
                stage["status"] = "SKIPPED"
                del self.live[key]
        job["status"] = "SUCCEEDED" if event["Job Result"]["Result"] == "JobSucceeded" else "FAILED"
        self.written[event["Job ID"]] = dict(job)

    def StageSubmitted(self, event: dict[str, Any]) -> None:
        info = event["Stage Info"]
        stage = self.stage(info)
        stage["status"] = "ACTIVE"
        stage["jobs"] = [job for job in self.live_jobs.values() if info["Stage ID"] in job["ids"]]

    def StageCompleted(self, event: dict[str, Any]) -> None:
        info = event["Stage Info"]
        key = (info["Stage ID"], info["Stage Attempt ID"])
        stage = self.live.get(key)
        if stage is None:
            return
        stage["tasks"] = info["Number of Tasks"]
        word = "FAILED" if "Failure Reason" in info else "COMPLETE" if "Submission Time" in info else "SKIPPED"
        stage["status"] = word
        if stage["active"] == 0:
            del self.live[key]

    def TaskStart(self, event: dict[str, Any]) -> None:
        self.open_tasks.add(event["Task Info"]["Task ID"])
        stage = self.live.get((event["Stage ID"], event["Stage Attempt ID"]))
        if stage is not None:
            stage["active"] += 1

    def TaskEnd(self, event: dict[str, Any]) -> None:
        info, reason, metrics = event["Task Info"], event["Task End Reason"]["Reason"], event.get("Task Metrics")
        known = info["Task ID"] in self.open_tasks
        self.open_tasks.discard(info["Task ID"])
        word = "good" if reason == "Success" else "killed" if reason in ("TaskKilled", "TaskCommitDenied") else "bad"
        key = (event["Stage ID"], event["Stage Attempt ID"])
        stage = self.live.get(key)
        if stage is not None:
            stage[word] += 1
            stage["active"] -= 1
            stage["run"] += metrics["Executor Run Time"] if known and metrics else 0
            for job in stage["jobs"]:
                job[word] += 1
            if stage["active"] == 0 and stage["status"] in ("COMPLETE", "FAILED"):
                for number, job in self.jobs.items():
                    if any(job is other for other in stage["jobs"]) and number not in self.live_jobs:
                        self.written[number].update({k: job[k] for k in ("good", "bad", "killed")})
                del self.live[key]
        executor = self.live_executors.get(info["Executor ID"])
        if executor is not None:
            executor["time"] += info["Finish Time"] - info["Launch Time"]
            executor["gc"] += metrics["JVM GC Time"] if metrics and reason != "Resubmitted" else 0
            executor["good"] += word == "good"
            executor["bad"] += word == "bad"

    def ExecutorAdded(self, event: dict[str, Any]) -> None:
        name = event["Executor ID"]
        if name not in self.live_executors:
            self.live_executors[name] = self.executors[name] = {"time": 0, "gc": 0, "good": 0, "bad": 0}

    def ExecutorRemoved(self, event: dict[str, Any]) -> None:
        self.live_executors.pop(event["Executor ID"], None)


@pytest.mark.parametrize("seed", range(40))
def test_random_applications(seed: int) -> None:
    events = random_log(seed)
    replay = Replay()
    replay.run(events)
    app = current_apps(inputs_of({f"/{APP}.inprogress": b"".join(map(line, events))}), Context(0)).apps[APP]
    assert {e.name: (e.duration_ms, e.gc_ms, e.completed_tasks, e.failed_tasks, e.active) for e in app.executors} == {
        name: (*one.values(), name in replay.live_executors) for name, one in replay.executors.items()
    }
    assert {
        s.key: (s.status, s.completed_tasks, s.failed_tasks, s.killed_tasks, s.sums["run_ms"], s.tasks)
        for s in app.stages
    } == {
        key: (s["status"], s["good"], s["bad"], s["killed"], s["run"], s["tasks"]) for key, s in replay.stages.items()
    }
    assert {j.number: (j.status, j.completed_tasks, j.failed_tasks) for j in app.jobs} == {
        number: (w["status"], w["good"], w["bad"]) for number, w in replay.written.items()
    }
