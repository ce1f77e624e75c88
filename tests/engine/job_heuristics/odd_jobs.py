"""Random jobs that hold what real ones hardly ever do: a seed gives the same history and configuration each time."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from xml.sax.saxutils import escape

from sample_data.job_heuristics import writer

Event = tuple[str, str, dict[str, Any]]
"""Event type, record, fields: the place in the file is the order."""

SUBMITTED = 1_700_000_000_000
MB = 2**20
_HUGE = (0, 2**60, -(2**60), 2**62 + 2**30, 2**63 - 2**30, 2**40)
"""Values of a counter that is huge: multiples of 2^30, so that their sums as doubles do not depend on the order."""

CONTAINERS = (
    "2048", "1024", "3072", "4096", "8192", "-1", "0", "+3000", "0004096", "2048m", " 4096 ", "", "1e3", "${map.mb}",
    "${unset}", "${}", "$plain}", "$}", "$", "${", "$}{", "99999999999", "4611686018427387904", "9223372036854775808",
    "\u0664\u0660\u0669\u0666", "4_096",
)  # fmt: skip
SLOW_STARTS = (
    "0.05", "0.05", "1.0", "\n 0.5 \n", "0.5f", "1d", ".5", "5.", "0x1p-3", "NaN", "-Infinity", "abc", "1_0", "inf",
    "0.5 f", "", "--1",
)  # fmt: skip
_COUNTERS = (
    "CPU_MILLISECONDS", "GC_TIME_MILLIS", "PHYSICAL_MEMORY_BYTES", "VIRTUAL_MEMORY_BYTES", "SPILLED_RECORDS",
    "MAP_OUTPUT_RECORDS", "REDUCE_SHUFFLE_BYTES",
)  # fmt: skip
SIZES = ("1", "524288000", "524288001", "900000000", "-5", "abc", "", " 900000000", "9223372036854775807", "+600000000")
TYPES = {
    "pig.script": ("cGln", "", "a\nb"),
    "hive.mapred.mode": ("nonstrict", "", "x\r\ny"),
    "oozie.launcher.action.main.class": ("a.B", "a\u2028b"),
    "cascading.app.frameworks": ("scalding", "s\u0085t"),
    "mapred.reducer.class": ("voldemort.store.readonly.mr.X", "voldemortXstore.readonly.mr", "x.voldemort.store", "y"),
    "kafka.url": ("k:1", ""),
    "mapred.child.java.opts": ("-Xmx200m", ""),
}  # fmt: skip


@dataclass(frozen=True)
class OddJob:
    """One job: its events in the order of the file, and its properties (name, value, text of ``final`` or None)."""

    id: str
    events: tuple[Event, ...]
    properties: tuple[tuple[str, str, str | None], ...]

    def text(self) -> bytes:
        """Return the history as Avro-Json."""
        return writer.head(binary=False) + b"".join(writer.text_line((0, *event)) for event in self.events)

    def binary(self) -> bytes:
        """Return the history as Avro-Binary."""
        return writer.head(binary=True) + b"".join(writer.binary_record((0, *event)) for event in self.events)

    def conf(self) -> bytes:
        """Return the configuration file."""
        rows = []
        for name, value, final in self.properties:
            fixed = "" if final is None else f"<final>{final}</final>"
            value = escape(value, {"\r": "&#13;"})
            rows.append(f"<property><name>{escape(name)}</name><value>{value}</value>{fixed}</property>\n")
        return f'<?xml version="1.0" encoding="UTF-8"?><configuration>{"".join(rows)}</configuration>'.encode()

    def files(self, folder: str = "/odd", *, binary: bool = False) -> dict[str, bytes]:
        """Return history and configuration by path."""
        history = self.binary() if binary else self.text()
        return {f"{folder}/{self.id}-1-x.jhist": history, f"{folder}/{self.id}_conf.xml": self.conf()}


def odd_job(seed: int) -> OddJob:
    """Draw a job."""
    return _Drawing(seed).job()


class _Drawing:
    """The choices of one job, from one source of random numbers."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.number = f"1700000000000_{seed:04d}"
        self.id = f"job_{self.number}"
        self.odd = self.random.random() < 0.75
        """Whether anything is odd that would keep Dr. Elephant from showing the job."""
        self.scale = self.random.choice(
            (700, 5_000, 30_000, 100_000, 240_000, 600_000, 1_000_000, 3_600_000, 9_000_000)
        )
        self.bytes = self.random.choice((0, 1000, 8 * MB, 70 * MB, 5000 * MB))
        self.huge = {name for name in (*_COUNTERS, "files") if self.often(0.02)}
        """Counters with huge values."""
        self.nameless = not self.odd and self.often(0.1)
        """Whether no task names its attempt, as in old histories."""

    def often(self, chance: float) -> bool:
        return self.random.random() < chance

    def job(self) -> OddJob:
        r = self.random
        maps = r.choice((0, 1, 2, 3, 9, 12, 30, 55, 60, 105, 210))
        reduces = r.choice((0, 0, 1, 2, 5, 11, 25, 60))
        state = r.choices(("SUCCEEDED", "FAILED", "KILLED", ""), (88, 8, 2, 2))[0]
        finish = SUBMITTED + r.choice((5_000, 10**6, 10**7))
        head = self._head(maps, reduces)
        tasks = [list(self._task("MAP", k)) for k in range(maps)] + [
            list(self._task("REDUCE", k)) for k in range(reduces)
        ]
        events = [*head, *self._mixed(tasks)]
        # Without its end an attempt would end at -1 ms for Dr. Elephant; here it has no times, so that is not compared.
        lost = [k for k, (kind, _, _) in enumerate(events) if kind.endswith("_STARTED") or kind.startswith("TASK_")]
        if not self.odd and self.often(0.15) and lost[1:]:
            del events[r.choice(lost[1:])]
        if self.often(0.2):
            changed = {"jobid": self.id, "submitTime": SUBMITTED + 777, "launchTime": SUBMITTED + 1_500}
            events.insert(r.randrange(len(head), len(events) + 1), ("JOB_INFO_CHANGED", "JobInfoChange", changed))
        if state == "SUCCEEDED":
            none = {"name": "TOTAL_COUNTERS", "groups": []}
            fields = {
                "jobid": self.id, "finishTime": finish, "finishedMaps": maps, "finishedReduces": reduces, "failedMaps": 0,
                "failedReduces": 0, "totalCounters": none, "mapCounters": none, "reduceCounters": none,
            }  # fmt: skip
            events.append(("JOB_FINISHED", "JobFinished", fields))
        elif state:
            fields = {
                "jobid": self.id, "finishTime": finish, "finishedMaps": maps, "finishedReduces": reduces,
                "jobStatus": state, "diagnostics": r.choice((None, "", "Task failed\ntask x", "d" * 70_000)),
            }  # fmt: skip
            events.append((f"JOB_{state}", "JobUnsuccessfulCompletion", fields))
        return OddJob(self.id, tuple(events), tuple(self._properties()))

    def _head(self, maps: int, reduces: int) -> list[Event]:
        start = SUBMITTED + 1000
        return [
            ("AM_STARTED", "AMStarted", {
                "applicationAttemptId": f"appattempt_{self.number}_000001", "startTime": SUBMITTED + 500,
                "containerId": f"container_{self.number}_01_000001", "nodeManagerHost": "n1", "nodeManagerPort": 1,
                "nodeManagerHttpPort": 2,
            }),
            ("JOB_SUBMITTED", "JobSubmitted", {
                "jobid": self.id, "jobName": "odd", "userName": "ann", "submitTime": SUBMITTED, "jobConfPath": "x",
                "acls": {}, "jobQueueName": "etl", "workflowId": None, "workflowName": None, "workflowNodeName": None,
                "workflowAdjacencies": None, "workflowTags": None,
            }),
            ("JOB_INITED", "JobInited", {
                "jobid": self.id, "launchTime": start, "totalMaps": maps, "totalReduces": reduces, "jobStatus": "INITED",
                "uberized": False,
            }),
        ]  # fmt: skip

    def _mixed(self, tasks: list[list[Event]]) -> Iterator[Event]:
        """Yield the events of all tasks in a random order that keeps each task's own."""
        turns = [k for k, events in enumerate(tasks) for _ in events]
        self.random.shuffle(turns)
        left = [iter(events) for events in tasks]
        for k in turns:
            yield next(left[k])

    # -- tasks --

    def _duration(self) -> int:
        if self.often(0.02):
            return self.random.choice((1, 999, 60_000, 600_000, 900_000, -5_000 if self.often(0.2) else 1_500))
        if not self.odd and self.often(0.004):
            return 0
        if self.often(0.2):
            return max(1, int(self.scale * self.random.choice((0.1, 3, 9))))
        return max(1, int(self.scale * self.random.uniform(0.8, 1.2)))

    def _task(self, kind: str, place: int) -> Iterator[Event]:
        r = self.random
        tail = f"{self.number}_{'m' if kind == 'MAP' else 'r'}_{place:06d}"
        task = {"taskid": f"task_{tail}", "taskType": kind}
        begin = SUBMITTED + 2_000 + r.randrange(0, 200_000)
        yield "TASK_STARTED", "TaskStarted", {**task, "startTime": begin, "splitLocations": ""}
        how = r.choices(
            ("well", "failed", "no attempt", "lost", "raced", "open"), (86, 4, 4, 3, 3, 0 if self.odd else 0.1)
        )[0]
        counters = self._counters(kind)
        number = 0

        def attempt(state: str) -> Iterator[Event]:
            nonlocal number
            yield from self._attempt(task, kind, f"attempt_{tail}_{number}", begin + number * 1000, state, counters)
            number += 1

        if how == "no attempt":
            yield self._failed(task, None, begin + 100, counters)
            return
        while self.often(0.05) and number < 3:
            yield from attempt(r.choice(("FAILED", "KILLED")))
        if how == "failed":
            yield from attempt(r.choice(("FAILED", "FAILED", "KILLED")))
            yield self._failed(task, f"attempt_{tail}_{number - 1}", begin + 9_000, counters)
            return
        if how == "open":
            return
        if how == "lost":
            yield from attempt("SUCCEEDED")
            chosen = f"attempt_{tail}_{number - 1}"
            yield self._finished(task, chosen, begin + 5_000, counters)
            yield self._unsuccessful(task, kind, chosen, begin + 6_000, "KILLED", None)
        yield from attempt("SUCCEEDED")
        yield self._finished(task, f"attempt_{tail}_{number - 1}", begin + 9_000, counters)
        if how == "raced":
            yield from attempt("KILLED")

    def _attempt(
        self, task: dict[str, Any], kind: str, name: str, start: int, state: str, counters: dict[str, Any]
    ) -> Iterator[Event]:
        r = self.random
        start += r.randrange(0, 3_000)
        total = self._duration()
        yield f"{kind}_ATTEMPT_STARTED", "TaskAttemptStarted", {
            **task, "attemptId": name, "startTime": start, "trackerName": "n1", "httpPort": 1, "shufflePort": 2,
            "containerId": f"container_{self.number}_01_000002", "locality": None, "avataar": None,
        }  # fmt: skip
        if state != "SUCCEEDED":
            yield self._unsuccessful(task, kind, name, start + total, state, counters if self.often(0.5) else None)
            return
        place = {"hostname": "n1", "port": 1, "rackname": "/r1"}
        if kind == "MAP":
            times = {"mapFinishTime": start + total}
        else:
            shuffled = start + int(total * r.choice((0.0, 0.1, 0.4, 0.9, 1.2)))
            times = {
                "shuffleFinishTime": shuffled,
                "sortFinishTime": shuffled + int(total * r.choice((0.0, 0.05, 0.6))),
            }
        yield f"{kind}_ATTEMPT_FINISHED", f"{kind.capitalize()}AttemptFinished", {
            **task, "attemptId": name, "taskStatus": "SUCCEEDED", **times, "finishTime": start + total, **place,
            "state": "", "counters": counters, **self._splits(),
        }  # fmt: skip

    def _unsuccessful(
        self, task: dict[str, Any], kind: str, name: str, finish: int, state: str, counters: dict[str, Any] | None
    ) -> Event:
        return f"{kind}_ATTEMPT_{state}", "TaskAttemptUnsuccessfulCompletion", {
            **task, "attemptId": name, "finishTime": finish, "hostname": "n1", "port": 1, "rackname": "/r1",
            "status": state, "error": "x", "counters": counters, **self._splits(),
        }  # fmt: skip

    def _splits(self) -> dict[str, list[int]]:
        value = self.random.choice((-1, 0, 70_000, 2**31 - 1))
        count = 12 if self.often(0.9) else self.random.choice((0, 1, 13))
        return {name: [value] * count for name in ("clockSplits", "cpuUsages", "vMemKbytes", "physMemKbytes")}

    def _finished(self, task: dict[str, Any], attempt: str, finish: int, counters: dict[str, Any]) -> Event:
        chosen: str | None = attempt
        if not self.odd and self.often(0.002):
            chosen = attempt[:-1] + "9"
        elif self.nameless or self.often(0.01):
            chosen = None
        fields = {
            **task, "finishTime": finish, "status": "SUCCEEDED" if self.often(0.99) else "KILLED", "counters": counters,
            "successfulAttemptId": chosen,
        }  # fmt: skip
        return "TASK_FINISHED", "TaskFinished", fields

    def _failed(self, task: dict[str, Any], chosen: str | None, finish: int, counters: dict[str, Any]) -> Event:
        given = self.random.choice((None, counters, {"name": "COUNTERS", "groups": []}))
        return "TASK_FAILED", "TaskFailed", {
            **task, "finishTime": finish, "error": "x", "failedDueToAttempt": chosen,
            "status": "FAILED" if chosen else "KILLED", "counters": given,
        }  # fmt: skip

    # -- counters --

    def _value(self, usual: int, *, huge: bool) -> int:
        if huge:
            return self.random.choice(_HUGE)
        if self.often(0.02):
            return self.random.choice((-1, 0, -5 * MB))
        return (
            int(usual * self.random.uniform(0.9, 1.1)) if self.often(0.85) else usual * self.random.choice((0, 2, 10))
        )

    def _counters(self, kind: str) -> dict[str, Any]:
        r = self.random
        scale, fetched = self.scale, self.bytes if kind == "REDUCE" else 0
        values = (scale // 2, scale // r.choice((20, 60, 300)), 700 * MB, 1500 * MB, 2100, 1000, fetched)
        usual = dict(zip(_COUNTERS, values, strict=True))
        own = {name: self._value(value, huge=name in self.huge) for name, value in usual.items() if self.often(0.98)}
        files = {
            name: self._value(self.bytes // 2, huge="files" in self.huge)
            for name in ("HDFS_BYTES_READ", "S3_BYTES_READ", "S3A_BYTES_READ", "S3N_BYTES_READ", "FILE_BYTES_READ")
            if self.often(0.5)
        }
        groups = [
            _group("org.apache.hadoop.mapreduce.FileSystemCounter", files),
            _group("org.apache.hadoop.mapreduce.TaskCounter", own),
            _group("Shuffle Errors", {"BAD_ID": 0, "IO_ERROR": 3}),
        ]
        if self.often(0.01):
            groups.append(_group("org.apache.hadoop.mapreduce.TaskCounter", {"CPU_MILLISECONDS": 7}))
        if self.often(0.01):
            groups += [_group("mine", {"a": 1}), _group("mine", {"HDFS_BYTES_WRITTEN": 2})]
        if self.often(0.002):
            groups.append(_group("many", {f"c{k}": k for k in range(r.choice((100, 118)))}))
        if not self.odd and self.often(0.002):
            groups.append(_group("many", {f"c{k}": k for k in range(130)}))
        if not self.odd and self.often(0.002):
            groups += [_group(f"g{k}", {}) for k in range(60)]
        return {"name": "COUNTERS", "groups": groups}

    # -- configuration --

    def _properties(self) -> Iterator[tuple[str, str, str | None]]:
        r = self.random
        for name, old in (
            ("mapreduce.map.memory.mb", "mapred.job.map.memory.mb"),
            ("mapreduce.reduce.memory.mb", "mapred.job.reduce.memory.mb"),
        ):
            for _ in range(r.choices((0, 1, 2, 3), (10, 70, 15, 5))[0]):
                values = [value for value in CONTAINERS if not self.odd or value not in ("$", "${", "$}{")]
                final = r.choices((None, "true", " true ", "false"), (85, 9, 3, 3))[0]
                yield r.choice((name, name, f"\n {name} ", old)), r.choice(values), final
        yield "map.mb", r.choice(("1536", "x", " 5 ")), None
        slow = "mapreduce.job.reduce.slowstart.completedmaps"
        shares = SLOW_STARTS[:11] if self.odd else SLOW_STARTS
        if self.odd or self.often(0.9):
            yield r.choice((slow, slow, "mapred.reduce.slowstart.completed.maps")), r.choice(shares), None
        for name in ("files", "archives"):
            for key in (f"mapreduce.job.cache.{name}", f"mapreduce.job.cache.{name}.filesizes"):
                if self.often(0.45):
                    yield self._list(key)
        for key, values in TYPES.items():
            if self.often(0.08):
                yield key, r.choice(values), None
        if self.often(0.1):
            yield "mapred.job.queue.name", "default", None

    def _list(self, key: str) -> tuple[str, str, None]:
        r = self.random
        names = ("hdfs://nn/a.jar", "b.zip", "b.zip", "c#d", "", " ", "x" * 200)
        parts = [r.choice(SIZES if key.endswith("sizes") else names) for _ in range(r.choice((0, 1, 1, 2, 2, 3, 300)))]
        name = key if self.often(0.9) else key.replace("mapreduce.job.", "mapred.")
        return name, ",".join(parts) + r.choice(("", "", ",", ",,")), None


def _group(name: str, counts: dict[str, int]) -> dict[str, Any]:
    rows = [{"name": key, "displayName": key, "value": value} for key, value in counts.items()]
    return {"name": name, "displayName": name, "counts": rows}
