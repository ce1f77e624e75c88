"""The events of a job history as typed records, by event type, with the fields that Hadoop requires."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

NAMESPACE = "org.apache.hadoop.mapreduce.jobhistory."
LONG_MAX = 2**63 - 1

Long = Annotated[int, msgspec.Meta(ge=-(2**63), le=LONG_MAX)]
"""A Java long; larger numbers make a bad record instead of wrapping."""
Time = Annotated[int, msgspec.Meta(ge=-1, le=2**53)]
"""Epoch ms; Hadoop writes -1 for unset. The bound keeps differences exact as doubles."""


class Record(msgspec.Struct, gc=False):
    """Base of all records: plain values, no reference cycles."""


class Union(Record):
    """Avro's JSON form of a nullable string."""

    string: str | None = None


Text = str | Union | None


class Counter(Record):
    """One counter."""

    name: str
    value: Long


class Group(Record):
    """A group of counters. Hadoop's own name is ``name``."""

    name: str
    counts: list[Counter]


class Counters(Record):
    """Counters, plain or in the wrapping of a union."""

    groups: list[Group] | None = None
    wrapped: Counters | None = msgspec.field(default=None, name=NAMESPACE + "JhCounters")


class AllCounters(Record):
    """The counters of any record."""

    counters: Counters | None = None
    totalCounters: Counters | None = None
    mapCounters: Counters | None = None
    reduceCounters: Counters | None = None


class AMStarted(Record):
    """An application master began."""

    startTime: Time
    applicationAttemptId: Text = None
    containerId: Text = None
    nodeManagerHost: Text = None


class JobRecord(Record):
    """Anything that happened to a job."""

    jobid: str


class JobSubmitted(JobRecord):
    """The job was submitted."""

    submitTime: Time
    jobName: Text = None
    userName: Text = None
    jobQueueName: Text = None
    workflowId: Text = None
    workflowName: Text = None
    workflowNodeName: Text = None


class JobQueueChange(JobRecord):
    """The job moved to a queue."""

    jobQueueName: Text = None


class JobInited(JobRecord):
    """The application master has computed the splits."""

    launchTime: Time
    totalMaps: Long
    totalReduces: Long
    uberized: bool | None = None


class JobInfoChange(JobRecord):
    """Corrected times of the job."""

    submitTime: Time
    launchTime: Time


class JobFinished(JobRecord):
    """The job succeeded."""

    finishTime: Time
    finishedMaps: Long
    finishedReduces: Long


class JobUnsuccessfulCompletion(JobRecord):
    """The job failed or was killed."""

    finishTime: Time
    jobStatus: Text = None
    finishedMaps: Long = 0
    finishedReduces: Long = 0
    diagnostics: Text = None


class TaskStarted(Record):
    """A task was scheduled."""

    taskid: str
    startTime: Time
    taskType: str = ""
    splitLocations: Text = None


class TaskAttemptStarted(Record):
    """A container began to work for a task."""

    taskid: str
    attemptId: str
    startTime: Time
    taskType: str = ""
    trackerName: Text = None
    containerId: Text = None
    locality: Text = None
    avataar: Text = None


class AttemptEnd(Record):
    """Any end of an attempt."""

    taskid: str
    attemptId: str
    finishTime: Time
    taskType: str = ""
    hostname: Text = None
    rackname: Text = None
    clockSplits: msgspec.Raw = msgspec.Raw(b"")
    cpuUsages: msgspec.Raw = msgspec.Raw(b"")
    vMemKbytes: msgspec.Raw = msgspec.Raw(b"")
    physMemKbytes: msgspec.Raw = msgspec.Raw(b"")


class MapAttemptFinished(AttemptEnd):
    """An attempt of a map succeeded. Its counters are decoded from the task's own event."""

    taskStatus: str = "SUCCEEDED"
    mapFinishTime: Time | None = None
    shuffleFinishTime: Time | None = None
    sortFinishTime: Time | None = None
    state: Text = None


ARRAYS = ("clockSplits", "cpuUsages", "vMemKbytes", "physMemKbytes")
"""Fields with the twelve readings of an attempt, kept as JSON."""


class TaskAttemptUnsuccessfulCompletion(AttemptEnd):
    """An attempt failed or was killed."""

    status: str = "FAILED"
    error: Text = None
    counters: Counters | None = None


