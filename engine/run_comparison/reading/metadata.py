"""Read ``started.json`` and ``finished.json``: when a run began and how it ended."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from engine.core.reading import Document, Problem, Reading, Source, clean
from engine.core.tables import Rows, Table
from engine.run_comparison.reading import go_json
from engine.run_comparison.reading.series import epoch_ms
from engine.run_comparison.tables import RUN_FACTS

_TEXTS = {"started": ("version", "jenkins-node"), "finished": ("result",)}
"""Fields that perf-tests' benchmark tool decodes as texts, beside the time stamp."""


class _Mark(NamedTuple):
    """Content of one of the files: the timestamp as Go reads it (0 if missing) and as any number (None if missing, NaN if not a
    number), the result if it is a string, and why the benchmark tool cannot read the file (empty: it can)."""

    stamp: int
    time: float | None
    result: str | None
    refused: str


class RunMetadata(Document):
    """The two files by which the Kubernetes CI marks a run."""

    id = "run-metadata"
    title = "started.json and finished.json of a run folder"
    closes = True
    tables: tuple[Table, ...] = (RUN_FACTS,)

    def recognise(self, name: str, head: bytes) -> bool:
        """Recognise the files by their names alone, as the CI does."""
        return name in ("started.json", "finished.json")

    def read(self, source: Source, data: bytes, state: Any, final: bool) -> Reading:
        """Read the file, and what perf-tests' benchmark tool reads from it by Go's rules.

        An unreadable file is a problem and leaves the run unstarted or unfinished.
        """
        fact = "started" if source.name == "started.json" else "finished"

        def refuse(reason: str) -> Reading:
            problem = Problem.at(source.path, "bad-metadata", reason)
            return Reading(problems=[problem], consumed=len(data), complete=False)

        text = go_json.go_text(data)
        refused = ""
        if text.startswith("\ufeff"):
            refused, text = "it begins with a byte order mark", text[1:]
        try:
            # The tool reads started.json as a stream and ignores what follows the object.
            document = go_json.parse(text, stream=fact == "started")
        except ValueError as error:
            return refuse(f"{source.name} is not JSON: {error}")
        if not isinstance(document, go_json.Pairs | None):
            return refuse(f"{source.name} is not a JSON object")
        mark = _read_mark(document or go_json.Pairs(), _TEXTS[fact], refused)
        problems = []
        time_ms = epoch_ms(mark.time)
        if time_ms is None and (fact == "started" or mark.time is not None):
            problems.append(Problem.at(source.path, "bad-metadata", f"timestamp of {source.name} is not a time"))
        if fact == "finished" and mark.result is None:
            problems.append(Problem.at(source.path, "bad-metadata", "finished.json tells no result"))
        result = clean(mark.result or "", 200) if fact == "finished" else None
        facts: list[tuple[str, int | None, str | None]] = [(fact, time_ms, result)]
        if mark.refused:
            facts.append((f"refused-{fact}", None, clean(mark.refused, 200)))
        elif fact == "started":
            facts.append(("upstream-start", None, str(mark.stamp)))
        elif mark.result == "SUCCESS":
            facts.append(("upstream-success", None, None))
        rows: Rows = dict(zip(("fact", "time_ms", "result"), map(list, zip(*facts, strict=True)), strict=True))
        return Reading(rows={"run_facts": rows}, problems=problems, consumed=len(data))


def _read_mark(document: go_json.Pairs, texts: tuple[str, ...], refused: str) -> _Mark:
    """Decode the fields in document order; later ones overwrite earlier ones, as in Go, and null changes nothing."""
    stamp, time, result = 0, None, None
    for name, value in go_json.fields(document, (*texts, "timestamp")):
        if value is None:
            continue
        if name == "timestamp":
            number = go_json.uint64(value)
            stamp = stamp if number is None else number
            time = float(value) if isinstance(value, go_json.Literal) else math.nan
            if number is None:
                refused = refused or f"timestamp {_shown(value)} is not an unsigned whole number"
        elif not go_json.is_text(value):
            refused = refused or f"{name} {_shown(value)} is not a text"
        elif name == "result":
            result = go_json.plain_text(value)
    return _Mark(stamp, time, result, refused)


def _shown(value: Any) -> str:
    """Return a parsed scalar in its written form."""
    if isinstance(value, go_json.Literal):
        return f"{value:.40}"
    return f"{value!r:.40}" if isinstance(value, (str, bool)) else "(an object or a list)"
