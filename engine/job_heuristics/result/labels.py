"""Dr. Elephant's labels and values of a verdict."""

from __future__ import annotations

import json


def labels(details: str | None) -> tuple[tuple[str, str], ...]:
    """Return Dr. Elephant's labels and values of a verdict from the JSON of the heuristics result."""
    try:
        by_label = json.loads(details or "{}")
    except ValueError:
        return ()
    if not isinstance(by_label, dict):
        return ()
    return tuple(
        (str(k), " ".join(str(x) for x in v if x) if isinstance(v, list) else str(v)) for k, v in by_label.items()
    )
