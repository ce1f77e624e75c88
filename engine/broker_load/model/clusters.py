"""Files of several clusters: labels of the series choose one; without labels there are only signs of a mixture.

See "Files of several clusters" in docs/models/broker-load.md.
"""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Collection

import msgspec
import polars as pl

from engine.broker_load.model import ticks
from engine.broker_load.model.identity import bare
from engine.core.incremental import Partials
from engine.core.reading import Problem
from engine.core.view import FILE, Context, Inputs, UnknownName


class Choice(msgspec.Struct, frozen=True):
    """The ``inputs`` of the cluster ``name`` ("" unless labels name several), a ``note`` about the others, and ``problems`` if
    no option chose it."""

    inputs: Inputs
    name: str = ""
    note: str = ""
    problems: tuple[Problem, ...] = ()


def choose(inputs: Inputs, wanted: str) -> Choice:
    """Choose among the clusters that labels name: the one called ``wanted`` or, without that, the one with most brokers.

    Rows without such a label belong to every cluster. Raises UnknownName if no cluster has that name.
    """
    table = inputs.table("clusters")
    if not (table.height or wanted):
        return Choice(inputs)
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


KIND = "mixed-clusters"
_ADVICE = "their loads are shown as one: give each cluster its own folder and program"
_SHARE = 0.5  # two descriptions count as two clusters if more than this share of what they have in common differs
_FEW = 3  # with fewer partitions in common, different placements are no evidence


def find(inputs: Inputs, context: Context) -> list[Problem]:
    """Return a problem for every sign that the inputs describe more than one cluster, at most one per file and sign."""
    # Lists and answers are not compared with each other: one may give names where the other gives addresses.
    moved = [problem for name in ("broker_list", "answer_brokers") for problem in _moved(inputs, inputs.table(name))]
    return [*_descriptions(inputs, context), *moved, *_scrapes(inputs, ticks.of(inputs, context))]


def _descriptions(inputs: Inputs, context: Context) -> list[Problem]:
    """Return problems of descriptions in which topics changed their ids or, where ids are unknown, all their brokers.

    Each description is compared with the one before it only, so that a slow reassignment is no sign.
    """
    table = inputs.table("topology")
    order = (
        table.group_by(FILE).agg(pl.col("time_ms").max()).sort("time_ms", FILE)[FILE].to_list() if table.height else []
    )

    def compare(pairs: Collection[tuple[int, int]]) -> dict[tuple[int, int], str]:
        parts = inputs.of("topology", {file for pair in pairs for file in pair}).partition_by(FILE, as_dict=True)
        return {(one, two): _differ(parts[one,], parts[two,]) for one, two in pairs}

    differences: Partials[tuple[int, int], str] = context.memo.state("broker load descriptions", Partials)
    differences.update({pair: inputs.stamp(pair) for pair in itertools.pairwise(order)}, compare)
    return [
        Problem.at(
            inputs.files[two].path,
            KIND,
            f"{difference} in {inputs.files[one].label}: two clusters, or created again in between; {_ADVICE}",
        )
        for (one, two), difference in differences.items()
        if difference
    ]


def _differ(one: pl.DataFrame, two: pl.DataFrame) -> str:
    """Return in words how two descriptions contradict each other; "" if one cluster can have both."""
    ids = [f.filter(pl.col("topic_id") != "").select("topic", "topic_id").unique("topic") for f in (one, two)]
    both = ids[0].join(ids[1], on="topic")
    if both.height:
        other = both.filter(pl.col("topic_id") != pl.col("topic_id_right")).sort("topic")
        if other.height > _SHARE * both.height:
            return f"{other.height} of {both.height} topics ({other['topic'][0]} …) have another id than"
        return ""
    placed = [f.select("topic", "partition", "replicas").unique(["topic", "partition"]) for f in (one, two)]
    shared = placed[0].join(placed[1], on=["topic", "partition"])
    apart = shared.filter(pl.col("replicas").list.set_intersection("replicas_right").list.len() == 0)
    if shared.height >= _FEW and apart.height > _SHARE * shared.height:
        return f"{apart.height} of {shared.height} partitions lie on entirely other brokers than"
    return ""


def _moved(inputs: Inputs, table: pl.DataFrame) -> list[Problem]:
    """Return problems of broker ids that the list or answer ``table`` puts on different hosts."""
    if table["broker"].n_unique() == table.height:
        return []
    short = pl.col("host").str.to_lowercase().str.extract(r"^([^.]*[a-z][^.]*|.*)")
    rows = table.filter(pl.col("host").fill_null("") != "").select(FILE, "broker", short.alias("host"))
    many = rows.unique().filter(pl.col("host").n_unique().over("broker") > 1).sort("broker", FILE, "host")
    if not many.height:
        return []
    # A row contradicts if it is not on the broker's first host, or is on it after another host was named.
    first = many.group_by("broker", maintain_order=True).agg(pl.col("host").first().alias("_first"))
    rows = many.join(first, on="broker", maintain_order="left").with_columns(
        elsewhere=pl.col("host") != pl.col("_first")
    )
    second = rows.filter("elsewhere").group_by("broker", maintain_order=True).agg(
        pl.col("host").first().alias("_second"), pl.col(FILE).first().alias("_since")
    )  # fmt: skip
    odd = (
        rows.join(second, on="broker", maintain_order="left")
        .filter(pl.col("elsewhere") | (pl.col("_since") <= pl.col(FILE)))
        .with_columns(pl.when("elsewhere").then("_first").otherwise("_second").alias("_other"))
        .group_by(FILE).agg(pl.col("broker", "host", "_other").first(), pl.col("broker").n_unique().alias("_ids")).sort(FILE)
    )  # fmt: skip
    problems = []
    for file, broker, host, other, ids in odd.iter_rows():
        reason = (
            f"broker {broker} is on {host} here and on {other} elsewhere"
            f"{f', and {ids - 1} more' if ids > 1 else ''}: two clusters, or a broker that moved; {_ADVICE}"
        )
        problems.append(Problem.at(inputs.files[int(file)].path, KIND, reason, count=ids))
    return problems


def _scrapes(inputs: Inputs, ticks: pl.DataFrame) -> list[Problem]:
    """Return problems of broker ids that scrapes of different hosts claim for themselves."""
    claimed = ticks.filter(pl.col("host").is_not_null() & pl.col("broker").is_not_null())
    claimed = claimed.group_by("broker", "host").agg(pl.col(FILE).min()).sort("broker", "host")
    claims: dict[int, dict[str, int]] = {}
    for broker, host, file in claimed.iter_rows():
        claims.setdefault(broker, {}).setdefault(bare(host), file)
    problems = []
    for broker, by in sorted(claims.items()):
        if len(by) > 1:
            names = sorted(by)
            reason = (
                f"{' and '.join(names[:3])} all claim to be broker {broker}: two clusters, or one machine under two"
                f" names; {_ADVICE}"
            )
            problems.append(Problem.at(inputs.files[by[names[-1]]].path, KIND, reason, count=len(by)))
    return problems
