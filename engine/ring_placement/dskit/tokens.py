"""Tokens of keys (the 32-bit number that places a series, a stream or a trace) and token generators of members.

Sources: ``pkg/mimirpb`` (``ShardByAllLabels``) of Mimir, ``pkg/distributor`` of Loki, ``modules/distributor`` of Tempo: FNV-1
over plain bytes; ``grafana/dskit/ring`` (``spread_minimizing_token_generator.go``, ``token_generator.go``). See
``docs/models/dskit-rings.md``, "Tokens of keys" and "Tokens".
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Iterable, Sequence
from functools import lru_cache

import numpy as np

from engine.ring_placement.dskit.token_ring import SPACE
from engine.ring_placement.pyroscope.prng import GoRand

_OFFSET, _PRIME = 2166136261, 16777619


def fnv1(data: bytes, start: int = _OFFSET) -> int:
    """Compute the 32-bit FNV-1 of ``data``."""
    value = start
    for byte in data:
        value = (value * _PRIME & 0xFFFFFFFF) ^ byte
    return value


def fnv1_each(texts: Sequence[bytes]) -> np.ndarray:
    """Compute FNV-1 of many texts (int64), one byte of all of them at a time."""
    size = np.array([len(text) for text in texts], dtype=np.int64)
    out = np.full(len(texts), _OFFSET, dtype=np.uint32)
    if not len(texts) or not size.max():
        return out.astype(np.int64)
    order = np.argsort(-size, kind="stable")
    data = np.frombuffer(b"".join(texts), dtype=np.uint8)
    start = (np.cumsum(size) - size)[order]
    length, value = size[order], out[order]
    for step in range(int(length[0])):
        open_ = int(np.searchsorted(-length, -step))  # those longer than step come first
        value[:open_] = (value[:open_] * np.uint32(_PRIME)) ^ data[start[:open_] + step]
    out[order] = value
    return out.astype(np.int64)


_LABEL = re.compile(
    r'\s*(?:([a-zA-Z_:][a-zA-Z0-9_:.]*)|"((?:[^"\\]|\\.)*)")\s*(?:=\s*"((?:[^"\\]|\\.)*)"\s*)?(?:,|$)', re.DOTALL
)
_ESCAPES = {"n": "\n"}


def parse_labels(text: str) -> list[tuple[str, str]]:
    """Parse a series as PromQL writes it, ``name{label="value", ...}`` or ``{...}``, where names may be in quotes, and the first
    one without a value is that of the metric. Raises ValueError."""
    name, brace, rest = text.strip().partition("{")
    labels = [("__name__", name.strip())] if name.strip() else []
    if brace and not rest.endswith("}"):
        raise ValueError("a label set without its closing brace")
    inside, at = rest[:-1].rstrip(), 0
    while at < len(inside):
        match = _LABEL.match(inside, at)
        if match is None or (match[3] is None and (match[1] is not None or labels)):
            raise ValueError('a label set is not name="value", ...')
        named, value = match[1] or _unescaped(match[2] or ""), match[3]
        labels.append(("__name__", named) if value is None else (named, _unescaped(value)))
        at = match.end()
    return labels


def _unescaped(text: str) -> str:
    return re.sub(r"\\(.)", lambda match: _ESCAPES.get(match[1], match[1]), text, flags=re.DOTALL)


def series_bytes(tenant: str, labels: Iterable[tuple[str, str]], leave_out: frozenset[str] = frozenset()) -> bytes:
    """Return the bytes that Mimir hashes for a series: the tenant, then names and values of all labels sorted by name."""
    ordered = sorted((name.encode(), value.encode()) for name, value in labels if name not in leave_out)
    return tenant.encode() + b"".join(name + value for name, value in ordered)


def text_bytes(tenant: str, text: str) -> bytes:
    """Return the bytes hashed for a metric name (Mimir's metadata) or a canonical stream (Loki): the tenant, then the text."""
    return (tenant + text).encode()


def trace_bytes(tenant: str, trace_id: str) -> bytes:
    """Return the bytes that Tempo hashes: the tenant, then the 16 bytes of the trace ID (hexadecimal, padded on the left).
    Raises ValueError."""
    return tenant.encode() + bytes.fromhex(trace_id.rjust(32, "0"))


PER_INSTANCE = 512
"""Tokens that the generator makes for each instance; with fewer configured the first ones in order are used."""
MAX_ZONES = 8  # zones that spread-minimizing tokens know: all tokens of zone z are z modulo 8
MAX_INSTANCE = 4096  # largest instance number whose tokens are computed: each needs all smaller ones


class _Zone:
    """Tokens of zone 0, instance by instance. Ranges of each instance lie in a heap, the largest first."""

    def __init__(self) -> None:
        width = SPACE // PER_INSTANCE
        first = [i * width for i in range(PER_INSTANCE)]
        self.tokens = [first]
        ranges = [(-width, -token) for token in first]
        heapq.heapify(ranges)
        self._ranges = [ranges]
        self._owned = [SPACE]

    def add(self) -> None:
        """Compute the tokens of the next instance: each splits the largest range of the instance that owns most."""
        optimal = SPACE / (len(self.tokens) + 1)
        owners = [(-owned, -k) for k, owned in enumerate(self._owned)]
        heapq.heapify(owners)
        own = 0
        ranges: list[tuple[int, int]] = []
        tokens: list[int] = []
        while len(tokens) < PER_INSTANCE:
            want = int(optimal - own) // (PER_INSTANCE - len(tokens))
            want -= want % MAX_ZONES
            owned, k = heapq.heappop(owners)
            size, token = -self._ranges[-k][0][0], -self._ranges[-k][0][1]
            if size <= want:
                continue  # not used again for this instance
            heapq.heappop(self._ranges[-k])
            new, taken = _split(token, size, want)
            heapq.heappush(self._ranges[-k], (taken - size, -token))
            heapq.heappush(owners, (owned + taken, k))
            self._owned[-k] -= taken
            heapq.heappush(ranges, (-taken, -new))
            tokens.append(new)
            own += taken
        self._ranges.append(ranges)
        self._owned.append(own)
        self.tokens.append(sorted(tokens))


def _split(token: int, size: int, want: int) -> tuple[int, int]:
    """Return the token that takes the first ``want`` keys of the range of ``size`` that ends in ``token``, and the number of
    keys that it takes: 8 more where it wraps."""
    previous = (token - size) % SPACE
    room = SPACE - MAX_ZONES - previous
    new = previous + want if room >= want else want - room
    return new, (new - previous) % SPACE


@lru_cache(maxsize=1)
def _zone() -> _Zone:
    return _Zone()


def spread_minimizing_tokens(zone: int, instance: int, count: int = PER_INSTANCE) -> np.ndarray:
    """Compute the first ``count`` tokens (int64, sorted) of instance number ``instance`` in zone number ``zone`` (0 to 7)."""
    known = _zone()
    while len(known.tokens) <= instance:
        known.add()
    return np.array(known.tokens[instance][:count], dtype=np.int64) + zone


def random_tokens(seed: int, count: int) -> np.ndarray:
    """Draw ``count`` distinct random tokens (int64, sorted)."""
    out: set[int] = set()
    generator = GoRand(seed)
    while len(out) < count:
        for value in ((generator.uint64s(count) & np.uint64(2**63 - 1)) >> np.uint64(31)).tolist():
            if len(out) < count:
                out.add(value)
    return np.array(sorted(out), dtype=np.int64)
