"""Draws README's pictures from the sample data: ``python docs/pictures.py`` (from the root of the repository)."""

from __future__ import annotations

import asyncio
import importlib
import os
import re
import sys
import tempfile
from pathlib import Path

os.environ.update(COLORTERM="truecolor", TERM="xterm-256color", TEXTUAL_ANIMATIONS="none", TZ="UTC")
HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

KEYS = {
    "broker-load": ("down", "space"),
    "job-heuristics": ("down", "down"),
    "ring-placement": ("down", "space"),
}
"""Keys pressed before the picture of a view is taken; of any other view, ``down``."""


async def draw(view: str, keys: tuple[str, ...], folder: Path) -> str:
    """One view at 132 x 36 on its sample data, as SVG without links to fonts on the web."""
    import msgspec

    from engine.settings import Settings, State
    from tui.app import Dashboard

    steps = importlib.import_module(f"sample_data.{view.replace('-', '_')}.live").steps(folder)
    for _ in range(4):
        next(steps)
    plain = Settings(folder / "none.toml")
    settings = Settings(plain.path, ui=msgspec.structs.replace(plain.ui, theme="dark"))
    app = Dashboard([folder], settings, view=view, state=State(folder / "state.toml"))
    async with app.run_test(size=(132, 36)) as pilot:
        while app.pane is None or app.pane.result is None:
            await pilot.pause(0.05)
        await pilot.pause(1.0)
        newest = app.pane.result.newest_ms
        app.status.clock = lambda: (newest or 0) / 1000 + 2  # drawn again, an equal screen is an equal picture
        for key in keys:
            await pilot.press(key)
            await pilot.pause(1.0)
        app.update_status()
        await pilot.pause(0.2)
        text = app.export_screenshot(title=f"loadlens: {view}")
    return re.sub(r"@font-face\s*\{.*?\}", "", text, flags=re.S)


def main() -> None:
    """Draw all of them."""
    from engine.views import VIEWS

    for entry in VIEWS:
        view, keys = entry.name, KEYS.get(entry.name, ("down",))
        with tempfile.TemporaryDirectory() as folder:
            (HERE / f"{view}.svg").write_text(asyncio.run(draw(view, keys, Path(folder))), encoding="utf-8")


if __name__ == "__main__":
    main()
    os._exit(0)  # threads of five sessions may still compute; taking the interpreter down under them can crash
