from __future__ import annotations

import pytest

from engine.core.view import Headline
from tui.glyphs import BRAILLE
from tui.widgets.drawing.fragments import plain
from tui.widgets.status import HeadlineBar


def test_a_bad_number_is_not_left_out_for_a_fine_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(HeadlineBar, "glyphs", BRAILLE)
    bar = HeadlineBar()
    bar.numbers = (
        Headline("nodes", "9 up"), Headline("spare", "12 GB of 400 GB", level="ok"), Headline("queues", "3", level="ok"),
        Headline("one loss", "4 of 9 fatal", level="severe"),
    )  # fmt: skip
    shown = {width: plain(bar.paint(width, 1)[0]).split("  ")[:-1] for width in (80, 46, 36, 12)}
    assert [text.split(" ")[0] for text in shown[80]] == ["nodes", "spare", "queues", "one"]
    assert [text.split(" ")[0] for text in shown[46]] == ["nodes", "queues", "one"], "what fits, in its order"
    assert [text.split(" ")[0] for text in shown[36]] == ["nodes", "one"]
    assert shown[12] == ["nodes 9 up"]
