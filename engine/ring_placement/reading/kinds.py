"""What ring placement reads: all file kinds, the most certain recognition first."""

from __future__ import annotations

from typing import Any

from engine.ring_placement.reading.bucket_files import Blocks, PlacementRules, PlacementStats
from engine.ring_placement.reading.load_table import LoadTable
from engine.ring_placement.reading.metric_files import Metrics
from engine.ring_placement.reading.overrides import Overrides
from engine.ring_placement.reading.ring_files import Memberlist, MemberlistBinary, RingPage

KINDS: tuple[Any, ...] = (
    RingPage(),
    Memberlist(),
    PlacementRules(),
    PlacementStats(),
    Blocks(),
    LoadTable(),
    Overrides(),
    Metrics(),
    MemberlistBinary(),
)
"""Every reader of this view (``engine.reading.FileKind``)."""
