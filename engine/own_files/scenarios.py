"""Named scenarios: sets of option values of a view under a name, in the state file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from engine.core.parameters import Attachment, BadOption, Parameters, options, parse
from engine.own_files.settings import State

LONGEST = 60  # most characters in the name of a scenario


class Scenarios:
    """The scenarios of one view, by name. ``save`` and ``delete`` change ``state``; its owner writes the file."""

    def __init__(self, state: State, view: str) -> None:
        self._state = state
        self._view = view

    def names(self) -> list[str]:
        """Return the names in alphabetical order."""
        saved = self._state.get("scenarios", self._view, default={})
        return sorted(saved) if isinstance(saved, dict) else []

    def save(self, name: str, parameters: Parameters) -> str:
        """Save every option that is not as declared under ``name``; return the name. Raises BadOption for no name."""
        name = name.strip()
        if not name or len(name) > LONGEST or not name.isprintable():
            raise BadOption(f"a scenario needs a name of 1 to {LONGEST} printable characters")
        values: dict[str, Any] = {}
        for option in options(type(parameters)):
            value = getattr(parameters, option.field)
            if value != option.default:
                values[option.key] = _plain(value)
        self._state.set("scenarios", self._view, name, value=values)
        return name

    def delete(self, name: str) -> None:
        """Forget a scenario."""
        self._state.set("scenarios", self._view, name, value=None)

    def load(self, name: str, base: Parameters) -> Any:
        """Return the parameters of scenario ``name``: the defaults overridden by what was saved; ``base`` gives only the type.

        Raises BadOption for an unknown name, or if the saved values are not valid any more.
        """
        names = self.names()
        if name not in names:
            known = f"; known: {', '.join(names)}" if names else "; none is saved: the dashboard saves them (key S)"
            raise BadOption(f"no scenario {name!r}{known}")
        saved = self._state.get("scenarios", self._view, name, default={})
        pairs = list(saved.items()) if isinstance(saved, dict) else []
        try:
            return parse(type(base), [(key, tuple(v) if isinstance(v, list) else v) for key, v in pairs])
        except BadOption as error:
            raise BadOption(f"scenario {name!r}: {error}") from error


def _plain(value: Any) -> Any:
    """Return a parameter's value as TOML can hold it; an empty text is read as None where None is allowed."""
    if value is None:
        return ""
    if isinstance(value, Attachment):
        return str(Path(value.name).absolute())
    if isinstance(value, tuple):
        return [_plain(part) for part in value]
    return value


def split_scenario(words: Sequence[str]) -> tuple[str, list[str]]:
    """Return the NAME of the last ``scenario=NAME`` among options KEY=VALUE (empty without one), and the other words."""
    name, rest = "", []
    for word in words:
        key, _, value = word.partition("=")
        if key.strip() == "scenario" and value:
            name = value
        else:
            rest.append(word)
    return name, rest
