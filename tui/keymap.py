"""The user's key map, checked before Textual sees it.

Textual takes a bad keymap silently: unknown ids do nothing, and a key given twice takes away the other action (even quit).
Here each entry that is not valid becomes a complaint, and the default stands.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from tui.actions import KEY_NAMES, RESERVED, SCOPES, Action, key_text, scope_title

_CHARACTERS = {" ": "space"} | {text: name for name, text in KEY_NAMES.items() if len(text) == 1}
"""Textual's names of keys that are one character."""


def key_name(written: str) -> str | None:
    """Return Textual's name of a key as users write it (``?``, ``ctrl+x``, ``F5``, ``pageup``); None if there is no such key."""
    written = written.strip() or written
    if written in _CHARACTERS:
        return _CHARACTERS[written]
    *modifiers, last = written.split("+") if not written.endswith("++") else [*written[:-2].split("+"), "+"]
    modifiers = [part.lower() for part in modifiers]
    if any(part not in ("ctrl", "shift", "alt") for part in modifiers):
        return None
    name = _CHARACTERS.get(last, last if len(last) == 1 else last.lower())
    if len(name) == 1:
        if not name.isprintable() or name.isspace():
            return None
        name = name.lower() if "ctrl" in modifiers else name
    elif name not in KEY_NAMES and not re.fullmatch(r"f([1-9]|1[0-9]|2[0-4])", name):
        return None
    return "+".join([*modifiers, name])


def check(
    wanted: Mapping[str, Sequence[str]], actions: Sequence[Action]
) -> tuple[dict[str, tuple[str, ...]], tuple[str, ...]]:
    """Return the valid part of ``wanted`` (action id to keys), and a complaint for each entry that is not.

    Refused: unknown ids, unknown keys, reserved keys for another action, an empty list for quit, and a key that another
    action of the same scope (or of a scope that wins or loses against it everywhere) already has.
    """
    complaints: list[str] = []
    by_id = {action.id: action for action in actions}
    taken: dict[str, tuple[str, ...]] = {}
    for name, keys in wanted.items():
        action = by_id.get(name)
        if action is None:
            near = difflib.get_close_matches(name, by_id, 1)
            complaints.append(f"[keys] no action {name!r}" + (f"; did you mean {near[0]!r}?" if near else ""))
            continue
        valid: list[str] = []
        for written in keys:
            key = key_name(written)
            if key is None:
                complaints.append(f"[keys] {name}: no key {written!r}")
            elif key in RESERVED and name != "app.quit":
                complaints.append(f"[keys] {name}: {key_text(key)} always quits")
            else:
                valid.append(key)
        if name == "app.quit" and valid:
            valid += sorted(RESERVED)
        if valid or not (keys or name == "app.quit"):
            taken[name] = tuple(dict.fromkeys(valid))
        elif not keys:
            complaints.append("[keys] app.quit: at least one key must quit")

    # Drop clashing entries until none is left; dropping one gives its default keys back, so look again.
    while True:
        clash = _clash(remapped(actions, taken), taken)
        if clash is None:
            return taken, tuple(complaints)
        loser, winner, key = clash
        complaints.append(
            f"[keys] {loser.id}: {key_text(key)} already is {winner.title!r} ({winner.id}, {scope_title(winner.scope)})"
        )
        del taken[loser.id]


def remapped(actions: Sequence[Action], keymap: Mapping[str, tuple[str, ...]]) -> tuple[Action, ...]:
    """Return ``actions`` with the keys that they have under ``keymap``."""
    return tuple(replace(action, keys=keymap[action.id]) if action.id in keymap else action for action in actions)


def _clash(actions: Sequence[Action], taken: Mapping[str, tuple[str, ...]]) -> tuple[Action, Action, str] | None:
    """Return a remapped action, the action that has one of its keys already, and that key; None without a clash.

    Two actions clash in one scope, and where one of them is in a shared scope that the other would hide or be hidden by.
    Defaults of views may cover keys of shared scopes on purpose; users may not do so by accident.
    """
    clashes = (
        (action, other, key)
        for action in actions
        if action.id in taken
        for key in action.keys
        for other in actions
        if other is not action and key in other.keys
        if other.scope == action.scope or other.scope in SCOPES or action.scope in SCOPES
        if key != "escape" or "table.clear" not in (other.id, action.id)  # the table passes it on when it has no filter
    )
    return next(clashes, None)
