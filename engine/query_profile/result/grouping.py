"""Group and filter query classes, and sum their sparklines."""

from __future__ import annotations

import numpy as np

from engine.query_profile.reading.fingerprint import verb
from engine.query_profile.workloads.workload import ClassInfo, Workload

OTHERS = "Others"
"""Begin of the name of the row that joins the classes beyond ``top``."""


def group(work: Workload, by: str) -> tuple[np.ndarray, list[str]]:
    """Return the group of each class (J,) and the names of the groups in order of first appearance. ``by``: class, verb,
    user or database."""
    if by == "class":
        return np.arange(len(work.classes)), [info.name for info in work.classes]
    names: dict[str, int] = {}
    place = np.empty(len(work.classes), np.int64)
    for i, info in enumerate(work.classes):
        place[i] = names.setdefault(_group_name(info, by) or "(none)", len(names))
    return place, list(names)


def _group_name(info: ClassInfo, by: str) -> str:
    if by == "verb":
        return verb(info.query) if info.query else info.name.partition(".")[0]
    return info.user if by == "user" else info.database


def matching(work: Workload, text: str) -> np.ndarray:
    """Return the mask (J,) of the classes with every word of ``text`` somewhere in their name, query, user or database."""
    words = text.lower().split()
    texts = (" ".join((info.name, info.query, info.user, info.database)).lower() for info in work.classes)
    return np.array([all(word in each for word in words) for each in texts], bool)


def sparks(table: np.ndarray, points: int) -> np.ndarray:
    """Return the sums (J, points) of a table (T, J) over equal stretches of the intervals."""
    rows = len(table)
    if not rows:
        return np.zeros((table.shape[1], 0))
    edges = np.linspace(0, rows, min(points, rows) + 1).astype(int)
    return np.add.reduceat(table, edges[:-1], axis=0).T
