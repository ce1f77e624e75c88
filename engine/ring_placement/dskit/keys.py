"""Tokens of keys: the 32-bit number by which a series, a stream or a trace is placed.

Source: ``pkg/mimirpb`` (``ShardByAllLabels``) of Mimir, ``pkg/distributor`` of Loki, ``modules/distributor`` of Tempo: FNV-1
over plain bytes. See ``docs/models/dskit-rings.md``, "Tokens of keys".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import numpy as np

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


_LABEL = re.compile(r'\s*([a-zA-Z_:][a-zA-Z0-9_:.]*)\s*=\s*"((?:[^"\\]|\\.)*)"\s*(?:,|$)', re.DOTALL)
_ESCAPES = {"n": "\n"}


def parse_labels(text: str) -> list[tuple[str, str]]:
    """Parse a series as PromQL writes it, ``name{label="value", ...}`` or ``{...}``. Raises ValueError."""
    name, brace, rest = text.strip().partition("{")
    labels = [("__name__", name.strip())] if name.strip() else []
    if brace and not rest.endswith("}"):
        raise ValueError("a label set without its closing brace")
    inside, at = rest[:-1].rstrip(), 0
    while at < len(inside):
        match = _LABEL.match(inside, at)
        if match is None:
            raise ValueError('a label set is not name="value", ...')
        labels.append((match[1], re.sub(r"\\(.)", lambda m: _ESCAPES.get(m[1], m[1]), match[2])))
        at = match.end()
    return labels


def series_bytes(tenant: str, labels: Iterable[tuple[str, str]], leave_out: frozenset[str] = frozenset()) -> bytes:
    """Return what Mimir hashes of a series: the tenant, then names and values of all labels in order of their names."""
    ordered = sorted((name.encode(), value.encode()) for name, value in labels if name not in leave_out)
    return tenant.encode() + b"".join(name + value for name, value in ordered)


def text_bytes(tenant: str, text: str) -> bytes:
    """Return what is hashed of a metric name (Mimir's metadata) or a canonical stream (Loki): the tenant, then the text."""
    return (tenant + text).encode()


def trace_bytes(tenant: str, trace_id: str) -> bytes:
    """Return what Tempo hashes: the tenant, then the 16 bytes of the trace ID (hexadecimal; a short one is filled up from
    the left). Raises ValueError."""
    return tenant.encode() + bytes.fromhex(trace_id.rjust(32, "0"))
