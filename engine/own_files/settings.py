"""The user's settings file and the state file: paths, content, problems.

The settings file is the user's: it is read, never written. What the dashboard itself wants to remember (open tab, sort,
columns) goes to a state file beside the log. Neither can stop the program: an invalid value
becomes a problem and the default stands.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

import msgspec

from engine.core.bounded_read import read_bounded
from engine.core.parameters import BadOption, Parameters, parse
from engine.core.reading import Problem
from engine.own_files.private_files import (
    locked,
    make_folder,
    read_file,
    remove_leftovers,
    replace_file,
    why_not_writable,
)

P = TypeVar("P", bound=Parameters)

CONFIG_VARIABLE = "LOADLENS_CONFIG"  # environment variable that names another settings file
MAX_BYTES = 512 << 10  # largest settings or state file that is read, in bytes


class Settings(msgspec.Struct, frozen=True):
    """The settings file's values over the defaults.

    ``sections`` holds one value per declared section, ``views`` the raw sections of the views: ``view_parameters`` checks
    those once a view is loaded, so that reading settings imports no view.
    """

    path: Path
    sections: tuple[Parameters, ...] = ()
    keys: Mapping[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    views: Mapping[str, Mapping[str, Any]] = msgspec.field(default_factory=dict)
    problems: tuple[Problem, ...] = ()
    unread: bool = False  # the file could not be read at all (missing although named, not UTF-8, not TOML)

    def of(self, kind: type[P]) -> P:
        """Return the section of type ``kind``, its defaults if the file has none."""
        return next((section for section in self.sections if isinstance(section, kind)), kind())

    def put(self, *sections: Parameters) -> Settings:
        """Return these settings with ``sections`` in place of those of the same types."""
        return msgspec.structs.replace(
            self,
            sections=(*sections, *(section for section in self.sections if type(section) not in map(type, sections))),
        )


def folders() -> dict[str, Path]:
    """Return the paths on this machine: ``config`` file, ``state`` file, ``log`` file, ``cache`` folder.

    Follows ``LOADLENS_CONFIG`` and the XDG variables.
    """
    import platformdirs

    config = os.environ.get(CONFIG_VARIABLE)
    state = Path(platformdirs.user_state_dir("loadlens", appauthor=False))
    return {
        "config": Path(config)
        if config
        else Path(platformdirs.user_config_dir("loadlens", appauthor=False)) / "config.toml",
        "state": state / "state.toml",
        "log": state / "loadlens.log",
        "cache": Path(platformdirs.user_cache_dir("loadlens", appauthor=False)),
    }


def load(
    path: Path | None = None, kinds: Mapping[str, type[Parameters]] = MappingProxyType({}), views: tuple[str, ...] = ()
) -> Settings:
    """Read the settings file (``path``, or the usual place). Never raises for its content.

    ``kinds``: the declared sections by name; ``views``: names whose sections are kept as they are. Another section is a
    problem. A missing file is fine unless it was named, by ``path`` or by ``LOADLENS_CONFIG``.
    """
    wanted = path if path is not None else folders()["config"]
    named = path is not None or bool(os.environ.get(CONFIG_VARIABLE))
    try:
        data = _parsed(read_bounded(wanted, MAX_BYTES))
    except (FileNotFoundError, NotADirectoryError):
        return Settings(
            wanted, problems=(Problem.at(str(wanted), "settings", "no such file"),) if named else (), unread=named
        )
    except (OSError, ValueError) as error:
        place = re.search(r"line (\d+)", str(error))
        line = int(place.group(1)) if place else None
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        return Settings(wanted, problems=(Problem.at(str(wanted), "settings", reason, line=line),), unread=True)

    problems: list[Problem] = []

    def complain(reason: str) -> None:
        problems.append(Problem.at(str(wanted), "settings", reason))

    sections = tuple(_section(kind, name, data.pop(name, {}), complain) for name, kind in kinds.items())
    keys: dict[str, tuple[str, ...]] = {}
    for action, value in _mapping(data.pop("keys", {}), "keys", complain).items():
        if isinstance(value, str):
            keys[action] = tuple(part.strip() for part in value.split(",") if part.strip())
        elif isinstance(value, list) and all(isinstance(part, str) for part in value):
            keys[action] = tuple(value)
        else:
            complain(f"[keys] {action}: a key or a list of keys is wanted")
    view_sections: dict[str, Mapping[str, Any]] = {}
    for name, value in data.items():
        if name in views or not views:
            view_sections[name] = _mapping(value, name, complain)
        else:
            complain(f"unknown section [{name}]; known: {', '.join((*kinds, 'keys', *views))}")
    return Settings(wanted, sections, keys, view_sections, tuple(problems))


_DEEP_KEY = re.compile(r"""(?<!["'\w-])(?:["'\w-]++[ \t]*+\.[ \t]*+){64}""")


def _parsed(data: bytes) -> dict[str, Any]:
    """Parse TOML. Raises ValueError, also for what would take ``tomllib`` all memory or the whole stack."""
    text = data.decode("utf-8")
    if _DEEP_KEY.search(text):
        raise ValueError("a key with more than 64 parts")
    try:
        return tomllib.loads(text)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def view_parameters(settings: Settings, name: str, kind: type[Parameters]) -> tuple[Any, tuple[Problem, ...]]:
    """Read the section of the view ``name``. Returns its parameters, and the problems of the section."""
    problems: list[Problem] = []
    parameters = _section(
        kind,
        name,
        settings.views.get(name, {}),
        lambda reason: problems.append(Problem.at(str(settings.path), "settings", reason)),
    )
    return parameters, tuple(problems)


def _mapping(value: Any, name: str, complain: Callable[[str], None]) -> Mapping[str, Any]:
    if isinstance(value, dict):
        return value
    complain(f"[{name}] is not a section")
    return {}


def _section(kind: type[Parameters], name: str, value: Any, complain: Callable[[str], None]) -> Parameters:
    """Read one section key by key, so that one bad value does not affect the others."""
    parameters: Parameters = kind()
    for key, entry in _mapping(value, name, complain).items():
        try:
            parameters = parse(kind, [(key, tuple(entry) if isinstance(entry, list) else entry)], parameters)
        except BadOption as error:
            complain(f"[{name}] {error}")
    return parameters


class State:
    """What the dashboard remembers between runs: nested plain values under string keys, in a TOML file of its own.

    An unreadable or damaged file is taken as empty, and so is one of another user. ``problem``: why nothing can be saved, as
    far as is known; empty if nothing speaks against it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.values: dict[str, Any] = self._read() or {}
        self._changes: dict[tuple[str, ...], Any] = {}
        remove_leftovers(path)
        self.problem = why_not_writable(path)

    def _read(self) -> dict[str, Any] | None:
        """Return what the file holds now, None if it cannot be read."""
        try:
            return _parsed(read_file(self.path, MAX_BYTES))
        except (OSError, ValueError):
            return None

    def get(self, *keys: str, default: Any = None) -> Any:
        """Return the value at the nested ``keys``, or ``default``."""
        here: Any = self.values
        for key in keys:
            if not isinstance(here, dict) or key not in here:
                return default
            here = here[key]
        return here

    def set(self, *keys: str, value: Any) -> None:
        """Set the value at the nested ``keys``; None removes it."""
        if self.get(*keys) != value:
            _put(self.values, keys, value)
            self._changes.pop(keys, None)  # so that changes stand in the order in which they are made
            self._changes[keys] = value

    def save(self) -> bool:
        """Write the file, whole or not at all, with what other dashboards have written to it since it was read.

        If several changed the same value, the last one saved wins. Returns False where writing fails (a full or read-only
        disk).
        """
        import tomli_w

        try:
            make_folder(self.path.parent)
            with locked(self.path.parent):
                values = self._read()
                if values is not None:
                    for keys, value in self._changes.items():
                        _put(values, keys, value)
                    self.values = values
                replace_file(self.path, tomli_w.dumps(self.values).encode())
        except (OSError, TypeError, ValueError) as error:
            self.problem = (error.strerror if isinstance(error, OSError) else None) or str(error)
            return False
        self._changes.clear()
        self.problem = ""
        return True


def _put(values: dict[str, Any], keys: Sequence[str], value: Any) -> None:
    """Set the value at the nested ``keys``; None removes it."""
    for key in keys[:-1]:
        inner = values.get(key)
        if not isinstance(inner, dict):
            inner = values[key] = {}
        values = inner
    if value is None:
        values.pop(keys[-1], None)
    else:
        values[keys[-1]] = value
