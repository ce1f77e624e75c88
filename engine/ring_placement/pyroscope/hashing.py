"""Hashes of placement keys: XXH64 (seed 0) of names and label sets, and the jump consistent hash over them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import polars as pl
import xxhash

_FACTOR = np.uint64(2862933555777941757)
"""Multiplier of the jump hash's linear congruential generator."""
_BLOCK = 32768
"""Keys hashed at a time."""


def xxh64(text: str) -> int:
    """Hash the UTF-8 bytes of ``text`` with XXH64, seed 0. Returns an unsigned 64-bit number."""
    return xxhash.xxh64_intdigest(text.encode("utf-8", "surrogatepass"))


def xxh64_each(texts: Iterable[str]) -> np.ndarray:
    """Hash each text as ``xxh64`` does. Returns uint64."""
    return np.array([xxhash.xxh64_intdigest(t.encode("utf-8", "surrogatepass")) for t in texts], dtype=np.uint64)


def xxh64_column(texts: pl.Series) -> np.ndarray:
    """Hash each text of a column without nulls as ``xxh64`` does, from the column's own bytes. Returns uint64."""
    raw = texts.cast(pl.Binary).to_list()
    return np.fromiter(map(xxhash.xxh64_intdigest, raw), dtype=np.uint64, count=len(raw))


def series_fingerprint(labels: Sequence[tuple[str, str]]) -> int:
    """Compute a series fingerprint: XXH64 over name, 0xFF, value, 0xFF of all ``labels`` in the order given (not sorted)."""
    state = xxhash.xxh64()
    for name, value in labels:
        state.update(name.encode("utf-8", "surrogatepass") + b"\xff" + value.encode("utf-8", "surrogatepass") + b"\xff")
    return int(state.intdigest())


def hex16(value: int) -> str:
    """Format a 64-bit hash as 16 hex digits."""
    return f"{value & (2**64 - 1):016x}"


def parse_hash(text: str) -> int | None:
    """Parse a 64-bit hash of up to 16 hex digits, with or without ``0x``. Returns None for other texts."""
    digits = text.strip().lower().removeprefix("0x")
    if not 1 <= len(digits) <= 16 or any(d not in "0123456789abcdef" for d in digits):
        return None
    return int(digits, 16)


def jump(keys: np.ndarray, buckets: np.ndarray | int) -> np.ndarray:
    """Choose a bucket for each of ``keys`` (uint64) out of ``buckets`` (one number, or one per key) by the jump consistent
    hash (Lamping and Veach 2014).

    Returns int64 buckets; -1 without buckets. Works in blocks that stay in the processor's cache and
    drops finished keys after every round.
    """
    out = np.full(len(keys), -1, dtype=np.int64)
    counts = np.broadcast_to(np.asarray(buckets, dtype=np.int64), (len(keys),))
    for start in range(0, len(keys), _BLOCK):
        where = np.flatnonzero(counts[start : start + _BLOCK] > 0) + start
        state, limit = keys[where].astype(np.uint64), counts[where]
        bucket = np.zeros(len(where), dtype=np.int64)
        while len(where):
            out[where] = bucket
            state = state * _FACTOR + np.uint64(1)
            scale = 2147483648.0 / ((state >> np.uint64(33)) + np.uint64(1)).astype(np.float64)
            bucket = ((bucket + 1).astype(np.float64) * scale).astype(np.int64)
            going = np.flatnonzero(bucket < limit)
            where, state, limit, bucket = where[going], state[going], limit[going], bucket[going]
    return out
