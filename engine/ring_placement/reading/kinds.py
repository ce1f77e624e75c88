"""All file kinds of ring placement, the most certain recognition first."""

from __future__ import annotations

from typing import Any

from engine.ring_placement.reading.bucket_files import Blocks, PlacementRules, PlacementStats
from engine.ring_placement.reading.configuration import Configuration
from engine.ring_placement.reading.load_table import KeyTable, LoadTable
from engine.ring_placement.reading.metric_files import Metrics
from engine.ring_placement.reading.partition_files import PartitionBinary, PartitionPage
from engine.ring_placement.reading.ring_exports import RingHtml, StoreExport
from engine.ring_placement.reading.ring_files import Memberlist, MemberlistBinary, RingPage

KINDS: tuple[Any, ...] = (
    RingPage(),
    Memberlist(),
    PartitionPage(),
    RingHtml(),
    StoreExport(),
    PlacementRules(),
    PlacementStats(),
    Blocks(),
    LoadTable(),
    KeyTable(),
    Configuration(),
    Metrics(),
    PartitionBinary(),
    MemberlistBinary(),
)
"""Every reader of this view (``engine.core.reading.FileKind``)."""
