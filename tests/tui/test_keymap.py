"""The user's keys: valid entries are taken, others are reported, and there is always a key to quit."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tui.stage import play, stage
from tui import actions, keymap
from tui.keymap import check, key_name


def test_good_entries_are_taken() -> None:
    taken, complaints = check({"table.reverse": ["ctrl+t", "f7"], "app.help": ["H"]}, actions.SHARED)
    assert taken == {"table.reverse": ("ctrl+t", "f7"), "app.help": ("H",)} and complaints == ()


@pytest.mark.parametrize(
    ("wanted", "says"),
    [
        ({"table.revers": ["x"]}, "did you mean 'table.reverse'"),
        ({"table.reverse": ["hyper+x"]}, "no key 'hyper+x'"),
        ({"table.reverse": ["ctrl+c"]}, "always quits"),
        ({"table.reverse": ["s"]}, "already is"),
        ({"table.sort": ["q"]}, "already is"),
        ({"app.quit": []}, "at least one key must quit"),
        ({"app.pause": ["x"], "app.log": ["x"]}, "already is"),
    ],
)
def test_bad_entries_are_said_and_defaults_stand(wanted, says: str) -> None:
    taken, complaints = check(wanted, actions.SHARED)
    assert any(says in text for text in complaints), complaints
    after = keymap.remapped(actions.SHARED, taken)
    assert any("ctrl+c" in action.keys for action in after if action.id == "app.quit")


def test_swapping_two_keys_works() -> None:
    taken, complaints = check({"table.sort": ["r"], "table.reverse": ["s"]}, actions.SHARED)
    assert complaints == () and taken["table.sort"] == ("r",)


def test_quit_keeps_its_reserved_keys() -> None:
    taken, _ = check({"app.quit": ["x"]}, actions.SHARED)
    assert set(taken["app.quit"]) == {"x", "ctrl+c", "ctrl+q"}


ids = st.sampled_from([action.id for action in actions.SHARED] + ["nonsense"])
keys = st.lists(
    st.one_of(st.sampled_from(list("abcqsrx/?")), st.text(max_size=6), st.sampled_from(["ctrl+c", "f5"])), max_size=3
)


@given(st.dictionaries(ids, keys, max_size=8))
def test_whatever_is_wanted_no_key_means_two_things_in_a_scope(wanted) -> None:
    taken, _ = check(wanted, actions.SHARED)
    after = keymap.remapped(actions.SHARED, taken)
    seen: dict[tuple[str, str], str] = {}
    for action in after:
        for key in action.keys:
            assert seen.setdefault((action.scope, key), action.id) == action.id
    quit_keys = next(action.keys for action in after if action.id == "app.quit")
    assert "ctrl+c" in quit_keys or "ctrl+q" in quit_keys


@pytest.mark.parametrize(
    ("written", "name"),
    [("?", "question_mark"), ("ctrl+x", "ctrl+x"), ("F5", "f5"), ("G", "G"), ("pageup", "pageup"), ("+", "plus"),
     ("ctrl++", "ctrl+plus"), (" ", "space"), ("nope", None), ("", None), ("é", "é"), ("\x1b", None)],
)  # fmt: skip
def test_key_names(written: str, name: str | None) -> None:
    assert key_name(written) == name


def test_remapped_keys_work_and_show(tmp_path: Path) -> None:
    async def story() -> None:
        async with stage(
            tmp_path, (120, 40), keys={"table.reverse": ("f9",), "app.pause": ("q",), "app.problems": ()}
        ) as s:
            await s.see("already is")  # q stays quit
            await s.press("f9")
            table = s.app.focused
            assert table.choice.descending
            await s.press("r")
            assert table.choice.descending, "the old key does nothing"
            await s.press("exclamation_mark")
            assert len(s.app.screen_stack) == 1, "a key that was taken away does nothing"
            await s.press("question_mark")
            await s.see("Reverse the order of rows.")
            line = next(line for line in s.text().splitlines() if "Reverse the order" in line)
            assert "│ F9  " in line
            await s.press("escape", "q")
            assert s.app.return_code == 0

    play(story)
