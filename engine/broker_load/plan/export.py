"""The files that carry a plan out, as Kafka's own tools take them, made from the table of its steps."""

from __future__ import annotations

from shlex import quote
from typing import Any

import msgspec
import polars as pl

from engine.broker_load.parameters import BrokerLoadParameters
from engine.core.view import Result

Lists = dict[tuple[str, int], list[int]]
"""Replicas by topic and partition."""


def steps_of(result: Result, batch: int = 0) -> pl.DataFrame | None:
    """Return the steps of the plan, or those of one ``batch``; None without a plan."""
    steps = result.tables.get("plan_steps")
    if steps is None or not batch:
        return steps
    return steps.filter(pl.col("batch") == batch)


def _lists(steps: pl.DataFrame, column: str, keep: str) -> Lists:
    """Return the replicas in ``column`` of the partitions whose list differs in the end; ``keep`` first or last of each."""
    each = steps.group_by("topic", "partition", maintain_order=True).agg(
        pl.col("replicas").first(),
        pl.col("new_replicas").last(),
        pl.col(column).first().alias("first"),
        pl.col(column).last().alias("last"),
    )
    changed = each.filter(pl.col("replicas") != pl.col("new_replicas")).sort("topic", "partition")
    return {(row["topic"], row["partition"]): row[keep] for row in changed.iter_rows(named=True)}


def _reassignment(lists: Lists) -> str:
    partitions = [
        {"topic": topic, "partition": partition, "replicas": replicas, "log_dirs": ["any"] * len(replicas)}
        for (topic, partition), replicas in lists.items()
    ]
    return _json({"version": 1, "partitions": partitions})


def _json(value: dict[str, Any]) -> str:
    return msgspec.json.encode(value).decode() + "\n"


def reassignment(steps: pl.DataFrame) -> str:
    """Return the reassignment JSON: the replicas after the steps, of partitions whose list changes."""
    return _reassignment(_lists(steps, "new_replicas", "last"))


def rollback(steps: pl.DataFrame) -> str:
    """Return the reassignment JSON that brings back the replicas before the steps."""
    return _reassignment(_lists(steps, "replicas", "first"))


def election(steps: pl.DataFrame) -> str:
    """Return the election JSON: exactly the partitions whose leader differs after the steps."""
    each = steps.group_by("topic", "partition", maintain_order=True).agg(
        pl.col("leader").first(), pl.col("new_leader").last()
    )
    moved = each.filter(pl.col("leader") != pl.col("new_leader")).sort("topic", "partition")
    return _json({"partitions": moved.select("topic", "partition").to_dicts()})


ANSWERS = {"reassignment": reassignment, "rollback": rollback, "election": election}
"""What can be printed of a plan."""


def printed(result: Result, parameters: BrokerLoadParameters) -> str | None:
    """Return what ``answer`` and ``plan-batch`` ask of the plan, None without one."""
    steps = steps_of(result, parameters.plan_batch)
    return None if steps is None else ANSWERS[parameters.answer](steps)


def commands(throttle_mbs: float, folder: str, beside: bool = False) -> list[str]:
    """Return the commands that carry the files in ``folder`` out, one after the other; ``beside`` a reassignment in progress."""
    more = " --additional" if beside else ""
    tool = "kafka-reassign-partitions --bootstrap-server HOST:PORT --reassignment-json-file"
    to, back, leaders = (quote(f"{folder}/{name}.json") for name in ANSWERS)
    return [
        f"{tool} {to} --throttle {round(throttle_mbs * (1 << 20))}{more} --execute",
        f"{tool} {to} --verify",
        f"kafka-leader-election --bootstrap-server HOST:PORT --election-type preferred --path-to-json-file {leaders}",
        f"# back: {tool} {back} --throttle {round(throttle_mbs * (1 << 20))} --execute",
    ]


def files(result: Result, throttle_mbs: float, folder: str) -> dict[str, str]:
    """Return the files of the plan by name: as a whole, by batch where there are several, and the commands."""
    steps = steps_of(result)
    if steps is None:
        return {}
    made = {f"{name}.json": make(steps) for name, make in ANSWERS.items()}
    numbers = steps["batch"].unique().sort().to_list()
    for number in numbers if len(numbers) > 1 else []:
        part = steps.filter(pl.col("batch") == number)
        made |= {f"batch-{number}-{name}.json": ANSWERS[name](part) for name in ("reassignment", "election")}
    lines = commands(throttle_mbs, folder, bool(result.summary.get("plan_left_alone")))
    for number in numbers if len(numbers) > 1 else []:
        lines.append(
            f"# batch {number} alone: the same with batch-{number}-reassignment.json and batch-{number}-election.json"
        )
    return made | {"commands.txt": "\n".join(lines) + "\n"}
