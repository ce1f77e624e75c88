"""Tables of a fleet result (docs/fleet.md): its manifest, the per-job tables of a report, and those written beside them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

import polars as pl

from engine.core.parameters import parse_instant
from engine.core.reading import Document, Problem, Reading, Source, clean
from engine.core.tables import Table
from engine.core.view import Finding
from engine.formats import json_text
from engine.job_heuristics.tables import (
    COSTS,
    DIFFERENCES,
    HEURISTICS,
    JOBS,
    LISTING,
    RECOMMENDATIONS,
    count,
    of_rows,
    text,
    time,
)

FLEET_RESULTS = Table(
    "fleet_results",
    "One row per fleet result: what its manifest says",
    (
        text("version", "version of loadlens that computed it"),
        time("at_ms", "when it was computed"),
        text("parameters", "options that it was computed with, JSON"),
        text("findings", "number of findings by level, JSON"),
        count("jobs", "number of jobs in it"),
        text("rows", "number of rows by table, JSON"),
    ),
)
PROBLEMS = Table(
    "problems",
    "What was wrong with the files",
    (
        text("path", "the file"),
        count("line", "line, if it has lines"),
        text("kind", "kind of problem"),
        text("reason", "what is wrong"),
        count("count", "number of occurrences"),
    ),
    order=("path", "kind", "reason"),
)
FINDINGS = Table(
    "findings",
    "What a check would name",
    (
        text("job_id", "name of the job in the cluster", kind="id"),
        text("level", "how bad it is"),
        text("subject", "what it is about: which verdict of which job"),
        text("text", "what was found"),
    ),
    order=("job_id", "subject", "level", "text"),
)


def findings_frame(findings: Iterable[Finding]) -> pl.DataFrame:
    """Return FINDINGS rows. Subjects lose the id that tells jobs of one name apart, since the id is a column."""
    jobs = ((one.row[1][0] if one.row else None, one) for one in findings)
    return of_rows(FINDINGS, ((job, one.level, one.subject.removesuffix(f" ({job})"), one.text) for job, one in jobs))


FILES = Table(
    "files",
    "One row per job and file that it was computed from",
    (
        text("job_id", "name of the job in the cluster", kind="id"),
        text("path", "the file, as the run that computed it could open it"),
    ),
    key=("job_id",),
    order=("job_id", "path"),
)
PER_JOB = (JOBS, HEURISTICS, RECOMMENDATIONS, COSTS, DIFFERENCES)  # tables whose rows each concern one job
WRITTEN = (*PER_JOB, LISTING, PROBLEMS, FINDINGS, FILES)  # all tables of a fleet result except the roll-up


_BEGINS = re.compile(rb'\{"loadlens": "[^"]{1,40}", "view": "job-heuristics", "at": "')


class Manifest(Document):
    """``manifest/part-….txt`` beside the folders ``table=NAME`` of a fleet result; the tables are read on demand."""

    id = "fleet-result"
    title = "Result of loadlens fleet: its folder of Parquet tables, known by its manifest"
    tables: tuple[Table, ...] = (FLEET_RESULTS,)
    closes = True

    def recognise(self, name: str, head: bytes) -> bool:
        """Recognise by its first keys."""
        return _BEGINS.match(head) is not None

    def read(self, source: Source, data: bytes, state: Any, final: bool) -> Reading:
        """Read one row."""
        document = json_text.decode(source, data)
        if isinstance(document, Reading):
            return document
        manifest = document.value
        try:
            rows = {str(table): int(n) for table, n in manifest["rows"].items()}
            row: dict[str, list[Any]] = {
                "version": [clean(manifest["loadlens"], 40)],
                "at_ms": [parse_instant(manifest["at"])],
                "parameters": [json.dumps(dict(manifest["parameters"]))],
                "findings": [json.dumps({str(level): int(n) for level, n in manifest.get("findings", {}).items()})],
                "jobs": [rows["jobs"]],
                "rows": [json.dumps(rows)],
            }
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
            reason = f"not a manifest of a fleet result: {type(error).__name__} {error}"
            return Reading(problems=[Problem.at(source.path, "bad-document", reason)], complete=False)
        return Reading({"fleet_results": row}, consumed=len(data))


MANIFEST = Manifest()