class TaskFinished(Record):
    """A task succeeded."""

    taskid: str
    finishTime: Time
    taskType: str = ""
    counters: Counters | None = None
    successfulAttemptId: Text = None


class TaskFailed(Record):
    """A task failed or was killed."""

    taskid: str
    finishTime: Time
    taskType: str = ""
    error: Text = None
    failedDueToAttempt: Text = None
    status: str = "FAILED"
    counters: Counters | None = None


RECORDS: dict[str, tuple[str, type[Record]]] = {
    "AM_STARTED": ("AMStarted", AMStarted),
    "JOB_SUBMITTED": ("JobSubmitted", JobSubmitted),
    "JOB_QUEUE_CHANGED": ("JobQueueChange", JobQueueChange),
    "JOB_INITED": ("JobInited", JobInited),
    "JOB_INFO_CHANGED": ("JobInfoChange", JobInfoChange),
    "JOB_FINISHED": ("JobFinished", JobFinished),
    "JOB_FAILED": ("JobUnsuccessfulCompletion", JobUnsuccessfulCompletion),
    "JOB_KILLED": ("JobUnsuccessfulCompletion", JobUnsuccessfulCompletion),
    "JOB_ERROR": ("JobUnsuccessfulCompletion", JobUnsuccessfulCompletion),
    "TASK_STARTED": ("TaskStarted", TaskStarted),
    "TASK_FINISHED": ("TaskFinished", TaskFinished),
    "TASK_FAILED": ("TaskFailed", TaskFailed),
    "MAP_ATTEMPT_FINISHED": ("MapAttemptFinished", MapAttemptFinished),
    "REDUCE_ATTEMPT_FINISHED": ("ReduceAttemptFinished", MapAttemptFinished),
    "SETUP_ATTEMPT_FINISHED": ("TaskAttemptFinished", MapAttemptFinished),
    "CLEANUP_ATTEMPT_FINISHED": ("TaskAttemptFinished", MapAttemptFinished),
    **{f"{side}_ATTEMPT_STARTED": ("TaskAttemptStarted", TaskAttemptStarted)
       for side in ("MAP", "REDUCE", "SETUP", "CLEANUP")},
    **{f"{side}_ATTEMPT_{how}": ("TaskAttemptUnsuccessfulCompletion", TaskAttemptUnsuccessfulCompletion)
       for side in ("MAP", "REDUCE", "SETUP", "CLEANUP") for how in ("FAILED", "KILLED")},
}  # fmt: skip
"""Event type → name of its Avro record and our reading of it."""

IGNORED = frozenset({"TASK_UPDATED", "NORMALIZED_RESOURCE", "JOB_PRIORITY_CHANGED", "JOB_STATUS_CHANGED"})
"""Event types that this view does not use."""

_NEEDS = {
    "JobSubmitted": ("jobid", "jobName", "userName", "submitTime", "jobConfPath", "acls", "jobQueueName"),
    "JobInited": ("jobid", "launchTime", "totalMaps", "totalReduces", "jobStatus", "uberized"),
    "AMStarted": ("applicationAttemptId", "startTime", "containerId", "nodeManagerHost", "nodeManagerPort",
                  "nodeManagerHttpPort"),
    "TaskStarted": ("taskid", "taskType", "startTime", "splitLocations"),
    "TaskAttemptStarted": ("taskid", "taskType", "attemptId", "startTime", "trackerName", "httpPort", "shufflePort",
                           "containerId"),
    "TaskFinished": ("taskid", "taskType", "finishTime", "status", "counters"),
    "TaskFailed": ("taskid", "taskType", "finishTime", "error", "failedDueToAttempt", "status"),
}  # fmt: skip


def missing_fields(schema: Any) -> dict[str, str]:
    """Return Hadoop 2.7.3's exception for each record of the writer's ``schema`` that lacks a required field: record
    name → message.

    ``schema``: decoded second line of a history.
    """
    errors: dict[str, str] = {}
    try:
        for record in next(f["type"] for f in schema["fields"] if f["name"] == "event"):
            name = record["name"]
            has = {f["name"] for f in record["fields"]}
            missing = next((needed for needed in _NEEDS.get(name, ()) if needed not in has), None)
            if missing is not None:
                full = NAMESPACE + name
                errors[name] = (
                    f"org.apache.avro.AvroTypeException: Found {full}, expecting {full}, missing required field {missing}"
                )
    except (TypeError, KeyError, StopIteration, AttributeError):
        return {}
    return errors
