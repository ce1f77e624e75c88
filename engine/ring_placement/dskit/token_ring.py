"""Members and sorted tokens of a token ring, and the states that are healthy for an operation.

Source: ``grafana/dskit/ring`` (``ring.go``, ``model.go``, ``replication_strategy.go``). See ``docs/models/dskit-rings.md``,
"Members" and "Operations".
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

SPACE = 1 << 32
"""Number of keys: the key space is the 32-bit numbers."""

NO_TOKENS = np.empty(0, dtype=np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Instance:
    """One member. ``state``: ACTIVE, LEAVING, PENDING or JOINING; ``tokens``: 32-bit values, sorted (int64); ``beating``:
    whether its heartbeat is recent enough; ``registered_s`` and ``read_only_s`` (last change of the flag): epoch seconds,
    0 where unknown."""

    id: str
    zone: str = ""
    state: str = "ACTIVE"
    tokens: np.ndarray = field(default_factory=lambda: NO_TOKENS)
    beating: bool = True
    registered_s: int = 0
    read_only: bool = False
    read_only_s: int = 0


@dataclass(frozen=True, slots=True)
class Operation:
    """A kind of request: the states that are ``healthy`` for it, and those that extend a replica set by one."""

    healthy: frozenset[str]
    extend: frozenset[str] = frozenset()


OPERATIONS = {
    "write_no_extend": Operation(frozenset({"ACTIVE"})),
    "write": Operation(frozenset({"ACTIVE"}), frozenset({"LEAVING", "PENDING", "JOINING"})),
    "read": Operation(frozenset({"ACTIVE", "PENDING", "LEAVING"}), frozenset({"PENDING", "JOINING"})),
    "mimir": Operation(frozenset({"ACTIVE", "PENDING"})),
    "reporting": Operation(frozenset({"ACTIVE", "LEAVING", "PENDING", "JOINING"})),
}
"""Operations by name. Mimir, Loki and Pyroscope's first version write with ``write_no_extend``; ``mimir`` is the operation
of Mimir's queries, ``read`` that of Loki's."""


@dataclass(frozen=True, eq=False)
class TokenRing:
    """A ring: ``instances`` in byte order of their IDs, the sorted ``tokens`` (int64) and the index of the instance that
    owns each (``owner``, int32). ``replication``: the replication factor; ``zone_aware``: at most one replica a zone."""

    instances: tuple[Instance, ...]
    replication: int
    zone_aware: bool
    tokens: np.ndarray
    owner: np.ndarray

    @classmethod
    def of(cls, instances: Iterable[Instance], replication: int = 3, zone_aware: bool = False) -> TokenRing:
        """Lay out a ring. A token of several instances goes to one that is not LEAVING, then to the smallest ID, as memberlist
        resolves it."""
        ordered = tuple(sorted(instances, key=lambda i: i.id))
        sizes = [len(i.tokens) for i in ordered]
        if not sum(sizes):
            return cls(ordered, replication, zone_aware, NO_TOKENS, np.empty(0, dtype=np.int32))
        tokens = np.concatenate([i.tokens for i in ordered]).astype(np.int64)
        owner = np.repeat(np.arange(len(ordered), dtype=np.int32), sizes)
        order = np.argsort(tokens, kind="stable")
        tokens, owner = tokens[order], owner[order]
        if len(tokens) > 1 and (tokens[1:] == tokens[:-1]).any():
            leaving = np.array([i.state == "LEAVING" for i in ordered])
            order = np.lexsort((owner, leaving[owner], tokens))
            tokens, owner = tokens[order], owner[order]
            first = np.concatenate(([True], tokens[1:] != tokens[:-1]))
            tokens, owner = tokens[first], owner[first]
        return cls(ordered, replication, zone_aware, tokens, owner)

    @cached_property
    def ids(self) -> tuple[str, ...]:
        """IDs in ring order."""
        return tuple(i.id for i in self.instances)

    @cached_property
    def zones(self) -> tuple[str, ...]:
        """Zones of all members, sorted, "" (no zone) included."""
        return tuple(sorted({i.zone for i in self.instances}))

    @cached_property
    def zone_of(self) -> np.ndarray:
        """Index into ``zones`` of each instance (int64)."""
        number = {zone: n for n, zone in enumerate(self.zones)}
        return np.array([number[i.zone] for i in self.instances], dtype=np.int64)

    @cached_property
    def lengths(self) -> np.ndarray:
        """Number of keys that each token owns (int64): the distance from the token before it."""
        return gaps(self.tokens)

    @cached_property
    def positions(self) -> tuple[np.ndarray, ...]:
        """Positions in ``tokens`` of each instance's tokens, ascending."""
        order = np.argsort(self.owner, kind="stable")
        ends = np.cumsum(np.bincount(self.owner, minlength=len(self.instances)))
        return tuple(np.split(order, ends[:-1])) if len(self.instances) else ()

    def healthy(self, operation: Operation) -> np.ndarray:
        """Return for each instance whether it is healthy for ``operation`` (bool)."""
        return np.array([i.beating and i.state in operation.healthy for i in self.instances], dtype=bool)

    def search(self, keys: np.ndarray) -> np.ndarray:
        """Return for each key the position of the first token above it; behind the last token the first one."""
        found = np.searchsorted(self.tokens, keys, side="right")
        found[found == len(self.tokens)] = 0
        return found

    def subring(self, chosen: np.ndarray) -> TokenRing:
        """Return the ring of the instances ``chosen`` (indices, ascending) alone, with its own zones."""
        if len(chosen) == len(self.instances):
            return self
        number = np.full(len(self.instances), -1, dtype=np.int32)
        number[chosen] = np.arange(len(chosen), dtype=np.int32)
        positions = [self.positions[i] for i in chosen.tolist()]
        if sum(map(len, positions)) > len(self.tokens) // 8:
            at = np.flatnonzero(number[self.owner] >= 0)
        else:
            at = np.sort(np.concatenate(positions)) if positions else np.empty(0, dtype=np.int64)
        return replace(
            self,
            instances=tuple(self.instances[i] for i in chosen.tolist()),
            tokens=self.tokens[at],
            owner=number[self.owner[at]],
        )

    def without(self, gone: Sequence[str] | frozenset[str]) -> TokenRing:
        """Return the ring without the members ``gone`` (IDs)."""
        return self.subring(np.array([i for i, name in enumerate(self.ids) if name not in gone], dtype=np.int64))

    @cached_property
    def ownership(self) -> np.ndarray:
        """Number of keys that the ring page calls an instance's own (int64): the distances of its tokens from the token
        before them *in the same zone*, whether the ring is zone-aware or not (``CountTokens``)."""
        owned = np.zeros(len(self.instances), dtype=np.int64)
        zone = self.zone_of[self.owner]
        for number in range(len(self.zones)):
            at = np.flatnonzero(zone == number)
            np.add.at(owned, self.owner[at], gaps(self.tokens[at]))
        return owned

    @cached_property
    def token_ranges(self) -> tuple[np.ndarray | None, ...]:
        """Ranges of keys that each instance owns in its zone, ascending (int64 of shape (ranges, 2): first and last key), by
        which Mimir counts owned series; None where dskit computes none (``GetTokenRangesForInstance``): without zone
        awareness, with other than as many zones as replicas, without a zone, or in a zone without tokens.

        As in dskit, a range of key 0 alone is left out where 0 is a token.
        """
        out: list[np.ndarray | None] = [None] * len(self.instances)
        if not self.zone_aware or len(self.zones) != self.replication:
            return tuple(out)
        zone = self.zone_of[self.owner]
        for number, name in enumerate(self.zones):
            at = np.flatnonzero(zone == number)
            if not name or not len(at):
                continue
            ranges, owner = _runs(self.tokens[at], self.owner[at])
            order = np.argsort(owner, kind="stable")
            ends = np.cumsum(np.bincount(owner, minlength=len(out)))
            for member in np.flatnonzero(self.zone_of == number).tolist():
                out[member] = ranges[order[ends[member - 1] if member else 0 : ends[member]]]
        return tuple(out)


def _runs(tokens: np.ndarray, owner: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Join the ranges of neighbouring tokens of one owner, from key 0 on. Returns the ranges (first and last key) and their
    owners; a range across the end of the ring is two."""
    first = np.concatenate(([0], tokens))
    last = np.concatenate((tokens, [SPACE])) - 1
    owner = np.concatenate((owner, owner[:1]))
    if tokens[0] == 0:  # nothing lies below it
        first, last, owner = first[1:], last[1:], owner[1:]
    begins = np.concatenate(([True], owner[1:] != owner[:-1]))
    ranges = np.stack((first[begins], last[np.append(begins[1:], True)]), axis=1)
    is_kept = (ranges[:, 1] > 0) | (tokens[0] > 0)
    return ranges[is_kept], owner[begins][is_kept]


def gaps(tokens: np.ndarray) -> np.ndarray:
    """Return the distance of each sorted token from the one before it, around the ring (int64); a lone token owns all keys."""
    if len(tokens) < 2:
        return np.full(len(tokens), SPACE, dtype=np.int64)
    return np.diff(tokens, prepend=tokens[-1] - SPACE)
