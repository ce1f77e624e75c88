"""Short forms of ``Column`` by the type of its values; ``hints`` are the further fields of ``Column``."""

from __future__ import annotations

from typing import Any

import polars as pl

from engine.core.tables import Column


def text(name: str, meaning: str, **hints: Any) -> Column:
    """Make a column of texts."""
    return Column(name, pl.String, meaning, **hints)


def flag(name: str, meaning: str, **hints: Any) -> Column:
    """Make a column of yes and no."""
    return Column(name, pl.Boolean, meaning, kind="flag", **hints)


def whole(name: str, meaning: str, **hints: Any) -> Column:
    """Make a column of whole numbers."""
    return Column(name, pl.Int64, meaning, **hints)


def count(name: str, meaning: str, **hints: Any) -> Column:
    """Make a column of counts."""
    return Column(name, pl.Int64, meaning, kind="count", **hints)


def time(name: str, meaning: str, **hints: Any) -> Column:
    """Make a column of moments, epoch ms."""
    return Column(name, pl.Int64, meaning, unit="epoch ms", kind="time_ms", **hints)


def fraction(name: str, meaning: str, **hints: Any) -> Column:
    """Make a column of fractions."""
    return Column(name, pl.Float64, meaning, **hints)


def percent(name: str, meaning: str, **hints: Any) -> Column:
    """Make a column of percentages, 0-100."""
    return Column(name, pl.Float64, meaning, unit="%", kind="percent", **hints)


def mb_s(name: str, meaning: str, dtype: Any = pl.Int64, **hints: Any) -> Column:
    """Make a column of container memory x time, MB s."""
    return Column(name, dtype, meaning, unit="MB s", kind="mb_s", **hints)


SEQ = count("seq", "place of the record in its file, growing: line number or byte")
