"""Ring placement: which writer holds which tenant's data, how even the load is, and what a failure does to the others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from engine.inputs import Inputs
from engine.result import Level, Result
from engine.ring_placement import tables
from engine.ring_placement.compute import compute
from engine.ring_placement.parameters import RingParameters
from engine.ring_placement.reading.kinds import KINDS
from engine.view import Context


class RingPlacement:
    """The view."""

    name = "ring-placement"
    title = "Ring placement"
    kinds: Sequence[Any] = KINDS
    parameters = RingParameters
    tables = tables.RESULTS
    fail_on: Level = "severe"

    def compute(self, inputs: Inputs, parameters: RingParameters, context: Context) -> Result:
        """Placement, load and scenario from the newest files; see ``engine.ring_placement.compute``."""
        return compute(inputs, parameters, context)

    def upstream(self, result: Result, parameters: Any) -> str | None:
        """Pyroscope prints nothing of this."""
        return None


VIEW = RingPlacement()
