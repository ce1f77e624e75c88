"""The manifest of a fleet result: the small file that identifies a folder of Parquet tables."""

from __future__ import annotations

import json
import re
from typing import Any

from engine.core.problems import Problem
from engine.core.reading import Document, Reading, Source
from engine.core.tables import Table
from engine.core.text import clean
from engine.formats import json_text
from engine.job_heuristics.fleet.tables import FLEET_RESULTS
from engine.output.report import instant

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
                "at_ms": [instant(manifest["at"])],
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
