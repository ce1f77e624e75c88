"""Which cluster is looked at, where labels of the series name several: they are never mixed.

See "Files of several clusters" in docs/models/broker-load.md.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass

import polars as pl

from engine.core.inputs import FILE, Inputs
from engine.core.problems import Problem
from engine.core.view import UnknownName


@dataclass(frozen=True, slots=True)
class Choice:
    """The ``inputs`` of one cluster called ``name`` ("" where labels name no two), a ``note`` on the others, and the
    ``problems`` where no option chose it."""

    inputs: Inputs
    name: str = ""
    note: str = ""
    problems: tuple[Problem, ...] = ()


def choose(inputs: Inputs, wanted: str) -> Choice:
    """Choose among the clusters that labels name: the one called ``wanted`` or, without that, the one with most brokers.

    What no such label names is of any cluster. Raises UnknownName where none is called so.
    """
    table = inputs.table("clusters")
    known = table.group_by("name").agg(pl.col("brokers").sum()).filter(pl.col("brokers") > 0)
    names = known.sort("brokers", "name", descending=[True, False])["name"].to_list()
    if wanted:
        match = [one for one in names if one.lower() == wanted.lower()] or [
            one for one in names if wanted.lower() in one.lower()
        ]
        if len(match) != 1:
            there = ", ".join(match or names) or "no series has a label that names one"
            raise UnknownName(f"{'several clusters match' if match else 'no cluster is called'} {wanted!r}: {there}")
        chosen = match[0]
    elif names:
        chosen = names[0]
    if len(names) < 2:
        return Choice(inputs)
    others = [one for one in names if one != chosen]
    left_out = table.filter(pl.col("name").is_in(others)).select(FILE, "cluster")
    marked = inputs.filtered(lambda name, rows: _without(rows, left_out), zlib.crc32(chosen.encode()))
    words = f"cluster {chosen} is shown; {', '.join(others[:4])}{', …' if len(others) > 4 else ''} left out"
    if wanted:
        return Choice(marked, chosen, words)
    first = inputs.files[int(left_out[FILE][0])].path
    reason = f"series of {len(names)} clusters: {chosen} is shown; -o cluster={others[0]} shows another"
    return Choice(marked, chosen, f"{words} (choose with cluster=)", (Problem.at(first, "several-clusters", reason),))


def _without(rows: pl.DataFrame, left_out: pl.DataFrame) -> pl.DataFrame:
    if "cluster" not in rows.columns or not rows.height:
        return rows
    return rows.join(left_out, on=[FILE, "cluster"], how="anti", maintain_order="left")
