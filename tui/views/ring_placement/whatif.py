"""The what-if panel: the few options that make a scenario, with their effect at once."""

from __future__ import annotations

from tui.screens.parameters import ParametersScreen

FIELDS = (
    "scale", "scale_ids", "tokens", "tenant_shards", "dataset_shards", "home_zone", "capacity", "cores", "cascade",
    "cascade_factor", "regime", "fail", "leaving", "random_size", "draws", "load", "now",
)  # fmt: skip
"""Parameters of the panel, in its order."""


class WhatIf(ParametersScreen):
    """As the options, but only what makes a scenario."""

    heading = "What if"

    def _fill(self) -> None:
        found = {option.field: option for option in self._options}
        self._options = tuple(found[name] for name in FIELDS if name in found)
        super()._fill()
