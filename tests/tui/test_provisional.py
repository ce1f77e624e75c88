"""While data come in a provisional result is drawn first, if the final one takes long, and then the final one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from engine.inputs import Inputs
from engine.result import Result
from engine.view import Context
from tests.tui.fakes import FakeParameters, FakeSession, FakeView, Stage, play, stage
from tui import engine_client


class Hasty(FakeView):
    """A view that answers at once where it may."""

    def __init__(self) -> None:
        super().__init__()
        self.quick: list[bool] = []

    def compute(self, inputs: Inputs, parameters: FakeParameters, context: Context) -> Result:
        self.quick.append(context.quick)
        self.seed = inputs.version
        made = super().compute(inputs, parameters, context)
        return replace(made, notes=("being fitted",), provisional=True) if context.quick else made


def test_a_provisional_result_is_drawn_until_the_final_one_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    view = Hasty()
    monkeypatch.setattr(engine_client, "LONG_S", 1e9)

    async def changed(s: Stage, results: int) -> list[str]:
        """The notes of so many results that are drawn after a change."""
        drawn: list[str] = []
        receive = s.app.pane.receive

        async def spy(result: Result) -> None:
            await receive(result)
            drawn.append(result.notes[0])

        s.app.pane.receive = spy  # type: ignore[method-assign]
        s.session.change()
        await s.until(lambda: len(drawn) == results and not s.app.bridge.busy)
        s.app.pane.receive = receive  # type: ignore[method-assign]
        return drawn

    async def story() -> None:
        async with stage(tmp_path, session=FakeSession([view])) as s:
            await s.until(lambda: s.app.bridge.changes == 2 and not s.app.bridge.busy and not s.app.pane.dirty)
            view.quick.clear()
            assert await changed(s, 1) == ["mode plain"], "what did not take long is computed at once"
            monkeypatch.setattr(engine_client, "LONG_S", 0.0)
            assert await changed(s, 2) == ["being fitted", "mode plain"]
            assert view.quick == [False, True, False] and "being fitted" not in s.text()
            s.app.pane.change(limit=20.0)
            await s.until(lambda: len(view.quick) == 4 and not s.app.bridge.busy)
            assert not view.quick[-1], "the operator waits for what was asked for"

    play(story)
