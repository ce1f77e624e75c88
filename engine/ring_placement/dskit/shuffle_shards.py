"""Shuffle shards: the instances or partitions that a tenant uses, drawn from a generator that its name seeds.

Source: ``grafana/dskit/ring`` (``Ring.ShuffleShard``, ``ShuffleShardWithLookback``, ``util/shard``). See
``docs/models/dskit-rings.md``, "Shuffle shards".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from hashlib import md5

import numpy as np

from engine.ring_placement.dskit.token_ring import Instance, TokenRing
from engine.ring_placement.pyroscope.prng import GoRand, cooked

_MERSENNE = 2**31 - 1
_DIRECT = 273
"""Draws of Go's generator that depend on its seeded register alone."""
_BLOCK = 64
"""Draws made at a time beyond the first ones."""


def seed_of(tenant: str, zone: str = "") -> int:
    """Compute the signed 64-bit seed of ``tenant`` in ``zone``."""
    text = tenant.encode("utf-8", "surrogateescape")
    if zone:
        text += b"\x00" + zone.encode("utf-8", "surrogateescape")
    return int.from_bytes(md5(text, usedforsecurity=False).digest()[:8], "big", signed=True)


@lru_cache(maxsize=1)
def _powers() -> np.ndarray:
    """Return 48271^n mod 2^31-1 for n = 0 … 20 + 3·607 (uint64): a Lehmer generator jumps ahead by multiplication."""
    out = [1]
    for _ in range(20 + 3 * 607):
        out.append(out[-1] * 48271 % _MERSENNE)
    return np.array(out, dtype=np.uint64)


def first_draws(seeds: Sequence[int], count: int) -> np.ndarray:
    """Draw the first ``count`` (at most 273) values of Uint32 for each seed. Returns int64 of shape (seeds, count).

    The first draws of Go's generator are sums of two cells of its register, so only those cells are seeded.
    """
    start = np.array([seed % _MERSENNE or 89482311 for seed in seeds], dtype=np.uint64)[:, None]

    def cells(numbers: np.ndarray) -> np.ndarray:
        words = [start * _powers()[20 + 3 * numbers + step] % np.uint64(_MERSENNE) for step in (1, 2, 3)]
        return (words[0] << np.uint64(40)) ^ (words[1] << np.uint64(20)) ^ words[2] ^ cooked()[numbers]

    number = np.arange(count)
    drawn = (cells(333 - number) + cells(606 - number)) & np.uint64(2**63 - 1)
    return (drawn >> np.uint64(31)).astype(np.int64)


@lru_cache(maxsize=64)
def _first_draws_of(seed: int, count: int) -> list[int]:
    """Draw the first values of one seed: the shards that a tenant writes to and reads from begin with the same ones."""
    return first_draws([seed], count)[0].tolist()


def draws(seed: int, count: int = _BLOCK) -> Iterator[int]:
    """Draw values of Uint32 endlessly, the first ``count`` of them cheaply."""
    count = min(count, _DIRECT)
    yield from _first_draws_of(seed, count)
    generator = GoRand(seed)
    generator.uint64s(count)
    while True:
        drawn = (generator.uint64s(_BLOCK) & np.uint64(2**63 - 1)) >> np.uint64(31)
        yield from drawn.astype(np.int64).tolist()


class Owners:
    """Owners of the sorted tokens of a ring (``owner``: indices), for walks that pass over most of them. ``patience``: steps
    taken one by one before the next owner is looked up."""

    def __init__(self, owner: np.ndarray, patience: int = 64) -> None:
        self._patience = patience
        self.by_token: list[int] = owner.tolist()
        order = np.argsort(owner, kind="stable")
        holders, begins = np.unique(owner[order], return_index=True)
        self.positions = dict(zip(holders.tolist(), np.split(order, begins[1:]), strict=True)) if len(owner) else {}

    def walk(self, start: int, passes: Callable[[int], bool]) -> Iterator[int]:
        """Walk once around from token ``start``. Yields each owner for which ``passes`` is false; that may change on the way."""
        total, step, idle = len(self.by_token), 0, 0
        while step < total:
            owner = self.by_token[(start + step) % total]
            if not passes(owner):
                yield owner
                idle = 0
            elif idle < self._patience:
                idle += 1
            else:  # few owners have nearly all tokens here
                ahead = (self._steps_to(start, step, holder) for holder in self.positions if not passes(holder))
                step = min(ahead, default=total)
                idle = 0
                continue
            step += 1

    def _steps_to(self, start: int, step: int, holder: int) -> int:
        """Count the steps from ``start`` to the first token of ``holder`` that is at least ``step`` away."""
        total, own = len(self.by_token), self.positions[holder]
        now = (start + step) % total
        found = int(np.searchsorted(own, now))
        ahead = own[found] - now if found < len(own) else own[0] + total - now
        return step + int(ahead)


