"""A running dashboard for tests: how it is started, waited for, read and compared."""

from __future__ import annotations

import asyncio
import atexit
import os
import shutil
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import (
    AbstractContextManager,
    AsyncExitStack,
    ExitStack,
    asynccontextmanager,
    contextmanager,
    nullcontext,
)
from functools import lru_cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

import msgspec
from rich.cells import cell_len
from textual._compositor import Compositor
from textual.app import App
from textual.css.model import RuleSet
from textual.css.stylesheet import Stylesheet
from textual.pilot import Pilot

from engine.live.session import Session
from engine.live.status import RootStatus, Status
from engine.own_files.settings import Settings, State
from engine.views import Entry, entry
from tests.contract.samples import QUIET
from tests.tui.fakes import ENTRIES, NOW, FakeSession, FakeView
from tui.app import Dashboard, TableChoices
from tui.settings import UiSettings
from tui.widgets.table.table import LiveTable

GOLDENS = Path(__file__).parent / "goldens"
SIZES = ((80, 24), (120, 40), (200, 50))


class Stage:
    """A running dashboard on a fake session, with waits and readings of its screen."""

    def __init__(self, app: Dashboard, session: FakeSession, pilot: Pilot[None]) -> None:
        self.app = app
        self.session = session
        self.pilot = pilot

    async def until(self, true: Callable[[], Any], seconds: float = 30.0) -> None:
        """Wait until ``true()``; fails after ``seconds``."""
        end, pause = time.monotonic() + seconds, 0.01
        while not true():
            if time.monotonic() > end or self.app._exception is not None:
                raise AssertionError("never came true; the screen:\n" + self.text())
            await asyncio.sleep(pause)  # not pilot.pause: its message to each widget takes longer than most answers
            pause = min(1.5 * pause, 0.2)  # to look at the whole screen takes a while
        await self.pilot.pause()

    def drawn(self) -> bool:
        """Return whether the shown tab has a result and its visible tables have their columns."""
        pane = self.app.pane
        if pane is None or pane.result is None:
            return False
        tables = [table for table in pane.query(LiveTable) if table._frame is not None]
        visible = [table for table in tables if all(node.display for node in table.ancestors_with_self)]
        drawn = all(table._layout.slots for table in visible)
        if not drawn:
            self.text()  # no frames are painted, and painting gives columns to what had no size when its rows came
        return drawn

    async def choose(self, name: str) -> None:
        """Run the action ``name`` as the palette does."""
        await self.app.boxes.run_from(self.app.focused, self.app.actions_by_id[name])
        await self.press()

    async def press(self, *keys: str) -> None:
        """Press keys and let everything settle."""
        await self.app._press_keys(keys)  # pilot.press sends every widget a message, and pause sends it again
        await self.pilot.pause()

    async def resize(self, width: int, height: int) -> None:
        """Give the terminal another size and wait until the screen has it."""
        await self.pilot.resize_terminal(width, height)
        await self.until(lambda: self.app.screen._compositor.size == (width, height))

    def text(self) -> str:
        """Return what is on screen."""
        return "\n".join(screen_lines(self.app))

    async def see(self, text: str) -> None:
        """Wait until ``text`` is on screen."""
        await self.until(lambda: text in self.text())


def screen_lines(app: App[Any]) -> list[str]:
    """Return the screen as lines of text without trailing spaces, read from Textual's compositor."""
    return ["".join(segment.text for segment in strip).rstrip() for strip in app.screen._compositor.render_strips()]


def screen_styles(app: App[Any]) -> list[str]:
    """Return one letter per cell: equal styles have equal letters, in order of appearance."""
    letters: dict[Any, str] = {}
    out = []
    for strip in app.screen._compositor.render_strips():
        line = ""
        for text, style, _ in strip:
            key = (style.color, style.bgcolor, style.bold, style.reverse) if style else None
            line += letters.setdefault(key, chr(ord("a") + len(letters) % 26)) * cell_len(text)
        out.append(line)
    return out


def unseen() -> AbstractContextManager[Any]:
    """Paint no frames meanwhile. What a test looks at, ``screen_lines`` draws."""
    return patch.object(Compositor, "render_update", lambda compositor, *_, **__: compositor._dirty_regions.clear())


RuleSet.__hash__ = object.__hash__  # the same number, without a call: it is asked for a thousand times for each widget

_PARSED: dict[tuple[Any, ...], list[RuleSet]] = {}


def parsed_once() -> AbstractContextManager[Any]:
    """Parse each style sheet once for all apps with the same colours meanwhile: a sixth of the time of an app's start."""
    parse = Stylesheet._parse_rules

    def rules(sheet: Stylesheet, css: str, read_from: Any, **more: Any) -> list[RuleSet]:
        key = (css, read_from, *more.values(), *sheet._variables.values())
        if key not in _PARSED:
            _PARSED[key] = parse(sheet, css, read_from, **more)
        return _PARSED[key]

    return patch.object(Stylesheet, "_parse_rules", rules)


