"""What the screens look like, as text: run with ``--update-goldens`` after a wanted change and read the difference."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.core.reading import Problem
from engine.core.view import NoInput
from tests.tui.fakes import FakeSession, FakeView
from tests.tui.stage import SIZES, Stage, compare, play, settle, stage


async def _many(s: Stage) -> None:
    """As it begins."""


async def _error(s: Stage) -> None:
    s.session.views["fake-view"].error = ValueError("negative\x1b[2J load [/b]")
    s.session.change()
    await s.see("shown is old")


async def _stale(s: Stage) -> None:
    s.session.stale = 2
    s.session.read_problems = (Problem.at("/data/a", "cut-file", "it ends early", line=3),)
    s.session.change()
    await s.see("2 stale")


async def _no_data(s: Stage) -> None:
    s.session.views["fake-view"].error = NoInput("no nodes in 3 files")
    s.session.change()
    await s.see("no nodes in 3 files")


async def _well_again(s: Stage) -> None:
    s.session.views["fake-view"].error = None
    s.session.stale, s.session.read_problems = 0, ()
    s.session.change()
    await s.until(lambda: not any(text in s.text() for text in ("shown is old", "2 stale", "no nodes")))


async def _help(s: Stage) -> None:
    await s.press("question_mark")
    await s.see("Tables")


async def _options(s: Stage) -> None:
    await s.press("o")
    await s.see("CPU above it is severe")


async def _close(s: Stage) -> None:
    await s.press("escape")
    await s.until(lambda: len(s.app.screen_stack) == 1)


async def _filtered(s: Stage) -> None:
    await s.press("slash", *"cpu", "greater_than_sign", *"50", "enter", "s")


STATES = {
    "many": (_many, _many), "error": (_error, _well_again), "stale": (_stale, _well_again),
    "no-data": (_no_data, _well_again), "help": (_help, _close), "options": (_options, _close), "filtered": (_filtered, _many),
}  # fmt: skip
"""Ways into a state of the screen and out of it."""


@pytest.mark.parametrize("size", (SIZES[0], SIZES[-1]), ids=lambda s: f"{s[0]}x{s[1]}")
def test_screens(size: tuple[int, int], tmp_path: Path, update: bool) -> None:
    async def story() -> None:
        async with stage(tmp_path, size, painted=True) as s:
            await s.see("node-000")
            for state, (into, out) in STATES.items():
                await into(s)
                await settle(s)
                compare(f"app-{state}-{size[0]}x{size[1]}", s.text(), update)
                await out(s)

    play(story)


@pytest.mark.parametrize("glyphs", ["ascii", "block"])
def test_other_glyphs(glyphs: str, tmp_path: Path, update: bool) -> None:
    async def story() -> None:
        async with stage(tmp_path, (120, 40), glyphs_set=glyphs) as s:
            await s.see("node-000")
            await settle(s)
            compare(f"app-{glyphs}-120x40", s.text(), update)
            if glyphs == "ascii":
                assert s.text().isascii()

    play(story)


def test_many_tabs_fit_eighty_columns(tmp_path: Path) -> None:
    from engine.views import VIEWS, Entry

    entries = [Entry(f"view-{n}", entry.title, "fake", entry.reads) for n, entry in enumerate(VIEWS)]

    async def story() -> None:
        session = FakeSession([FakeView(entry.name, entry.title) for entry in entries])
        async with stage(tmp_path, (80, 24), session=session, view="view-3", entries=entries) as s:
            await s.see("node-000")
            for number, entry in enumerate(entries, 1):
                await s.press(str(number))
                line = s.text().splitlines()[0]
                assert entry.title in line and all(f"{n} " in line for n in range(1, 6))

    play(story)
