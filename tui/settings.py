"""The sections of the settings file that belong to no view, and loading the file with them. Free of Polars and Textual."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import msgspec

from engine import views
from engine.core.parameters import Parameters, option
from engine.core.reading import Problem
from engine.findings.notify import NotifySettings, Threshold
from engine.live.options import LiveSettings
from engine.own_files import settings
from engine.own_files.settings import Settings


class UiSettings(Parameters, frozen=True, kw_only=True):
    """Section ``[ui]``: how the dashboard looks and behaves."""

    theme: Annotated[
        str, option("Colour theme; auto picks dark, or the terminal's own 16 colours where it has no more")
    ] = "auto"
    glyphs: Annotated[
        str,
        option("Characters for plots and bars; auto picks by locale", choices=("auto", "braille", "block", "ascii")),
    ] = "auto"
    mouse: Annotated[
        str,
        option(
            "Mouse capture; auto is off over SSH, where it costs bytes and blocks selection",
            choices=("auto", "on", "off"),
        ),
    ] = "auto"
    frames_per_second: Annotated[
        int, option("Most redraws in a second; 0 picks 15 locally and 4 over SSH", unit="1/s", low=0, high=60)
    ] = 0
    tab: Annotated[str, option("View shown first; empty is the last one used, or the first with data")] = ""
    time_zone: Annotated[str, option("Time zone of shown times: local or UTC", choices=("local", "UTC"))] = "local"


SECTIONS: Mapping[str, type[Parameters]] = {"ui": UiSettings, "live": LiveSettings, "notify": NotifySettings}
"""Sections of the settings file besides those of the views, and ``keys``."""


def load(path: Path | None) -> Settings:
    """Read the settings file (``path``, or the usual place), with a problem for each rule of ``[notify]`` that is unclear."""
    loaded = settings.load(path, SECTIONS, tuple(entry.name for entry in views.VIEWS))
    complaints = Threshold(loaded.of(NotifySettings)).complaints
    problems = (Problem.at(str(loaded.path), "settings", complaint) for complaint in complaints)
    return msgspec.structs.replace(loaded, problems=(*loaded.problems, *problems))
