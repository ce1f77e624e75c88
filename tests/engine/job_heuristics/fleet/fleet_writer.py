"""Writes the result of histories on this machine as a fleet result, without Spark."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl

from engine import __version__
from engine.core.view import Result
from engine.job_heuristics.fleet.tables import FILES, PROBLEMS, WRITTEN, findings_frame
from engine.job_heuristics.parameters import JobParameters
from engine.output.report import settings


def write(folder: Path, result: Result, paths: dict[str, list[str]], at: str = "2026-01-02T00:00:00Z") -> Path:
    """Write ``result``, of whose jobs ``paths`` are the files; two files a table, in the order of jobs."""
    detail: Any = result.detail
    files = [(job, path) for job, each in paths.items() for path in each]
    tables = {
        **{name: result.table(name) for name in result.names},
        "listing": detail.listing,
        "findings": findings_frame(result.findings),
        "problems": pl.DataFrame([problem.as_row() for problem in result.problems], PROBLEMS.schema),
        "files": pl.DataFrame(files, FILES.schema, orient="row"),
    }
    for table in WRITTEN:
        place = folder / f"table={table.name}"
        place.mkdir(parents=True)
        frame = table.frame(tables[table.name])
        if table.key:
            frame = frame.sort("job_id", maintain_order=True)
        half = frame.height // 2
        frame.head(half).write_parquet(place / "part-00000-a.snappy.parquet")
        frame.slice(half).write_parquet(place / "part-00001-a.snappy.parquet")
    manifest = {
        "loadlens": __version__, "view": "job-heuristics", "at": at, "parameters": settings(JobParameters()),
        "paths": ["/histories"], "files": 1, "bytes": 1, "rows": {"jobs": result.tables["jobs"].height},
        "findings": dict(tables["findings"]["level"].value_counts().iter_rows()), "jobs_of_several_names": 0,
    }  # fmt: skip
    (folder / "manifest").mkdir()
    (folder / "manifest" / "part-00000-a.txt").write_text(json.dumps(manifest) + "\n")
    return folder
