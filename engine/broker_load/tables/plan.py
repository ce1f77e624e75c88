"""Result tables of a plan: its steps, how the cluster stands after each, goals, brokers and batches."""

from __future__ import annotations

import polars as pl
from msgspec.structs import replace

from engine.broker_load.tables.columns import IDS, PARTITION, TOPIC, flag, integer, number, text
from engine.broker_load.tables.whatif import SCENARIO_BROKERS
from engine.core.tables import Column, Table


def _id(name: str, meaning: str, **more: object) -> Column:
    return Column(name, pl.Int32, meaning, kind="id", **more)  # type: ignore[arg-type]


PLAN_STEPS = Table(
    "plan_steps",
    "Steps of the plan in order; each changes one partition, by one replica at most.",
    (
        integer("step", "Number of the step.", kind="id", width=4, priority=0, grow=4),
        integer("batch", "Batch in which it can run; those of one batch together.", kind="id", width=5, priority=3),
        text("kind", "move copies a replica; lead and order copy nothing.", width=5, priority=0, grow=5),
        replace(TOPIC, width=12, grow=30),
        PARTITION,
        _id("from_broker", "Broker that gives a replica up; null unless it moves.", title="from", width=5, priority=0),
        _id("to_broker", "Broker that receives it; null unless it moves.", title="to", width=5, priority=0),
        Column("replicas", IDS, "Replicas before, in order.", priority=5),
        Column("new_replicas", IDS, "Replicas after it, in order; the first one leads.", width=12, priority=2),
        _id("leader", "Leader before.", width=6, priority=6),
        _id("new_leader", "Leader after it.", width=6, priority=4, title="leads"),
        number("moved_mb", "Data to copy; null: sizes are unknown.", "MB", width=9, priority=0),
        number("seconds", "Time of the copy at the throttle; null: sizes are unknown.", "s", "s", width=8, priority=4),
        text("reason", "What it is for: a goal, offline, drain, SurviveBroker or SurviveRack.", width=14, priority=2),
        text("mends", "Goals and losses settled by it, separated by |.", width=16, priority=1, grow=60),
    ),
    title="steps of the plan",
    key=("step",),
    order=("step",),
)  # fmt: skip

PLAN_CURVE = Table(
    "plan_curve",
    "How the cluster stands after each step of the plan; row 0 is today. Drained brokers count as dead.",
    (
        integer("step", "Steps done.", kind="id", priority=0),
        number("moved_mb", "Data copied until then; null: sizes are unknown.", "MB", priority=0),
        integer("replica_moves", "Replicas copied until then.", priority=2),
        integer("leader_moves", "Changes of leader until then.", priority=2),
        integer("partitions", "Partitions changed until then.", priority=3),
        integer("offline", "Replicas that are offline or on drained brokers.", priority=3),
        integer("goals_violated", "Goals violated, of Cruise Control's 16 default ones.", title="goals", priority=0),
        text("violated", "Their names, separated by |.", width=30, priority=4),
        number("balancedness", "Cruise Control's score, 0 to 100.", priority=0),
        integer("survived_brokers", "Losses of one broker that are survived for certain; null: loads are unknown.",
                title="survived", priority=0),
        integer("brokers", "Living brokers.", priority=3),
        integer("survived_racks", "Losses of one rack that are survived for certain; null: loads are unknown.", priority=1),
        integer("racks", "Racks whose loss is looked at.", priority=3),
        number("worst_headroom_pct", "Least distance to a threshold after the loss of one broker; negative: over it.", "%",
               "percent", title="headroom", priority=1),
    ),
    key=("step",),
    order=("step",),
)  # fmt: skip

PLAN_GOALS = Table(
    "plan_goals",
    "Cruise Control's default goals before and after the plan, and why some cannot be met.",
    (
        text("goal", "Goal, Cruise Control's name.", width=32, priority=0, grow=36),
        flag("hard", "Hard goals must hold.", width=4, priority=2),
        flag("violated_before", "Violated today; null: cannot be decided.", title="now", width=4, priority=0),
        flag("violated_after", "Violated after the plan; null: cannot be decided.", title="then", width=4, priority=0),
        integer("offenders_before", "Brokers, partitions or topics that break it today.", title="by", width=5, priority=1),
        integer("offenders_after", "Brokers, partitions or topics that break it after the plan.", title="then by", width=7,
                priority=1),
        number("excess_before", "How far they are outside today, in the goal's own unit.", priority=5),
        number("excess_after", "How far they are outside after the plan.", priority=5),
        flag("reachable", "Whether nothing proves that it cannot be met; null: cannot be decided.", width=9, priority=2),
        text("why_not", "Why it cannot be met or decided.", width=30, priority=0, grow=90),
        number("least_mb", "Data that any plan copies for it; null: no bound is known.", "MB", priority=3),
    ),
    key=("goal",),
)  # fmt: skip

PLAN_BROKERS = replace(
    SCENARIO_BROKERS,
    name="plan_brokers",
    meaning="Broker loads at the end of the plan, and before it.",
    title="brokers at the end of the plan",
)

PLAN_BATCHES = Table(
    "plan_batches",
    "Steps that can run together, in order.",
    (
        integer("batch", "Number of the batch.", kind="id", priority=0),
        integer("steps", "Steps in it.", priority=0),
        number("moved_mb", "Data to copy; null: sizes are unknown.", "MB", priority=0),
        _id("busiest_broker", "Broker that copies most; null: nothing is copied.", title="busiest", priority=0),
        number("seconds", "Time at the throttle; null: sizes are unknown.", "s", "s", priority=0),
        number("disk_peak_pct", "Fullest disk while both old and new replicas are there.", "%", "percent", priority=1),
    ),
    title="batches of the plan",
    key=("batch",),
    order=("batch",),
)  # fmt: skip

TABLES = (PLAN_STEPS, PLAN_CURVE, PLAN_GOALS, PLAN_BROKERS, PLAN_BATCHES)  # all tables of a plan