async def _all_wait(pilot: Pilot[Any], timeout: float = 30.0) -> bool:
    """Wait until every widget on screen waits for its next message; Textual sends each of them one more to find out."""
    end = time.monotonic() + timeout
    app = pilot.app
    while app._exception is None and time.monotonic() < end:
        pumps = (app, *app.screen.walk_children(with_self=True))
        queues = [pump._message_queue for pump in pumps if pump.is_running]
        if all(queue.empty() and queue.ready_event._waiters for queue in queues):
            return True
        await asyncio.sleep(0.001)
    return False


async def _threads_rest(min_sleep: float = 0, max_sleep: float = 1) -> None:
    """Wait until no thread computes; looks four times as often as Textual does."""
    end = time.monotonic() + max_sleep
    busy = True
    while busy and time.monotonic() < end:
        spent = time.process_time()
        await asyncio.sleep(0.005)
        busy = time.process_time() - spent > 0.0005


async def _pause(pilot: Pilot[Any], delay: float | None = None) -> None:
    """Wait until nothing happens any more, then draw what is due and wait for what follows from it."""
    await _all_wait(pilot)
    await (_threads_rest() if delay is None else asyncio.sleep(delay))
    pilot.app.screen._on_timer_update()
    await _all_wait(pilot)


@contextmanager
def quick_waits() -> Iterator[None]:
    """Wait for the screen with fewer messages and shorter sleeps: half of the time of most screen tests was waiting."""
    with ExitStack() as patches:
        for name, wait in (("_wait_for_screen", _all_wait), ("pause", _pause)):
            patches.enter_context(patch.object(Pilot, name, wait))
        patches.enter_context(patch("textual.app.wait_for_idle", _threads_rest))
        yield


@asynccontextmanager
async def stage(
    tmp_path: Path,
    size: tuple[int, int] = (80, 24),
    views: Mapping[str, FakeView] | None = None,
    *,
    painted: bool = False,
    session: FakeSession | None = None,
    view: str | None = "fake-view",
    entries: Sequence[Entry] = ENTRIES,
    ready: bool = True,
    failed: Mapping[str, str] | None = None,
    **ui: Any,
) -> Any:
    """Run the dashboard on fake views; wait for the first result unless ``ready`` is False.

    ``painted``: also send frames to the terminal, of which there is none: a third of the time of all screen tests.
    """
    made = session or FakeSession(list(views.values()) if views else [FakeView("first-view", "First view"), FakeView()])
    keys = ui.pop("keys", {})
    glyphs = ui.pop("glyphs_set", "braille")
    theme = ui.pop("theme", "dark")
    settings = Settings(tmp_path / "config.toml", (UiSettings(glyphs=glyphs, theme=theme, **ui),), keys)
    app = Dashboard(
        [Path("/data")],
        settings,
        view=view,
        opener=lambda roots, _settings, _first: (made, made.views, failed or {}),
        entries=tuple(entries),
        state=State(tmp_path / "state.toml"),
        clock=lambda: NOW,
    )
    app.theme = f"loadlens-{theme}" if theme in ("dark", "light") else theme  # whatever the terminal of the tests
    with parsed_once(), quick_waits(), nullcontext() if painted else unseen():
        async with app.run_test(size=size, notifications=True) as pilot:
            running = Stage(app, made, pilot)
            if ready:
                await running.until(running.drawn)  # with all imports
            yield running


def still(root: Path, seconds: float = 40) -> None:
    """Give all files below ``root`` one age, so that the status line does not depend on the day."""
    for path in root.rglob("*"):
        if path.is_file():
            os.utime(path, (NOW - seconds, NOW - seconds))


class ReadOnce(Session):
    """A real session over files that no test changes: read once for the apps of many tests, and not watched."""

    def scan(self, **choices: Any) -> frozenset[str]:
        if not super().status.scans:
            super().scan(**choices)
        while super().status.reading:  # another process reads what a look does not wait for
            time.sleep(0.01)
            self.look(set())
        return frozenset(self.views)

    def watch(self, changed: Callable[[frozenset[str]], None], stop: threading.Event) -> None:
        stop.wait()

    @property
    def status(self) -> Status:
        known = super().status
        return msgspec.structs.replace(known, roots=tuple(RootStatus(root.path, "events") for root in known.roots))


def session_over(root: Path, view: Any, made: type[Session] = Session) -> Session:
    """A session of one view on ``root``, without the cache of whoever runs the tests."""
    return made([root], [view], settings=QUIET, now_ms=lambda: int(NOW * 1000), strict=True)


