"""The four 12-bucket arrays of an attempt: wall ms, CPU ms, virtual and physical kB per twelfth of its progress."""

from __future__ import annotations

from typing import Annotated

import msgspec

from engine.formats import json_text

_ARRAY = msgspec.json.Decoder(list[Annotated[int, msgspec.Meta(ge=-(2**53), le=2**53)]])


def decode(progress: bytes | None) -> tuple[list[int], list[int], list[int], list[int]] | None:
    """Decode a value of column ``progress`` to its four arrays; None where there are none or they are damaged."""
    if not progress:
        return None
    try:
        parts = [_ARRAY.decode(part) if part else [] for part in progress.split(b";")]
    except json_text.ERRORS:
        return None
    return (parts[0], parts[1], parts[2], parts[3]) if len(parts) == 4 else None
