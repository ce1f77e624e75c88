"""Tell which metrics the operator has muted: they are shown, but neither counted nor a reason to fail."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

import numpy as np
from numpy.typing import NDArray

NAMING = ("test", "verb", "resource", "subresource", "scope", "bucket")
"""Columns whose words make up the name of a metric."""


def muted(columns: dict[str, Any], patterns: Sequence[str]) -> NDArray[np.bool_]:
    """Return per row of ``columns`` of the metrics table whether one of ``patterns`` names it.

    A pattern (``*`` and ``?`` match any text) is compared, without regard to case, with the words of the name joined by
    spaces, and with the metric's further labels.
    """
    rows = len(columns["test"])
    if not patterns:
        return np.zeros(rows, dtype=bool)
    wanted = [pattern.lower() for pattern in patterns]
    names = zip(*(columns[name] for name in NAMING), columns["metric"], strict=True)
    texts = ((" ".join(word for word in words if word).lower(), str(label).lower()) for *words, label in names)
    return np.fromiter((any(fnmatchcase(t, p) for t in both if t for p in wanted) for both in texts), bool, rows)


def pattern_of(row: Mapping[str, Any]) -> str:
    """Return a pattern that names one row of the metrics table."""
    return " ".join(str(row[name]) for name in NAMING if row[name]).replace("[", "?").replace("*", "?")
