"""Files as people have them, each with what is right about it (shared cases, not part of the repository)."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl

from engine.core.view import Result
from tests.engine.query_profile.builders import compute
from tests.reference import reference

ROOMS = ("field", "inputs")


def _rows(result: Result, text: str) -> pl.DataFrame:
    """The classes whose statement, or name without one, begins with ``text``."""
    classes = result.tables["classes"]
    begins = [
        " ".join((query or name).split()).lower().startswith(text.lower())
        for query, name in classes.select("query", "class").rows()
    ]
    return classes.filter(pl.Series(begins, dtype=pl.Boolean))


def _near(value: float | None, right: list[float]) -> bool:
    wanted, relative, *absolute = right
    return value is not None and abs(value - wanted) <= relative * abs(wanted) + sum(absolute)


def failures(result: Result, check: dict[str, Any]) -> list[str]:
    """What of ``check`` does not hold."""
    return [*_numbers(result, check), *_words(result, check)]


def _numbers(result: Result, check: dict[str, Any]) -> Iterator[str]:
    sums = {"y": "y_total", "x": "x_total", "calls": "calls"}
    for part, column in sums.items():
        for text, right in check.get(part, {}).items():
            got = _rows(result, text)[column].sum()
            if not _near(got, right if isinstance(right, list) else [right, 1e-9]):
                yield f"{part} of {text}: {got} instead of {right}"
    for text, count in check.get("rows", {}).items():
        if (rows := _rows(result, text).height) != count:
            yield f"rows of {text}: {rows} instead of {count}"
    for name, right in check.get("summary", {}).items():
        if not _near(result.summary[name], right):
            yield f"{name}: {result.summary[name]} instead of {right}"
    for text, value in check.get("covers", {}).items():
        for low, high in _rows(result, text).select("y_low", "y_high").rows():
            if low is not None and not low <= value <= high:
                yield f"{text}: {low} to {high} does not hold {value}"
    if (used := result.tables["intervals"]["used"].sum()) < check.get("used", 0):
        yield f"{used} intervals used, not {check['used']}"


def _words(result: Result, check: dict[str, Any]) -> Iterator[str]:
    classes = result.tables["classes"]
    if "top" in check and _rows(result, check["top"])["class"].to_list()[:1] != classes["class"].to_list()[:1]:
        yield f"first is {classes['query'][0]!r}"
    if "only" in check and sum(_rows(result, text).height for text in check["only"]) != classes.height:
        yield f"other classes: {classes['query'].to_list()}"
    if kinds := {problem.kind for problem in result.problems} & set(check.get("no_kind", ())):
        yield f"problems {kinds}"
    said = " ".join((*result.notes, *(problem.reason for problem in result.problems)))
    if "says" in check and not re.search(check["says"], said, re.IGNORECASE):
        yield f"nothing says {check['says']!r}: {said}"


def _cases() -> list[Path]:
    return [path for room in ROOMS for path in sorted((reference("query-profile") / room / "cases").glob("*.json.gz"))]


def test_every_shared_case_holds() -> None:
    wrong = {}
    for path in _cases():
        case = json.loads(gzip.decompress(path.read_bytes()))
        result = compute(
            {name: text.encode() for name, text in case["files"].items()},
            draws="20",
            **{name.replace("-", "_"): value for name, value in case["options"].items()},
        )
        if found := failures(result, case["check"]):
            wrong[path.name.removesuffix(".json.gz")] = found
    assert not wrong
