"""Many keys in one write, as a stalled line delivers them: each one meets the screen it was typed for."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import Any

import pytest
from textual import events

from tests.tui.stage import Stage, play, stage
from tui import actions
from tui.process.type_ahead import TypeAhead
from tui.widgets.prompt import Prompt
from tui.widgets.table.table import LiveTable

NAMES = {
    "/": "slash", ":": "colon", ">": "greater_than_sign", "\r": "enter", "\x1b": "escape", "?": "question_mark",
    "\x7f": "backspace",
}  # fmt: skip


async def burst(s: Stage, keys: list[tuple[str, str]]) -> None:
    """Hand over ``keys`` (name, character) at once; wait until all of them have been handled."""
    waiting = s.app._type_ahead
    for name, character in keys:
        s.app.post_message(events.Key(name, character or None))
    while not (s.app._message_queue.empty() and waiting._task is None):
        assert s.app._exception is None
        await asyncio.sleep(0.005)


def typed(text: str) -> list[tuple[str, str]]:
    return [(NAMES.get(c, c), c if c.isprintable() else "") for c in text]


CASES: list[tuple[str, Any]] = [
    ("//", lambda s: len(s.app.screen.query(Prompt)) == 1),
    (":\r\x1b\x1b" * 3, lambda s: len(s.app.screen_stack) == 1),
    ("?" * 7 + "\x1b" * 9, lambda s: len(s.app.screen_stack) == 1),
    ("/cpu>50\rjj", lambda s: (s.app.focused.choice.filter, s.app.focused.cursor) == ("cpu>50", 2)),
    ("o\x1b/rack 2\r?\x1bj", lambda s: (s.app.focused.choice.filter, s.app.focused.cursor) == ("rack 2", 1)),
]


@pytest.mark.parametrize(("text", "true"), CASES, ids=["prompts", "palette", "help", "filter", "boxes"])
def test_keys_in_one_write_do_what_they_do_one_by_one(text: str, true: Any, tmp_path: Path) -> None:
    async def story() -> None:
        async with stage(tmp_path) as s:
            await burst(s, typed(text))
            await s.until(lambda: true(s), 10)

    play(story)


def test_random_keys_in_one_write_do_no_harm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # an export may be among them
    leaving = {"q", "ctrl+q", "ctrl+c", "ctrl+z"}
    every = [k for action in actions.registry() for k in action.keys if k not in leaving]
    every += ["enter", "escape", "slash", "colon", "tab", "backspace", *"abcdefgh123"]

    async def story() -> None:
        async with stage(tmp_path) as s:
            rnd = random.Random(7)
            await burst(s, [(name, name if len(name) == 1 else "") for name in rnd.choices(every, k=60)])
            await burst(s, typed("\x1b" * 12))
            assert len(s.app.screen_stack) == 1 and not s.app.screen.query(Prompt)
            assert isinstance(s.app.focused, LiveTable)

    play(story)


def test_a_long_text_typed_at_once_is_taken_as_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A paste by a terminal that does not say so must not keep the keys after it waiting."""
    settled, times = TypeAhead._settled, []

    async def counted(self: TypeAhead) -> None:
        times.append(1)
        await settled(self)

    monkeypatch.setattr(TypeAhead, "_settled", counted)

    async def story() -> None:
        async with stage(tmp_path) as s:
            await burst(s, typed("/cpu > 50 " + "x" * 300 + "\x7f" + "\r"))
            await s.until(lambda: not s.app.screen.query(Prompt))
            assert s.app.focused.choice.filter == "cpu > 50 " + "x" * 299
            assert len(times) < 10

    play(story)
