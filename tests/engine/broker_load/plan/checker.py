"""A plan judged by other means: plain Python over the tables of a result, without any code of the planner or the model."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from engine.core.view import Result

Key = tuple[str, int]
GOALS = (
    "RackAwareGoal", "MinTopicLeadersPerBrokerGoal", "ReplicaCapacityGoal", "DiskCapacityGoal", "NetworkInboundCapacityGoal",
    "NetworkOutboundCapacityGoal", "CpuCapacityGoal", "ReplicaDistributionGoal", "PotentialNwOutGoal",
    "DiskUsageDistributionGoal", "NetworkInboundUsageDistributionGoal", "NetworkOutboundUsageDistributionGoal",
    "CpuUsageDistributionGoal", "TopicReplicaDistributionGoal", "LeaderReplicaDistributionGoal",
    "LeaderBytesInDistributionGoal",
)  # fmt: skip
HARD = GOALS[:7]
LIMIT = {"cpu": 0.7, "nw_in": 0.8, "nw_out": 0.8, "disk": 0.8}
Excess = dict[str, float]


@dataclass(eq=False)
class Partition:
    """Load of a partition as leader and follower: cpu, nw_in, nw_out, disk."""

    replicas: list[int]
    leader: int
    in_sync: set[int]
    lead: tuple[float, float, float, float]
    follow: tuple[float, float, float, float]


class Checker:
    """A cluster that a plan is applied to, one step at a time. Every broker has a host of its own; leaders come first today;
    ``gone``: brokers that count as dead."""

    def __init__(self, result: Result, gone: tuple[int, ...] = ()) -> None:
        rows = [row for row in result.tables["brokers"].to_dicts() if row["source"] == "model"]
        self.rack = {row["broker"]: row["rack"] for row in rows}
        self.alive = [row["broker"] for row in rows if row["state"] != "DEAD" and row["broker"] not in gone]
        self.room = {row["broker"]: (row["cores"] * 100, row["nw_in_cap_kbs"], row["nw_out_cap_kbs"], row["disk_cap_mb"])
                     for row in rows}  # fmt: skip
        self.parts: dict[Key, Partition] = {}
        self._sums: dict[int, list[float]] = {}
        self._changed = set(self.rack)  # brokers whose sums are not those of now
        self._excess: Excess = {}  # empty after a step
        loads: dict[Key, dict[bool, tuple[float, ...]]] = {}
        for row in result.tables["replicas"].to_dicts():
            value = (row["cpu_pct_cores"], row["nw_in_kbs"], row["nw_out_kbs"], row["disk_mb"])
            loads.setdefault((row["topic"], row["partition"]), {})[row["leader"]] = value
        for row in result.tables["partitions"].to_dicts():
            key = (row["topic"], row["partition"])
            if row["leader"] is None or row["leader"] < 0 or key not in loads:
                continue
            lead: Any = loads[key][True]
            follow: Any = loads[key].get(False, (0.0, lead[1], 0.0, lead[3]))
            self.parts[key] = Partition(list(row["replicas"]), row["leader"], set(row["isr"]), lead, follow)

    # -- judgement --------------------------------------------------------------------------------------------------------

    def sums(self) -> dict[int, list[float]]:
        """cpu, nw_in, nw_out, disk, leader in, potential out, leaders, replicas of each broker."""
        held: dict[int, list[tuple[float, ...]]] = {broker: [(0.0,) * 8] for broker in self._changed}
        for part in self.parts.values() if self._changed else ():
            for broker in self._changed.intersection(part.replicas):
                leads = broker == part.leader
                cpu, into, out, disk = part.lead if leads else part.follow
                held[broker].append((cpu, into, out, disk, into * leads, part.lead[2], float(leads), 1.0))
        self._sums |= {broker: list(map(sum, zip(*rows, strict=True))) for broker, rows in held.items()}
        self._changed = set()
        return self._sums

    def excess(self) -> Excess:
        """How far the cluster is outside each goal."""
        if self._excess:
            return self._excess
        sums, count, over = self.sums(), len(self.alive), dict.fromkeys(GOALS, 0.0)
        over["RackAwareGoal"] = sum(
            len({self.rack[b] for b in p.replicas}) < len(p.replicas) for p in self.parts.values()
        )
        for place, (name, goal) in enumerate(zip(LIMIT, ("CpuCapacityGoal", "NetworkInboundCapacityGoal",
                "NetworkOutboundCapacityGoal", "DiskCapacityGoal"), strict=True)):  # fmt: skip
            whole = sum(self.room[b][place] for b in self.alive)
            average = sum(row[place] for row in sums.values()) / whole
            usage = ("CpuUsage", "NetworkInboundUsage", "NetworkOutboundUsage", "DiskUsage")[place] + "DistributionGoal"
            for broker in self.alive:
                load, room = sums[broker][place], self.room[broker][place]
                over[goal] += max(load - LIMIT[name] * room, 0.0)
                over[usage] += max(load - average * 1.09 * room, average * 0.91 * room - load, 0.0)
        for broker in self.alive:
            over["PotentialNwOutGoal"] += max(sums[broker][5] - 0.8 * self.room[broker][2], 0.0)
        for place, goal in ((7, "ReplicaDistributionGoal"), (6, "LeaderReplicaDistributionGoal")):
            average = sum(row[place] for row in sums.values()) / count
            low, high = math.floor(average * 0.91), math.ceil(average * 1.09)
            over[goal] = sum(max(sums[b][place] - high, low - sums[b][place], 0.0) for b in self.alive)
        most = 1.1 * sum(sums[b][4] for b in self.alive) / count
        over["LeaderBytesInDistributionGoal"] = sum(max(sums[b][4] - most, 0.0) for b in self.alive)
        held: dict[str, list[int]] = {}
        for (topic, _), part in self.parts.items():
            held.setdefault(topic, []).extend(part.replicas)
        over["TopicReplicaDistributionGoal"] = sum(map(self._topic, held.values()))
        self._excess = over
        return over

    def _topic(self, held: list[int]) -> float:
        average = len(held) / len(self.alive)
        high = min(max(math.ceil(average * 2.8), math.ceil(average) + 2), math.ceil(average) + 40)
        low = max(min(max(math.floor(average * -0.8), math.floor(average) - 40), math.floor(average) - 2), 0)
        return float(sum(max(held.count(b) - high, low - held.count(b), 0) for b in self.alive))

    def offline(self) -> int:
        """Replicas on brokers that are dead."""
        return sum(b not in self.alive for part in self.parts.values() for b in part.replicas)

    def violated(self) -> set[str]:
        """Goals that are violated; while a replica is offline, all but one are."""
        bad = {goal for goal, value in self.excess().items() if value > 1e-6}
        return bad | (set(GOALS) - {"LeaderBytesInDistributionGoal"} if self.offline() else set())

    def survives(self, gone: set[int]) -> bool:
        """Whether no partition is left without a leader and no survivor gets over a threshold."""
        load = {broker: list(row) for broker, row in self.sums().items()}
        for part in self.parts.values():
            if part.leader not in gone:
                continue
            heir = next((b for b in part.replicas if b not in gone and b in part.in_sync and b in self.alive), None)
            if heir is None:
                return False
            load[heir][0] += part.lead[0] - part.follow[0]
            load[heir][2] += part.lead[2]
        limits = list(LIMIT.values())
        return all(
            value <= limit * room + 1e-6
            for b in self.alive
            if b not in gone
            for value, limit, room in zip(load[b], limits, self.room[b], strict=False)
        )

    # -- steps ------------------------------------------------------------------------------------------------------------

    def step(self, row: dict[str, Any]) -> None:
        """Apply one row of ``plan_steps``; AssertionError where it is not legal."""
        part = self.parts[row["topic"], row["partition"]]
        assert (part.replicas, part.leader) == (row["replicas"], row["leader"]), (
            "a step starts where the last one ended"
        )
        new, old = row["new_replicas"], part.replicas
        assert len(set(new)) == len(new) == len(old), "as many replicas as before, each broker once"
        came, left = set(new) - set(old), set(old) - set(new)
        assert len(came) == len(left) == (1 if row["kind"] == "move" else 0), "one replica at a time"
        assert came <= set(self.alive), "new replicas are on living brokers"
        assert (row["to_broker"], row["from_broker"]) == ((*came, *left) if came else (None, None))
        assert new[0] == row["new_leader"], "the leader comes first"
        racks = [{self.rack[b] for b in each} for each in (old, new)]
        assert len(racks[1]) >= len(racks[0]), "never on fewer racks"
        if row["kind"] == "order":
            assert row["new_leader"] == row["leader"]
        if row["kind"] == "lead":
            assert row["new_leader"] in part.in_sync
        mb = part.lead[3] if came else 0.0
        assert math.isclose(row["moved_mb"], mb, rel_tol=1e-9, abs_tol=1e-9)
        self._excess = {}
        self._changed |= {*old, *new}
        part.in_sync = {*new} if came else part.in_sync
        part.replicas, part.leader = list(new), row["new_leader"]


def check(before: Result, result: Result, gone: tuple[int, ...] = ()) -> Checker:
    """Apply every step of a plan and compare each row of its curve; ``before``: the same cluster without a plan."""
    checker = Checker(before, gone)
    steps, curve = result.tables["plan_steps"].to_dicts(), result.tables["plan_curve"].to_dicts()
    assert len(curve) == len(steps) + 1
    racks = sorted(set(checker.rack.values()))
    held = {rack: {b for b in checker.alive if checker.rack[b] == rack} for rack in racks}
    several = (
        [rack for rack in racks if 1 < len(held[rack]) < len(checker.alive)] if len(racks) < len(checker.rack) else []
    )
    total, last = 0.0, checker.excess()
    for row in curve:
        if row["step"]:
            one = steps[row["step"] - 1]
            checker.step(one)
            total += one["moved_mb"]
            now = checker.excess()
            if one["reason"] not in ("offline", "drain"):
                worse = {goal for goal in HARD if now[goal] > last[goal] * (1 + 1e-6) + 1e-6}
                assert not worse, f"step {row['step']} makes {worse} worse"
            last = now
        assert {*row["violated"].split("|")} - {""} == checker.violated(), f"goals after step {row['step']}"
        assert row["offline"] == checker.offline()
        assert row["survived_brokers"] == sum(checker.survives({b}) for b in checker.alive), (
            f"losses after {row['step']}"
        )
        assert (row["survived_racks"], row["racks"]) == (
            sum(checker.survives(held[rack]) for rack in several),
            len(several),
        )
        assert math.isclose(row["moved_mb"], total, rel_tol=1e-9, abs_tol=1e-9)
    _check_batches(Checker(before, gone), result, steps)
    return checker


def _check_batches(checker: Checker, result: Result, steps: list[dict[str, Any]]) -> None:
    """Check that what arrives in a batch has room before anything leaves, few copies at a time, and leaders that send them."""
    for number in result.tables["plan_batches"]["batch"].to_list():
        mine = [one for one in steps if one["batch"] == number]
        rows = [(one["topic"], one["partition"]) for one in mine]
        assert len(rows) == len(set(rows)), "a partition is once in a batch"
        held = {broker: row[3] for broker, row in checker.sums().items()}
        copies = dict.fromkeys(held, 0)
        for one in mine:
            if one["to_broker"] is not None:
                held[one["to_broker"]] += one["moved_mb"]
                for broker in (one["to_broker"], checker.parts[one["topic"], one["partition"]].leader):
                    copies[broker] += 1
        for broker in {one["to_broker"] for one in mine} - {None}:
            # What must move and fits nowhere comes first in its batch, alone on its broker.
            alone = broker == mine[0]["to_broker"] and copies[broker] == 1
            assert alone or held[broker] <= checker.room[broker][3] * (1 + 1e-9), f"no room on {broker}"
        assert max(copies.values()) <= 5, "at most five copies per broker"
        for one in mine:
            checker.step(one)
