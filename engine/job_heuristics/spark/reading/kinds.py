"""The file kinds of Spark applications."""

from __future__ import annotations

from engine.core.reading import FileKind
from engine.job_heuristics.spark.reading.archive import Archive
from engine.job_heuristics.spark.reading.event_log import EventLog

KINDS: tuple[FileKind, ...] = (EventLog(), Archive())
"""In the order of the page of formats."""
