"""The file kinds of job heuristics."""

from __future__ import annotations

from engine.job_heuristics.reading.conf import JobConf
from engine.job_heuristics.reading.history import History
from engine.job_heuristics.reading.rest import RestAnswer
from engine.job_heuristics.reading.rumen import RumenTrace, Summary
from engine.reading import FileKind

HISTORY = History()
KINDS: tuple[FileKind, ...] = (HISTORY, JobConf(), RestAnswer(), RumenTrace(), Summary())
"""All file kinds, in the order of the page of formats."""
