"""The file kinds of MapReduce jobs."""

from __future__ import annotations

from engine.core.reading import FileKind
from engine.job_heuristics.mapreduce.reading.conf import JobConf
from engine.job_heuristics.mapreduce.reading.history import History
from engine.job_heuristics.mapreduce.reading.rest import RestAnswer
from engine.job_heuristics.mapreduce.reading.rumen import RumenTrace, Summary

HISTORY = History()
KINDS: tuple[FileKind, ...] = (HISTORY, JobConf(), RestAnswer(), RumenTrace(), Summary())
"""In the order of the page of formats."""
