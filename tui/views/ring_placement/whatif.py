"""The what-if panel: the few options that make a scenario, with their effect at once."""

from __future__ import annotations

from tui.screens.parameters import ParametersScreen

FIELDS = (
    "scale", "scale_ids", "tokens", "tenant_shards", "dataset_shards", "home_zone", "capacity", "cores", "cascade",
    "cascade_factor", "regime", "fail", "leaving", "random_size", "draws", "load", "now",
    "strategy", "ring", "replication_factor", "zone_awareness", "operation", "read_operation", "lookback", "safe_loss",
)  # fmt: skip
"""Parameters of the panel, in its order."""


class WhatIf(ParametersScreen):
    """The options screen with only what makes a scenario."""

    heading = "What if"

    def _fill(self) -> None:
        by_field = {option.field: option for option in self._options}
        self._options = tuple(by_field[name] for name in FIELDS if name in by_field)
        super()._fill()
