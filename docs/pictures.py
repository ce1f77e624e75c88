"""Draws README's pictures and its tour from the sample data: ``python docs/pictures.py`` (from the root of the repository)."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import os
import re
import sys
import tempfile
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from textual.pilot import Pilot

    from tui.app import Dashboard

os.environ.update(COLORTERM="truecolor", TERM="xterm-256color", TEXTUAL_ANIMATIONS="none", TZ="UTC")
HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

SIZE = (132, 36)
KEYS = {"broker-load": ("down", "space"), "job-heuristics": (), "ring-placement": ("down", "space")}
"""Keys pressed before the picture of a view is taken; of any other view, ``down``."""

TOUR = (
    ("All views at once", ("0",)),
    ("Where does the load come from?", ("1",)),
    ("What happens if this broker dies?", ("space", "enter")),
    ("Which jobs waste, why, and what to set", ("2",)),
    ("One job in full", ("enter",)),
    ("Which queries use the CPU?", ("3",)),
    ("Did anything get worse?", ("4",)),
    ("Who takes over if a node is gone?", ("5", "down", "space", "A")),
)
"""The scenes of the tour: title, and the keys that lead there from the scene before."""
TOUR_SIZE = (80, 24)
SCENE_S = 4
"""Seconds that a scene stays."""


@contextlib.asynccontextmanager
async def dashboard(folder: Path, view: str, size: tuple[int, int]) -> AsyncIterator[tuple[Dashboard, Pilot[None]]]:
    """Run the dashboard on ``folder``; its clock stands two seconds behind the newest data once there is a result."""
    from engine.live.options import LiveSettings
    from engine.own_files.settings import Settings, State
    from tui.app import Dashboard
    from tui.settings import UiSettings

    settings = Settings(folder / "none.toml", (UiSettings(theme="dark"), LiveSettings(cache=False)))
    app = Dashboard([folder], settings, view=view, state=State(folder / "state.toml"))
    async with app.run_test(size=size) as pilot:
        yield app, pilot


async def settled(app: Dashboard, pilot: Pilot[None]) -> None:
    """Wait until the requested result is on screen without notifications."""
    while app.client.wanted or (app.pane is not None and app.pane.result is None):
        await pilot.pause(0.05)
    await pilot.pause(0.5)
    app.clear_notifications()
    newest = app.pane.result.newest_ms if app.pane is not None and app.pane.result is not None else None
    if newest is not None:
        app.status.clock = lambda: newest / 1000 + 2  # so that equal screens give equal pictures
    app.update_status()
    await pilot.pause(0.2)


def picture(app: Dashboard, title: str) -> str:
    """Return the screen as SVG without links to fonts on the web."""
    return re.sub(r"@font-face\s*\{.*?\}", "", app.export_screenshot(title=f"loadlens: {title}"), flags=re.S)


def feed(view: str, folder: Path) -> None:
    """Write the sample data of a view and play some changes."""
    folder.mkdir(exist_ok=True)
    steps = importlib.import_module(f"sample_data.{view.replace('-', '_')}.live").steps(folder)
    for _ in range(4):
        next(steps)


async def draw(view: str, keys: tuple[str, ...], folder: Path) -> str:
    """Draw one view on its sample data."""
    feed(view, folder)
    async with dashboard(folder, view, SIZE) as (app, pilot):
        await settled(app, pilot)
        for key in keys:
            await pilot.press(key)
            await settled(app, pilot)
        return picture(app, view)


async def tour(views: Sequence[str], folder: Path) -> str:
    """Draw the scenes of the tour over the sample data of all views, as one SVG that shows them one after the other."""
    for view in views:
        feed(view, folder / view)
    scenes = []
    async with dashboard(folder, "overview", TOUR_SIZE) as (app, pilot):
        while any(row.brief is None for row in app.overview.rows.values()):
            await pilot.pause(0.1)
        for title, keys in TOUR:
            for key in keys:
                await pilot.press(key)
                await settled(app, pilot)
            scenes.append(picture(app, title))
    return animated(scenes)


def animated(scenes: Sequence[str]) -> str:
    """Put pictures of one size on top of each other, each visible for ``SCENE_S`` seconds in turn."""
    box = re.search(r'viewBox="([^"]*)"', scenes[0])
    assert box is not None
    length, share = SCENE_S * len(scenes), 100 / len(scenes)
    style = (
        f".scene{{visibility:hidden;animation:scene {length}s steps(1,end) infinite}}"
        f"@keyframes scene{{0%{{visibility:visible}}{share:g}%,100%{{visibility:hidden}}}}"
    )
    parts = [
        f'<g class="scene" style="animation-delay:{SCENE_S * place}s">{scene}</g>' for place, scene in enumerate(scenes)
    ]
    return f'<svg viewBox="{box[1]}" xmlns="http://www.w3.org/2000/svg"><style>{style}</style>{"".join(parts)}</svg>\n'


def main() -> None:
    """Draw all pictures and the tour."""
    from engine.views import VIEWS

    names = [entry.name for entry in VIEWS]
    with tempfile.TemporaryDirectory() as folder:
        (HERE / "tour.svg").write_text(asyncio.run(tour(names, Path(folder))), encoding="utf-8")
    for view in names:
        with tempfile.TemporaryDirectory() as folder:
            drawn = asyncio.run(draw(view, KEYS.get(view, ("down",)), Path(folder)))
        (HERE / f"{view}.svg").write_text(drawn, encoding="utf-8")


if __name__ == "__main__":
    main()
    os._exit(0)  # threads of five sessions may still compute, and an ordinary exit could crash them
