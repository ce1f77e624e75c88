"""The file kinds of job heuristics."""

from __future__ import annotations

from engine.core.reading import FileKind
from engine.job_heuristics.fleet.reading.manifest import Manifest
from engine.job_heuristics.mapreduce.reading.conf import JobConf
from engine.job_heuristics.mapreduce.reading.history import History
from engine.job_heuristics.mapreduce.reading.rest import RestAnswer
from engine.job_heuristics.mapreduce.reading.rumen import RumenTrace, Summary
from engine.job_heuristics.spark.reading.answers import SparkAnswer
from engine.job_heuristics.spark.reading.archive import Archive
from engine.job_heuristics.spark.reading.event_log import EventLog

HISTORY = History()
EVENT_LOG = EventLog()
KINDS: tuple[FileKind, ...] = (
    HISTORY, JobConf(), RestAnswer(), RumenTrace(), Summary(), EVENT_LOG, Archive(), SparkAnswer(), Manifest(),
)  # fmt: skip
"""All file kinds, in the order of the page of formats."""
