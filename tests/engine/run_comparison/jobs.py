"""Small jobs in the CI's layout, for tests."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

START = 1_784_000_000


def item(data: Mapping[str, Any], unit: str = "ms", **labels: str) -> dict[str, Any]:
    """One data item."""
    return {"data": dict(data), "unit": unit, "labels": labels}


def perf_data(items: Sequence[Mapping[str, Any]]) -> str:
    """A PerfData document."""
    return json.dumps({"version": "v1", "dataItems": list(items)}, indent=2)


def write_run(
    root: Path,
    job: str,
    number: int | str,
    files: Mapping[str, str | bytes],
    result: str | None = "SUCCESS",
    hour: int = 0,
) -> Path:
    """A run folder with its two marks and ``files`` by path below ``artifacts``."""
    folder = root / job / str(number)
    (folder / "artifacts").mkdir(parents=True, exist_ok=True)
    (folder / "started.json").write_text(json.dumps({"timestamp": START + hour * 3600}))
    if result is not None:
        (folder / "finished.json").write_text(json.dumps({"timestamp": START + hour * 3600 + 1800, "result": result}))
    for name, content in files.items():
        path = folder / "artifacts" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    return folder


def api_file(value: float, **labels: str) -> str:
    """An API file with one item."""
    all_labels = {"Verb": "GET", "Resource": "pods", "Scope": "resource", "Count": "100", **labels}
    return perf_data([item({"Perc50": value, "Perc90": value * 2, "Perc99": value * 3}, **all_labels)])


def two_jobs(root: Path, left: Sequence[float], right: Sequence[float]) -> Path:
    """Jobs ``left-job`` and ``right-job`` with one run per value."""
    for job, values in (("left-job", left), ("right-job", right)):
        for i, value in enumerate(values):
            write_run(root, job, 100 + i, {"APIResponsiveness_load_T.json": api_file(value)}, hour=i)
    return root