@lru_cache
def copied(files: Path, seconds: float = 60) -> Path:
    """The one copy of a folder of sample files for all tests that change none of them, its files of one age."""
    folder = tempfile.TemporaryDirectory(prefix="loadlens-")
    atexit.register(folder.cleanup)
    root = Path(shutil.copytree(files, Path(folder.name) / "data"))
    still(root, seconds)
    return root


@lru_cache(4)
def read_once(root: Path, view: Any) -> Session:
    """The one session of one view on ``root`` for all tests that change no file there."""
    return session_over(root, view, ReadOnce)


class Kept:
    """The one dashboard that goes on running from test to test, as long as they look at the same files."""

    def __init__(self) -> None:
        self.runner = asyncio.Runner()
        self.shows: tuple[Path, str] | None = None
        self._stage: Stage | None = None
        self._open = AsyncExitStack()

    async def stage(self, root: Path, view: Any, tmp_path: Path, size: tuple[int, int]) -> Stage:
        """Return the dashboard with the tab of ``view`` alone over ``root``, in the state in which a start leaves it."""
        if self._stage is not None and self.shows == (root, view.name) and self._stage.app.is_running:
            await as_started(self._stage, tmp_path, size)
            return self._stage
        await self.end_dashboard()
        self._stage = await self._open.enter_async_context(
            stage(tmp_path, size, session=read_once(root, view), view=view.name, entries=(entry(view.name),))
        )
        self.shows = root, view.name
        return self._stage

    async def end_dashboard(self) -> None:
        """End the dashboard; the next test gets another one."""
        self.shows = self._stage = None
        await self._open.aclose()

    def close(self) -> None:
        """End the dashboard and the event loop."""
        self.runner.run(self.end_dashboard())
        self.runner.close()


@lru_cache(1)
def kept() -> Kept:
    """The dashboard and the event loop of the tests of one module."""
    return Kept()


def end_module() -> None:
    """End what was kept for the tests of a module."""
    if kept.cache_info().currsize:
        kept().close()
        kept.cache_clear()


async def as_started(s: Stage, tmp_path: Path, size: tuple[int, int]) -> None:
    """Close all boxes, forget what was chosen, and make the shown tab's pane again."""
    app, name = s.app, s.app.tabs.shown
    while len(app.screen_stack) > 1:
        await app.pop_screen()
    app.clear_notifications()
    app.client.resume()
    app.state = State(tmp_path / "state.toml")
    app._choices = TableChoices(app.state)
    app.theme = "loadlens-dark"
    app.screen.maximized = None
    await app.tabs.panes.pop(name).remove()
    await s.resize(*size)
    await app.show_tab(0, chosen=False)
    await s.until(s.drawn)


@asynccontextmanager
async def opened(
    root: Path, view: Any, tmp_path: Path, size: tuple[int, int] = (120, 40), *, once: bool = False, **ui: Any
) -> AsyncIterator[Stage]:
    """Run the dashboard with the tab of ``view`` alone, on a real session over ``root``; wait for its first result.

    ``once``: no test changes the files: they are read only once, and unless there are other choices (``ui``) the
    dashboard of the test before goes on, with a new pane.
    """
    if once and not ui:
        running = await kept().stage(root, view, tmp_path, size)
        try:
            yield running
        except BaseException:
            await kept().end_dashboard()
            raise
        return
    session: Any = read_once(root, view) if once else session_over(root, view)
    async with stage(tmp_path, size, session=session, view=view.name, entries=(entry(view.name),), **ui) as own:
        yield own


def compare(name: str, text: str, update: bool) -> None:
    """Compare ``text`` with the golden ``name``; write it with ``update``, and write ``actual/`` on a difference."""
    path = GOLDENS / f"{name}.txt"
    text = "\n".join(line.rstrip() for line in text.splitlines()).rstrip("\n") + "\n"
    if update:
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return
    assert path.exists(), f"no golden {name}: run with --update-goldens and read it"
    wanted = path.read_text(encoding="utf-8")
    if wanted != text:
        actual = GOLDENS / "actual" / path.name
        actual.parent.mkdir(exist_ok=True)
        actual.write_text(text, encoding="utf-8")
    assert text == wanted


async def settle(s: Stage) -> None:
    """Wait until nothing is computed any more and no notification is on screen."""
    await s.until(lambda: not s.app.client.busy)
    s.app.clear_notifications()
    await s.pilot.pause(0.05)
    s.app.update_status()
    await s.pilot.pause()


async def walk(s: Stage, level: Any, words: Mapping[str, str], *sizes: tuple[int, int]) -> None:
    """Show each section of an opened level, which must hold its words, in some sizes; go back."""
    for size in sizes:
        await s.resize(*size)
        for name, expected in words.items():
            level.choose(name)
            await s.until(lambda expected=expected: expected in s.text(), 10)
    await s.press("escape")
    await s.pilot.pause()


def play(story: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run an async test on the event loop of its module."""
    kept().runner.run(story())
