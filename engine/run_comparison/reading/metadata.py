"""Read ``started.json`` and ``finished.json``: when a run began and how it ended."""

from __future__ import annotations

import json
from typing import Any

from engine.problems import Problem
from engine.reading import Reading, Source
from engine.run_comparison.reading.series import epoch_ms
from engine.run_comparison.tables import RUN_FACTS
from engine.tables import Rows, Table
from engine.text import clean


class RunMetadata:
    """The two files by which the Kubernetes CI marks a run."""

    id = "run-metadata"
    title = "started.json and finished.json of a run folder"
    append = False
    closes = True
    version = 1
    tables: tuple[Table, ...] = (RUN_FACTS,)

    def recognise(self, name: str, head: bytes) -> bool:
        """Recognise the files by their names alone, as the CI does."""
        return name in ("started.json", "finished.json")

    def read(self, source: Source, data: bytes, state: Any, final: bool) -> Reading:
        """Read one fact; an unreadable file is a problem and leaves the run unstarted or unfinished."""
        fact = source.name.removesuffix(".json")
        problems: list[Problem] = []

        def refuse(reason: str) -> Reading:
            return Reading(
                problems=[Problem.at(source.path, "bad-metadata", reason)], consumed=len(data), complete=False
            )

        try:
            document = json.loads(data.decode("utf-8"))
        except (ValueError, RecursionError) as error:
            return refuse(f"{source.name} is not JSON: {error}")
        if not isinstance(document, dict):
            return refuse(f"{source.name} is not a JSON object")
        stamp = document.get("timestamp")
        ms = epoch_ms(stamp)
        if ms is None and (stamp is not None or fact == "started"):
            problems.append(Problem.at(source.path, "bad-metadata", f"timestamp of {source.name} is not a time"))
        result = document.get("result")
        if fact == "finished" and not isinstance(result, str):
            problems.append(Problem.at(source.path, "bad-metadata", "finished.json tells no result"))
            result = ""
        text = clean(result, 200) if isinstance(result, str) else None
        rows: Rows = {"fact": [fact], "time_ms": [ms], "result": [text if fact == "finished" else None]}
        return Reading(rows={"run_facts": rows}, problems=problems, consumed=len(data))
