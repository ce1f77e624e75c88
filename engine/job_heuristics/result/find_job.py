"""The job that option job names."""

from __future__ import annotations

import polars as pl

from engine.core.view import UnknownName


def find_job(ids: pl.Series, wanted: str) -> str:
    """Return the job called ``wanted``, or the only one whose id ends so. Raises UnknownName."""
    if (ids == wanted).any():
        return wanted
    ending = ids.str.ends_with("_" + wanted.removeprefix("_")) | ids.str.ends_with("-" + wanted.removeprefix("-"))
    near = ids.filter(ending)
    if near.len() == 1:
        return str(near[0])
    raise UnknownName(f"{near.len()} jobs end in {wanted!r}" if near.len() else f"no job {wanted!r}")
