"""The file kinds of MapReduce jobs."""

from __future__ import annotations

from engine.core.reading import FileKind
from engine.job_heuristics.mapreduce.reading.conf import JobConf
from engine.job_heuristics.mapreduce.reading.history import History
from engine.job_heuristics.mapreduce.reading.rest import RestAnswer

HISTORY = History()
KINDS: tuple[FileKind, ...] = (HISTORY, JobConf(), RestAnswer())
"""In the order of the page of formats."""
