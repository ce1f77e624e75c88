"""The workload of one server: what each query class did in each interval, and what the host used meanwhile."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import takewhile
from pathlib import PurePath

import numpy as np
import polars as pl

from engine.core.view import FILE, FileInfo, Inputs
from engine.formats.sql_text import verb
from engine.formats.timestamps import instant_ms, name_instant_ms
from engine.query_profile.wlr.regression import HUGE


@dataclass(frozen=True)
class Origin:
    """Where one server's files come from: their folder, and what their names share (or the host's name, if the files give it).
    ``system``: the kind of server, if it matters."""

    folder: str
    name: str
    system: str = ""

    def nearness(self, other: Origin) -> tuple[int, int]:
        """Measure how likely both belong to one server: by common leading folders, then by name: 2 if equal (hosts of one domain
        share their last words), 1 if the first or last word is (``db1-pgss`` and ``db1-cpu``)."""
        mine, theirs = _words(self.name), _words(other.name)
        alike = bool(mine and theirs and (mine[0] == theirs[0] or mine[-1] == theirs[-1]))
        return depth(self.folder, other.folder), 2 if mine and mine == theirs else int(alike)


def _words(name: str) -> list[str]:
    return [word for word in re.split(r"[^a-z0-9]+", name.lower()) if word]


def depth(one: str, other: str) -> int:
    """Count the leading parts that two paths have in common."""
    pairs = zip(PurePath(one).parts, PurePath(other).parts, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def folder(info: FileInfo) -> str:
    """Return the folder of a file as text; one that is named after a moment is part of the file's name."""
    place = PurePath(info.path).parent
    return str(place if name_instant_ms(place.name) is None else place.parent)


def label(info: FileInfo) -> str:
    """Name the file as an operator would."""
    return info.label if info.label not in ("", ".") else PurePath(info.path).name


def of_files(frame: pl.DataFrame, files: Mapping[int, FileInfo], attribute: Callable[[FileInfo], str]) -> pl.Series:
    """Return ``attribute`` of the file of each row of ``frame``."""
    ids = frame[FILE].unique().to_list() if frame.height else []
    names = {i: attribute(files[i]) if i in files else "" for i in ids}
    return frame[FILE].replace_strict(names, return_dtype=pl.String).rename("name")


@dataclass(frozen=True)
class ClassInfo:
    """Identity and text of one query class. ``nested``: ran inside a function, not at top level."""

    name: str
    queryid: str = ""
    query: str = ""
    user: str = ""
    database: str = ""
    nested: bool = False

    @property
    def verb(self) -> str:
        """First word of the statement; empty without a text."""
        return verb(self.query) if self.query else ""


@dataclass(frozen=True)
class Workload:
    """The work of one server: T intervals by J classes.

    ``label``: name on screen; ``kind``: format. ``metrics``: (T, J) per name, at least ``time_us``; ``y``: (T,) resource
    use of the interval in microseconds (NaN where unknown); ``start_ms``/``end_ms``: (T,) epoch milliseconds, or -1;
    ``reasons``: per interval why it is doubtful (empty: no doubt). ``y_name`` and ``y_source`` name the resource and where
    it comes from; ``cores`` of the host, NaN if unknown; ``is_table``: a WLR CSV, whose doubtful rows VividCortex' program
    would use. ``resources``: names of the host's series that can be y; ``returns``: how often a snapshot
    continues an earlier one than its predecessor, where the snapshots of several servers seem to be mixed;
    ``counted``: share of the elapsed time whose CPU the server itself counted by class; ``shared``: y is that of a whole host,
    whose other programs count too.
    """

    label: str
    kind: str
    classes: tuple[ClassInfo, ...]
    metrics: dict[str, np.ndarray]
    y: np.ndarray
    start_ms: np.ndarray
    end_ms: np.ndarray
    reasons: tuple[str, ...]
    y_name: str = ""
    y_source: str = ""
    cores: float = float("nan")
    is_table: bool = False
    notes: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    returns: int = 0
    counted: float = 0.0
    shared: bool = False

    @property
    def seconds(self) -> np.ndarray:
        """Lengths (T,) of the intervals, NaN where unknown."""
        return np.where((self.start_ms >= 0) & (self.end_ms >= 0), (self.end_ms - self.start_ms) / 1000, np.nan)

    @property
    def x(self) -> np.ndarray:
        """Elapsed time (T, J), microseconds."""
        return self.metrics["time_us"]

    @property
    def calls(self) -> np.ndarray | None:
        """Executions (T, J), or None where the source has none."""
        return self.metrics.get("calls")

    @property
    def used(self) -> np.ndarray:
        """Mask (T,) of the intervals that fits use: free of doubt, with a plausible y."""
        return np.asarray(np.array([not reason for reason in self.reasons], bool) & (np.abs(self.y) < HUGE))

    def rows(self, pick: np.ndarray) -> Workload:
        """Return only the intervals that ``pick`` (indices or mask) selects."""
        index = np.flatnonzero(pick) if pick.dtype == bool else pick
        return replace(
            self,
            metrics={name: values[index] for name, values in self.metrics.items()},
            y=self.y[index],
            start_ms=self.start_ms[index],
            end_ms=self.end_ms[index],
            reasons=tuple(self.reasons[i] for i in index),
        )

    def with_y(self, y: np.ndarray, name: str, source: str) -> Workload:
        """Return the same work with another resource."""
        return replace(self, y=y, y_name=name, y_source=source)


