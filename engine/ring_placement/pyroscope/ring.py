"""The ring as the segment-writer distributor sees it: members, their health, and the owner of each shard."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import polars as pl

from engine.ring_placement.pyroscope.prng import permutation

PLACED_STATES = ("ACTIVE", "LEAVING", "PENDING", "JOINING")
"""States whose tokens count in the layout of shards. Only ACTIVE members receive data."""

KNOWN_STATES = (*PLACED_STATES, "LEFT", "UNHEALTHY")
"""All states a ring file may show."""

NUM_TOKENS = 4
"""Pyroscope's default number of tokens of a segment writer."""


@dataclass(frozen=True, slots=True)
class Member:
    """One ring member. ``state`` as shown (UNHEALTHY once its heartbeat is too old), ``tokens`` their number,
    ``heartbeat_s`` and ``registered_s`` in epoch seconds (None where the file says nothing). ``values``: the tokens
    themselves, sorted (int64; None where the file gives their number only), ``read_only_s`` and the state
    ``written`` in the file where the heartbeat hides it, ``owned``: the share of keys that its page prints (None in other
    files): these matter to token rings only."""

    id: str
    state: str = "ACTIVE"
    zone: str = ""
    tokens: int = NUM_TOKENS
    address: str = ""
    heartbeat_s: int | None = None
    registered_s: int | None = None
    read_only: bool = False
    read_only_s: int = 0
    written: str = ""
    values: np.ndarray | None = field(default=None, compare=False, repr=False)
    owned: float | None = None

    @property
    def placed(self) -> bool:
        """Whether the member's tokens take part in the layout of shards."""
        return self.state in PLACED_STATES

    @property
    def out(self) -> bool:
        """Whether it is registered but takes no data: neither ACTIVE nor a tombstone (LEFT)."""
        return self.state not in ("ACTIVE", "LEFT")

    @property
    def is_tombstone(self) -> bool:
        """Whether it has left, so that its ID is free. A minute later its heartbeat makes it UNHEALTHY."""
        return "LEFT" in (self.state, self.written)

    def at(self, now_ns: int, timeout_s: float) -> Member:
        """Return the member as seen at ``now_ns``: UNHEALTHY if its heartbeat is more than ``timeout_s`` old.

        Without a heartbeat the state of the file stands; a timeout of 0 switches the rule off.
        """
        if self.heartbeat_s is None or timeout_s <= 0 or self.state not in KNOWN_STATES:
            return self
        if now_ns - self.heartbeat_s * 1_000_000_000 > timeout_s * 1_000_000_000:
            return replace(self, state="UNHEALTHY", written=self.state)
        return self


def in_byte_order(members: Iterable[Member]) -> list[Member]:
    """Sort members by the bytes of their IDs, as the ring does: code points sort as their UTF-8 bytes do."""
    return sorted(members, key=lambda m: m.id)


@dataclass(frozen=True, eq=False)
class Ring:
    """The layout: healthy members in byte order of their IDs, and which of them owns each shard.

    ``owner``: index into ``members`` of each shard position (int32, S entries); the shard ID is the position plus one.
    See ``docs/models/ring-placement.md``, "From ring to shards".
    """

    members: tuple[Member, ...]
    owner: np.ndarray

    @classmethod
    def of(cls, members: Iterable[Member]) -> Ring:
        """Lay out the ring of the ``members`` that are placed. It may be empty; S is 0 without tokens."""
        placed = [m for m in in_byte_order(members) if m.placed]
        tokens = np.array([m.tokens for m in placed], dtype=np.int64)
        owner_of_token = np.repeat(np.arange(len(placed), dtype=np.int32), tokens)
        return cls(tuple(placed), owner_of_token[permutation(len(owner_of_token))])

    @property
    def total(self) -> int:
        """S, the number of shards."""
        return len(self.owner)

    @cached_property
    def ids(self) -> tuple[str, ...]:
        """Instance IDs in ring order."""
        return tuple(m.id for m in self.members)

    def names(self, index: np.ndarray) -> pl.Series:
        """Return the IDs of the members at ``index`` (in ring order), null where it is negative."""
        at = np.where(index < 0, len(self.members), index).astype(np.uint32)
        return pl.Series([*self.ids, None], dtype=pl.String).gather(pl.Series(at))

    @cached_property
    def active(self) -> np.ndarray:
        """Per member, whether it may receive data (bool)."""
        return np.array([m.state == "ACTIVE" for m in self.members], dtype=bool)

    def without(self, gone: Sequence[str] | frozenset[str]) -> Ring:
        """Lay out the ring without the members ``gone``."""
        removed = frozenset(gone)
        return Ring.of(m for m in self.members if m.id not in removed)
