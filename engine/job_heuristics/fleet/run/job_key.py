"""Which files belong to one job, told by their paths alone: the unit of work that is never divided."""

from __future__ import annotations

import re
from collections.abc import Iterable

PATTERN = r"(job_(?:local)?\d+_\d+|application_\d+_\d+|app-\d+-\d+|local-\d+|spark-[0-9a-f]{32}|spark-application-\d+)"
"""How ids of jobs and applications look in names of files; Java's patterns and Python's read it alike."""
ROLLING = r"/(eventlog_v2_[^/]*)/"
"""The folder of a rolling event log, whose parts belong together whatever the application is called."""
_PATTERN, _ROLLING = re.compile(PATTERN), re.compile(ROLLING)


def job_key(path: str) -> str:
    """Return the id in the name of a file, else the first in its folders, else the folder of its rolling log, else the path."""
    folders, _, name = path.rpartition("/")
    match = _PATTERN.search(name) or _PATTERN.search(folders) or _ROLLING.search(f"{folders}/")
    return match[1] if match else path


def components(links: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return, for all that ``links`` join in pairs, the first of those it is joined with, in any number of steps."""
    parent: dict[str, str] = {}

    def root(name: str) -> str:
        while parent.setdefault(name, name) != name:
            parent[name] = parent[parent[name]]
            name = parent[name]
        return name

    for left, right in links:
        low, high = sorted((root(left), root(right)))
        parent[high] = low
    return {name: root(name) for name in list(parent)}
