"""Blank lines of a printed answer: a file may have millions of them."""

from __future__ import annotations

from typing import Any

import pytest

from engine.broker_load.reading import cruise_control_answers
from engine.core.reading import Source

ANSWER = (
    "PARTITION LEADER FOLLOWERS CPU (%_CORES) DISK (MB) NW_IN (KB/s) NW_OUT (KB/s) MSG_IN (#/s)\n"
    "orders-3 7 [8] 1.0 10.0 2.0 3.0 4.0\n"
)


def test_blank_lines_are_matched_with_no_pattern(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    table = cruise_control_answers._read_table

    def noted(rows: Any, title: str, *rest: Any) -> bool:
        asked.append(title)
        return table(rows, title, *rest)

    monkeypatch.setattr(cruise_control_answers, "_read_table", noted)
    kind = cruise_control_answers.CruiseControlText()

    def rows(text: str) -> dict[str, Any]:
        return kind.read(Source("/in/a.txt", "a.txt", 0, len(text)), text.encode(), None, True).rows

    assert rows("\n \n\t\n" * 50 + ANSWER + "\n" * 50) == rows(ANSWER)
    assert asked == [ANSWER.split("\n")[0]] * 2