def unique_names(names: list[str], more: Sequence[tuple[str, ...]]) -> list[str]:
    """Make ``names`` unique: equal names get the parts of ``more`` that differ in parentheses, else a number."""
    groups: dict[str, list[int]] = {}
    for i, name in enumerate(names):
        groups.setdefault(name, []).append(i)
    out = list(names)
    for name, members in groups.items():
        if len(members) < 2:
            continue
        parts = [p for p in range(len(more[0])) if len({more[i][p] for i in members}) > 1]
        suffixes = [", ".join(more[i][p] for p in parts if more[i][p]) or str(n) for n, i in enumerate(members, 1)]
        several = len(set(suffixes)) < len(members)
        for n, i in enumerate(members):
            out[i] = f"{name} ({suffixes[n]})" + f" #{n + 1}" * several
    return out


MIXED = "snapshots of several servers are mixed, or not in order"

Names = dict[tuple[str, str], str]
"""Name by kind (user or database) and id; ids with conflicting names are absent."""


def names_of(inputs: Inputs, system: str) -> Names:
    """Return the names in the files; empty unless the workload is PostgreSQL's, since other ids mean something else."""
    if system != "postgresql":
        return {}
    found: dict[tuple[str, str], set[str]] = {}
    for what, number, name in inputs.table("server_names").select("what", "id", "name").unique().iter_rows():
        found.setdefault((what, number), set()).add(name)
    return {key: next(iter(names)) for key, names in found.items() if len(names) == 1}


def named(work: Workload, names: Names) -> Workload:
    """Replace ids of users and databases by names; classes keep their own names, which are unique."""
    if not names:
        return work
    infos = tuple(
        replace(
            info,
            user=names.get(("user", info.user), info.user),
            database=names.get(("database", info.database), info.database),
        )
        for info in work.classes
    )
    return work if infos == work.classes else replace(work, classes=infos)


_ROWS = re.compile(r"\s*+(\d*)\s*+(?:\.\.|:|-)\s*+(\d*)\s*")


def in_words(work: Workload, mask: np.ndarray) -> str:
    """Describe the intervals in ``mask`` (T,): their numbers, and their start and end if times are known."""
    at = np.flatnonzero(mask)
    if not len(at):
        return "no interval"
    rows = f"{at[0] + 1}..{at[-1] + 1}"
    start, end = int(work.start_ms[at[0]]), int(work.end_ms[at[-1]])
    if start < 0 or end < 0:
        return f"intervals {rows}"
    begin, until = (datetime.fromtimestamp(moment / 1000, UTC) for moment in (start, end))
    same_day = begin.date() == until.date()
    return f"intervals {rows}, {begin:%Y-%m-%d %H:%M:%S} to {until:{'%H:%M:%S' if same_day else '%Y-%m-%d %H:%M:%S'}}"


class BadWindow(ValueError):
    """A window that cannot be parsed; the message shows valid ones."""


def window(work: Workload, text: str) -> np.ndarray:
    """Parse a window into a mask (T,): ``10..120`` (rows from 1, both ends included, either optional) or two times joined by
    ``..`` (``2026-11-20T23:40..2026-11-20T23:50``). Empty: all. Raises BadWindow."""
    count = len(work.y)
    if not text.strip():
        return np.ones(count, bool)
    rows = _ROWS.fullmatch(text)
    if rows:
        low, high = rows.groups()
        index = np.arange(1, count + 1)
        return (index >= int(low or 1)) & (index <= int(high or count))
    first, dots, last = text.partition("..")
    start, end = instant_ms(first) if first else 0, instant_ms(last) if last else 1 << 62
    if not dots or start is None or end is None:
        raise BadWindow(f"{text!r} is neither rows (10..120) nor two times (2026-11-20T23:40..2026-11-20T23:50)")
    return (work.start_ms >= start) & (work.end_ms <= end)
