"""The interface of a kind of ring: layout, placement, outcome, sweeps.

A strategy lays out members and places the load on them (``place``), computes what a failing set does while the ring keeps its
members (``fail``) or has lost them (``without``, ``compare``), and sweeps many failing sets. Scenarios use nothing else of a
kind; its tables and texts are in ``result.answers.Answers``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

import msgspec
import numpy as np

from engine.ring_placement.parameters import RingParameters
from engine.ring_placement.pyroscope.placement import Placement
from engine.ring_placement.pyroscope.ring import Member, Ring
from engine.ring_placement.scenarios.replica_rows import Registered, ReplicatedPlacement

Step = Callable[[float], None]  # called between pieces of long work with the fraction done (0-1); may raise to stop


def imbalance(loads: np.ndarray) -> tuple[float, float]:
    """Compute max over mean and coefficient of variation (population) of node loads; 1 and 0 without load."""
    if not len(loads):
        return 1.0, 0.0
    mean = float(loads.mean())
    return (float(loads.max()) / mean, float(loads.std()) / mean) if mean > 0 else (1.0, 0.0)


class Sweep(msgspec.Struct):
    """Scenarios and their figures, all in the same order.

    ``down``: who fails, as indices into ``ids``. ``columns``: figures by name, those of ``TOTALS`` as in ``strategy.Outcome``,
    loads in bytes per second. ``worst``: the member with the largest load afterwards (-1 without survivors) and its
    ``worst_load``; ``nodes_over_capacity``: -1 without a capacity. ``LOSSES`` only of rings with replicas.
    """

    ids: tuple[str, ...]
    down: list[tuple[int, ...]] = msgspec.field(default_factory=list)
    columns: dict[str, list[Any]] = msgspec.field(default_factory=dict)

    def __getitem__(self, name: str) -> list[Any]:
        """Return a figure of each scenario; 0 where no scenario of this sweep changes it."""
        return self.columns.get(name) or [0] * len(self.down)

    def add(self, down: tuple[int, ...], loads: np.ndarray, survivors: np.ndarray, capacity: np.ndarray | None,
            **figures: Any) -> None:  # fmt: skip
        """Append a scenario: who fails, its ``figures``, and those of the ``loads`` afterwards (per ring member).

        ``survivors``: members that take data afterwards (bool per ring member).
        """
        alive = loads[survivors]
        hottest = int(np.flatnonzero(survivors)[np.argmax(alive)]) if len(alive) else -1
        ratio, variation = imbalance(alive)
        figures |= {
            "worst": hottest, "worst_load": loads[hottest].item() if hottest >= 0 else 0, "max_over_mean": ratio,
            "coefficient_of_variation": variation,
            "nodes_over_capacity": int((alive > capacity[survivors]).sum()) if capacity is not None else -1,
        }  # fmt: skip
        self.down.append(down)
        for name, value in figures.items():
            self.columns.setdefault(name, []).append(value)

    def order(self) -> np.ndarray:
        """Return scenario numbers from worst to best: by rejected load, then the hottest node, then movement, then as listed."""
        keys = [
            np.arange(len(self.down)),
            *(-np.array(self[name], dtype=np.float64) for name in ("moved_bytes", "worst_load")),
        ]
        if LOSSES[0] in self.columns:
            lost, writes, reads = (np.array(self[name]) for name in LOSSES[:3])
            keys += [-lost, -writes - reads]
        return np.lexsort([*keys, -np.array(self["rejected_bytes"], dtype=np.float64)])


def requests_lost(share: Any, series: int) -> Any:
    """Return the share of write requests of ``series`` keys that fail when the ``share`` of all keys cannot be written: one such
    key is enough."""
    return 1.0 - (1.0 - share) ** series


Check = Callable[[], None]

TOTALS = (
    "rejected_bytes", "rerouted_bytes", "moved_bytes", "needless_moved_bytes", "shards_with_changed_owner",
    "datasets_with_changed_shard_set", "datasets_touched", "datasets_fully_on_down", "tenants_touched",
)  # fmt: skip
"""Totals of a scenario, under the same name in ``Outcome``, in the result's summary and in the table ``sweep``."""
LOSSES = ("write_lost_share", "tenants_write_lost", "tenants_read_lost", "reads_ok")
"""What a failure takes on a ring with replicas: the share of all keys that cannot be written, how many tenants lose some writes,
or queries ("no shard" is one), and whether queries of the whole ring succeed."""


Layout = Ring | Registered  # a ring laid out: its members in byte order of their IDs
P = TypeVar("P", bound=Placement | ReplicatedPlacement)  # load placed on a ring


class Outcome(msgspec.Struct, frozen=True, eq=False):
    """A scenario's effect. ``nodes``: instance IDs in byte order, all that exist before or after; ``before`` and
    ``after``: their loads. Totals as in ``docs/models/ring-placement.md``, "Totals of a scenario"; ``rejected_before`` was
    rejected without the scenario too. ``mean_tries``: attempts per request, weighted by load; ``shards``: S afterwards.

    Of rings with replicas: ``write_lost_share`` of all keys, and whether queries of the whole ring succeed (``reads_ok``).
    """

    nodes: tuple[str, ...]
    before: np.ndarray
    after: np.ndarray
    rejected_before: Any = 0
    rejected_bytes: Any = 0
    rerouted_bytes: Any = 0
    moved_bytes: Any = 0
    needless_moved_bytes: Any = 0
    shards_with_changed_owner: int = 0
    datasets_with_changed_shard_set: int = 0
    datasets_touched: int = 0
    datasets_fully_on_down: int = 0
    tenants_touched: int = 0
    mean_tries: float = 1.0
    shards: int = 0
    write_lost_share: float = 0.0
    reads_ok: bool = True
    moved_share: float = 0.0


class Strategy(Protocol[P]):
    """One kind of ring with the load of a cluster."""

    @property
    def kind(self) -> str:
        """``segment-writer``, ``token-ring`` or ``partition-ring``."""

    def place(self, members: Sequence[Member], p: RingParameters, like: P | None, check: Check) -> P:
        """Lay out the ring of ``members`` and place the load. ``like``: a placement of the same load, to save work; ``check``
        is called during long work and may raise."""

    def fail(self, placement: P, failed: np.ndarray, regime: str) -> tuple[Outcome, P]:
        """Let members (bool per ring member) fail while they stay registered. Returns the outcome and the placement after it."""

    def without(self, placement: P, gone: frozenset[str], check: Check) -> P:
        """Place the load on the ring laid out again without the members ``gone``."""

    def compare(self, before: P, after: P, gone: frozenset[str] = frozenset()) -> Outcome:
        """Compute the effect of another layout; ``gone``: members whose loss causes it."""

    def touched(self, placement: P, down: np.ndarray) -> tuple[int, int, int]:
        """Count datasets with a part on the members ``down`` (bool), datasets wholly on them, and tenants with a part there."""

    def sweep(
        self,
        placement: P,
        kind: str,
        downs: Sequence[tuple[int, ...]],
        regime: str,
        limits: np.ndarray | None,
        step: Step,
    ) -> Sweep:
        """Sweep every node, every pair, every node ``leaving``, or (any other ``kind``) the sets ``downs`` of members, one
        by one. ``limits``: capacity per ring member, or None."""
