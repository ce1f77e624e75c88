from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tui.textual_internals import notify_outside


def sent(text: str) -> str:
    written: list[str] = []
    app: Any = SimpleNamespace(_driver=SimpleNamespace(write=written.append))
    notify_outside(app, text)
    return "".join(written)


def test_the_notification_holds_no_sequence_of_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TMUX", raising=False)
    assert sent("job a;b severe") == "\x1b]9;job a,b severe\x07"
    inside = sent("node\x1b]52;c;x\x07 \x9b2J" + "y" * 500)[4:-1]
    assert inside.isprintable() and len(inside) == 200
    monkeypatch.setenv("TMUX", "/tmp/x,1,0")
    assert sent("x") == "\x1bPtmux;\x1b\x1b]9;x\x07\x1b\\"
    notify_outside(SimpleNamespace(_driver=None), "x")  # type: ignore[arg-type]
