"""The lines of ``feeds``: whatever the folder is called, it is one word of the shell in each of them."""

from __future__ import annotations

import shlex

import pytest

from engine.views import VIEWS
from tui.cli.feeds import lines
from tui.cli.output import UsageError

NAMES = ["my data", "x;touch PWNED", "a'b", 'a"b', "$(id)", "`id`", "50%", "a\\b", "über"]


def _words(view: str, folder: str) -> list[list[str]]:
    found = []
    for line in lines(view, "http://prometheus:9090", folder):
        command = line.removeprefix("# ")
        if command.startswith("*"):  # cron hands a % with a backslash over as a plain one
            assert "%" not in command.replace("\\%", "")
            command = command.replace("\\%", "%")
        try:
            found.append(shlex.split(command))
        except ValueError:  # a sentence with an apostrophe
            found.append([command])
    return found


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("view", [view.name for view in VIEWS])
def test_a_folder_is_one_word(view: str, name: str) -> None:
    safe = [[word.replace("SAFE", name) for word in line] for line in _words(view, "SAFE")]
    assert _words(view, name) == safe


@pytest.mark.parametrize("name", ["a\ntouch PWNED", "d\x1b]0;PWNED\x07", "a\x85b", "\u2028", "\udcff"])
def test_a_folder_that_no_line_can_hold_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="--output"):
        lines("query-profile", None, name)
