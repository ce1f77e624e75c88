"""The files that carry a plan out, as Kafka's own tools take them, made from the table of its steps."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from shlex import quote
from typing import Any

import msgspec
import polars as pl

from engine.broker_load.parameters import BrokerLoadParameters
from engine.core.view import Result


def steps_of(result: Result, batch: int = 0) -> pl.DataFrame | None:
    """Return the steps of the plan, or those of one ``batch``; None without a plan."""
    steps = result.tables.get("plan_steps")
    if steps is None or not batch:
        return steps
    return steps.filter(pl.col("batch") == batch)


def _changed(steps: pl.DataFrame, column: str) -> pl.DataFrame:
    """Return the partitions whose ``column`` is another one in the end, and what is in it ``before`` and ``after`` the steps."""
    each = steps.group_by("topic", "partition", maintain_order=True).agg(
        pl.col(column).first().alias("before"), pl.col(f"new_{column}").last().alias("after")
    )
    return each.filter(pl.col("before") != pl.col("after")).sort("topic", "partition")


def _json(value: dict[str, Any]) -> str:
    return msgspec.json.encode(value).decode() + "\n"


def _reassignment(steps: pl.DataFrame, keep: str) -> str:
    """Return the reassignment JSON: the replicas ``before`` or ``after`` the steps, of partitions whose list changes."""
    partitions = [
        {"topic": topic, "partition": partition, "replicas": replicas, "log_dirs": ["any"] * len(replicas)}
        for topic, partition, replicas in _changed(steps, "replicas").select("topic", "partition", keep).iter_rows()
    ]
    return _json({"version": 1, "partitions": partitions})


def _election(steps: pl.DataFrame) -> str:
    """Return the election JSON: exactly the partitions whose leader differs after the steps."""
    return _json({"partitions": _changed(steps, "leader").select("topic", "partition").to_dicts()})


ANSWERS: dict[str, Callable[[pl.DataFrame], str]] = {
    "reassignment": partial(_reassignment, keep="after"),
    "rollback": partial(_reassignment, keep="before"),
    "election": _election,
}
"""What can be printed of a plan."""


def printed(result: Result, parameters: BrokerLoadParameters) -> str | None:
    """Return what ``answer`` and ``plan-batch`` ask of the plan, None without one."""
    steps = steps_of(result, parameters.plan_batch)
    return None if steps is None else ANSWERS[parameters.answer](steps)


def commands(throttle_mbs: float, folder: str, beside: bool = False) -> list[str]:
    """Return the commands that apply the files in ``folder``, in order; ``beside``: while another reassignment is in progress."""
    more = " --additional" if beside else ""
    tool = "kafka-reassign-partitions --bootstrap-server HOST:PORT --reassignment-json-file"
    to, back, leaders = (quote(f"{folder}/{name}.json") for name in ANSWERS)
    return [
        f"{tool} {to} --throttle {round(throttle_mbs * (1 << 20))}{more} --execute",
        f"{tool} {to} --verify",
        f"kafka-leader-election --bootstrap-server HOST:PORT --election-type preferred --path-to-json-file {leaders}",
        f"# back: {tool} {back} --throttle {round(throttle_mbs * (1 << 20))} --execute; then the election again",
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
