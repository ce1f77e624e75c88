from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from engine.core.view import Finding, Headline, Result
from engine.findings.events import changes
from engine.findings.last_look import KEPT, PLACES, LastLooks
from engine.own_files.settings import State


def result(*findings: Finding, latest: str = "", level: Any = "ok") -> Result:
    return Result("v", {}, {}, (Headline("nodes", "4", level=level),), findings, latest=latest)


def seen_again(tmp_path: Path, first: Result, second: Result, parameters: str = "p") -> list[tuple[str, str]]:
    """Look at ``first``, leave, come back to ``second``: what changed meanwhile."""
    state = State(tmp_path / "state.toml")
    looks = LastLooks(state, ["/data"])
    looks.note(first, "p", 1000)
    looks.save()
    assert state.save()
    later = LastLooks(State(tmp_path / "state.toml"), ["/data"])
    found = later.before("v", parameters)
    if found is None:
        return []
    assert found[0] == 1000 and later.before("v", parameters) is None, "once"
    return [(event.change, event.subject) for event in changes(found[1], second, 2000)]


def test_what_changed_since_an_earlier_run(tmp_path: Path) -> None:
    before = result(
        Finding("severe", "a", "1"), Finding("low", "b\x1b[2J ü", "2"), Finding("ok", "fine", ""), latest="run 1"
    )
    after = result(Finding("critical", "a", "3"), Finding("moderate", "c", "4"), level="severe", latest="run 2")
    assert seen_again(tmp_path, before, after) == [
        ("worse", "a"), ("worse", "nodes"), ("new", "c"), ("gone", "b\x1b[2J ü"),
    ]  # fmt: skip
    assert seen_again(tmp_path, before, before) == []
    assert seen_again(tmp_path, before, after, parameters="others") == []


def test_it_is_bounded_and_what_is_left_out_is_neither_new_nor_gone(tmp_path: Path) -> None:
    many = [Finding("severe", f"s{n}", "") for n in range(KEPT + 50)]
    assert seen_again(tmp_path, result(*many), result(*reversed(many))) == []
    assert seen_again(tmp_path, result(*many), result(*many[:-1])) == [("better", "findings")]
    state = State(tmp_path / "state.toml")
    for number in range(PLACES + 5):
        looks = LastLooks(state, [f"/{number}"])
        looks.note(result(), "p", number)
        looks.save()
    assert len(state.get("looks")) == PLACES
    assert LastLooks(state, [f"/{PLACES + 4}"]).before("v", "p") is not None
    assert LastLooks(state, ["/0"]).before("v", "p") is None


@pytest.mark.parametrize("broken", [5, {"v": 1}, {"v": {"parameters": "x"}}, {"v": {"findings": [["severe"]]}}])
def test_an_edited_state_file_is_no_look(broken: Any, tmp_path: Path) -> None:
    state = State(tmp_path / "state.toml")
    looks = LastLooks(state, ["/data"])
    looks.note(result(), "p", 1)
    looks.save()
    place = next(iter(state.get("looks")))
    if isinstance(broken, dict) and isinstance(broken.get("v"), dict):
        broken = {"v": {**state.get("looks", place, "views", "v"), **broken["v"]}}
    state.set("looks", place, "views", value=broken)
    again = LastLooks(state, ["/data"])
    assert again.before("v", "p") is None
    again.save()
