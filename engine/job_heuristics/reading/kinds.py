"""The file kinds of job heuristics."""

from __future__ import annotations

from engine.core.reading import FileKind
from engine.job_heuristics.reading.conf import JobConf
from engine.job_heuristics.reading.fleet.manifest import Manifest
from engine.job_heuristics.reading.history import History
from engine.job_heuristics.reading.rest import RestAnswer
from engine.job_heuristics.reading.rumen import RumenTrace, Summary
from engine.job_heuristics.reading.spark.answers import SparkAnswer
from engine.job_heuristics.reading.spark.archive import Archive
from engine.job_heuristics.reading.spark.event_log import EventLog

HISTORY = History()
EVENT_LOG = EventLog()
KINDS: tuple[FileKind, ...] = (
    HISTORY, JobConf(), RestAnswer(), RumenTrace(), Summary(), EVENT_LOG, Archive(), SparkAnswer(), Manifest(),
)  # fmt: skip
"""All file kinds, in the order of the page of formats."""