class ShardRing:
    """A token ring prepared for the shuffle shards of many tenants, as seen at ``now_s`` (epoch seconds)."""

    def __init__(self, ring: TokenRing, now_s: int) -> None:
        self.ring, self.now_s = ring, now_s
        zone = ring.zone_of[ring.owner] if len(ring.tokens) else np.empty(0, dtype=np.int64)
        groups = range(len(ring.zones)) if ring.zone_aware else (None,)
        self._groups: list[tuple[str, np.ndarray, np.ndarray, Owners]] = []
        """Per zone, or once for all: its name, members, tokens and their owners."""
        for group in groups:
            at = np.arange(len(ring.tokens)) if group is None else np.flatnonzero(zone == group)
            members = np.arange(len(ring.instances)) if group is None else np.flatnonzero(ring.zone_of == group)
            name = "" if group is None else ring.zones[group]
            self._groups.append((name, members, ring.tokens[at], Owners(ring.owner[at])))
        self.everyone = np.arange(len(ring.instances))
        self._oldest_s = min((i.registered_s for i in ring.instances), default=0)
        self._flags: dict[int, tuple[list[bool], list[bool]]] = {}
        self._possible: dict[int, list[int]] = {}
        """By lookback: how many members of each group with tokens a shard may hold."""

    def _flags_of(self, lookback_s: int) -> tuple[list[bool], list[bool]]:
        """Return for each instance whether a shard may hold it, and whether it is added to the shard's size."""
        if lookback_s not in self._flags:
            since = self.now_s - lookback_s
            is_in = [_included(i, lookback_s, since) for i in self.ring.instances]
            on_top = [lookback_s > 0 and _is_recent(i, since) for i in self.ring.instances]
            self._flags[lookback_s] = is_in, on_top
            self._possible[lookback_s] = [sum(is_in[m] for m in group[3].positions) for group in self._groups]
        return self._flags[lookback_s]

    def flags(self, lookback_s: int) -> tuple[object, ...]:
        """Return what shards with this lookback depend on besides topology: equal flags give equal shards at any time."""
        since, instances = self.now_s - lookback_s, self.ring.instances
        is_in, on_top = self._flags_of(lookback_s)
        looks_back = lookback_s > 0
        flagged = [i.read_only_s for i in instances if i.read_only]
        return (looks_back, tuple(is_in), tuple(on_top), bool(flagged), looks_back and min(flagged, default=0) >= since,
                looks_back and self._oldest_s > 0 and self._oldest_s >= since)  # fmt: skip

    def shard(self, tenant: str, size: int, lookback_s: int = 0) -> np.ndarray:
        """Choose the instances (indices, ascending) of ``tenant``'s shard of ``size``; ``lookback_s`` 0 for writes."""
        ring, since = self.ring, self.now_s - lookback_s
        is_in, on_top = self._flags_of(lookback_s)
        if size <= 0:
            flagged = [i.read_only_s for i in ring.instances if i.read_only]
            if not flagged or (lookback_s > 0 and min(flagged) >= since):
                return self.everyone
            return np.flatnonzero(is_in)
        if lookback_s > 0 and self._oldest_s > 0 and self._oldest_s >= since:
            return self.everyone
        share = -(-size // max(len(ring.zones), 1)) if ring.zone_aware else size
        chosen: list[int] = []
        for (zone, members, tokens, owners), possible in zip(self._groups, self._possible[lookback_s], strict=True):
            if ring.zone_aware and share >= len(members):
                chosen += [m for m in members.tolist() if is_in[m]]
            elif len(tokens):
                chosen += _draw_shard(seed_of(tenant, zone), (share, possible), tokens, owners, is_in, on_top)
        return np.array(sorted(chosen), dtype=np.int64)


def _included(instance: Instance, lookback_s: int, since: int) -> bool:
    """Whether a shard may hold the instance: a read-only one only if it became so within the lookback."""
    return not instance.read_only or (lookback_s > 0 and not 0 < instance.read_only_s < since)


def _is_recent(instance: Instance, since: int) -> bool:
    return instance.registered_s >= since or instance.read_only or instance.read_only_s >= since


def _draw_shard(
    seed: int, size: tuple[int, int], tokens: np.ndarray, owners: Owners, is_in: list[bool], on_top: list[bool]
) -> list[int]:
    """Draw members, each the next eligible one from a random place on. ``size``: how many, and how many are eligible."""
    chosen: set[int] = set()
    rounds, possible = size
    drawn = draws(seed, min(rounds, possible))
    for _ in range(rounds):
        if len(chosen) == possible:
            break
        start = int(np.searchsorted(tokens, next(drawn), side="right"))
        for member in owners.walk(start, lambda m: m in chosen or not is_in[m]):
            # A member that came or changed within the lookback does not count for the size.
            chosen.add(member)
            if not on_top[member] or len(chosen) == possible:
                break
    return list(chosen)
