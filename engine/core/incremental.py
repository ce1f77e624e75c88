"""Incremental computing for all views: values cached by key, and partial results cached by group.

Caches only save time: a computation with an empty ``Memo`` gives an equal result.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from typing import Any, Generic, TypeVar

import msgspec
import numpy as np
import polars as pl

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)
P = TypeVar("P")


class Memo:
    """A cache that outlives single computations: one per view and session."""

    def __init__(self) -> None:
        self._entries_by_name: dict[str, dict[Hashable, Any]] = {}

    def value(self, name: str, key: Hashable, make: Callable[[], T], keep: int = 1) -> T:
        """Return ``make()``, cached under ``name`` and ``key``. The ``keep`` most recently used keys of a name are kept; if
        ``make`` raises, nothing is."""
        entries: dict[Hashable, T] = self._entries_by_name.setdefault(name, {})
        if key in entries:
            entries[key] = entries.pop(key)  # the most recently used key is the last one
            return entries[key]
        made = make()
        entries[key] = made
        while len(entries) > keep:
            del entries[next(iter(entries))]
        return made

    def state(self, name: str, make: Callable[[], T]) -> T:
        """Return the object called ``name``, made on first use: a ``Partials``, for example."""
        return self.value(name, None, make)


class Delta(msgspec.Struct, Generic[K], frozen=True):
    """What an update of partial results did. ``changed``: groups that were computed; ``removed``: groups that are gone;
    ``everything``: all were computed from scratch."""

    changed: frozenset[K]
    removed: frozenset[K]
    everything: bool = False

    def __bool__(self) -> bool:
        """Return whether any partial result has changed."""
        return bool(self.changed or self.removed or self.everything)


_NEVER = object()  # stamp of a group that was never computed


class _Stamps(Generic[K]):
    """The stamp and the revision of each group."""

    def __init__(self) -> None:
        self._stamps: dict[K, Hashable] = {}
        self._revisions: dict[K, int] = {}
        self._key: Hashable = None
        self._last = 0

    @property
    def version(self) -> int:
        """A number that grows with every update that changes something."""
        return self._last

    @property
    def revisions(self) -> Mapping[K, int]:
        """Per group, a number that changes whenever the group is computed: the stamp for results derived from it."""
        return self._revisions

    def _compare(self, stamps: Mapping[K, Hashable], key: Hashable) -> Delta[K]:
        if not self._last or key != self._key:
            return Delta(frozenset(stamps), frozenset(self._stamps.keys() - stamps.keys()), everything=True)
        old = self._stamps
        changed = frozenset(group for group, stamp in stamps.items() if old.get(group, _NEVER) != stamp)
        return Delta(changed, frozenset(old.keys() - stamps.keys()))

    def _accept(self, stamps: Mapping[K, Hashable], key: Hashable, delta: Delta[K]) -> None:
        self._last += 1
        old = {} if delta.everything else self._revisions
        self._revisions = {group: self._last if group in delta.changed else old[group] for group in stamps}
        self._stamps, self._key = dict(stamps), key


class Partials(_Stamps[K], Generic[K, P], Mapping[K, P]):
    """One partial result per group (a job, a run, an interval, a server), recomputed when its stamp changes.

    A *stamp* identifies what a group's result depends on: the ids and versions of its files (``Inputs.stamp``), or the
    ``revisions`` of the partial results it is derived from.
    """

    def __init__(self) -> None:
        super().__init__()
        self._parts: dict[K, P] = {}

    def update(
        self,
        stamps: Mapping[K, Hashable],
        compute: Callable[[Collection[K]], Mapping[K, P]],
        *,
        key: Hashable = None,
    ) -> Delta[K]:
        """Compute groups whose stamp has changed and drop those that are not in ``stamps``.

        ``compute`` gets the groups to compute, in the order of ``stamps``, and returns a result for each. ``key``: what all
        groups depend on (parameters); when it changes, all are computed. The mapping keeps the order of ``stamps``. If
        ``compute`` raises, nothing changes.
        """
        delta = self._compare(stamps, key)
        if delta or list(stamps) != list(self._stamps):
            made = compute([group for group in stamps if group in delta.changed]) if delta.changed else {}
            self._parts = {group: made[group] if group in delta.changed else self._parts[group] for group in stamps}
            self._accept(stamps, key, delta)
        return delta

    def reduce(self, group: K, part: P) -> None:
        """Replace the cached result of ``group`` by a reduced one until its stamp changes."""
        self._parts[group] = part

    def __getitem__(self, group: K) -> P:
        """The result of ``group``. Raises KeyError."""
        return self._parts[group]

    def __iter__(self) -> Iterator[K]:
        """The groups, in the order of the last ``stamps``."""
        return iter(self._parts)

    def __len__(self) -> int:
        """Number of groups."""
        return len(self._parts)


class FramePartials(_Stamps[K], Generic[K]):
    """As ``Partials``, for results that are rows of tables: one frame per table holds the rows of all groups.

    Each frame has the column ``by`` that names the group of a row.
    """

    def __init__(self, by: str) -> None:
        super().__init__()
        self.by = by
        self._frames: dict[str, pl.DataFrame] = {}
        self._heights: dict[str, np.ndarray[Any, np.dtype[np.int64]]] = {}
        """By table: the number of rows of each group, in the order of the last stamps."""

    def update(
        self,
        stamps: Mapping[K, Hashable],
        compute: Callable[[Collection[K]], Mapping[str, pl.DataFrame]],
        *,
        key: Hashable = None,
    ) -> Delta[K]:
        """As ``Partials.update``; ``compute`` returns the rows of the given groups by table, in the order of the groups and each
        group's rows in their final order. It always returns the same tables."""
        delta = self._compare(stamps, key)
        if delta or list(stamps) != list(self._stamps):
            groups = [group for group in stamps if group in delta.changed]
            made = compute(groups)
            heights = {name: self._heights_of(frame, groups) for name, frame in made.items()}
            frames = dict(made)
            if not delta.everything:
                at = {group: place for place, group in enumerate(self._stamps)}
                at |= {group: len(self._stamps) + place for place, group in enumerate(groups)}
                source = np.fromiter((at[group] for group in stamps), np.int64, len(stamps))
                for name, frame in made.items():
                    both = np.concatenate([self._heights[name], heights[name]])
                    frames[name] = _gathered(self._frames[name], frame, both, source)
                    heights[name] = both[source]
            self._frames, self._heights = frames, heights
            self._accept(stamps, key, delta)
        return delta

    def _heights_of(self, frame: pl.DataFrame, groups: Sequence[K]) -> np.ndarray[Any, np.dtype[np.int64]]:
        """Number of rows of each of ``groups`` in ``frame``."""
        rows = {group: rows for rows, group in frame[self.by].rle().struct.unnest().iter_rows()} if frame.height else {}
        return np.fromiter((rows.get(group, 0) for group in groups), np.int64, len(groups))

    def frame(self, name: str) -> pl.DataFrame:
        """The rows of all groups in table ``name``, groups in the order of the last ``stamps``. Raises KeyError."""
        return self._frames[name]


_CHUNKS = 64  # a frame of more chunks than this is copied into one


def _gathered(
    old: pl.DataFrame,
    fresh: pl.DataFrame,
    heights: np.ndarray[Any, np.dtype[np.int64]],
    source: np.ndarray[Any, np.dtype[np.int64]],
) -> pl.DataFrame:
    """Return the groups ``source`` of ``old`` followed by ``fresh``; ``heights``: rows of each group of both.

    Neighbouring groups that stay together are taken as one slice, which shares memory instead of copying it.
    """
    rows = old.vstack(fresh)
    if not len(source):
        return rows.clear()
    ends = np.cumsum(heights)
    begins = np.flatnonzero(np.diff(source, prepend=-2) != 1)
    firsts, lasts = source[begins], source[np.append(begins[1:], len(source)) - 1]
    slices = [
        rows.slice(start, end - start)
        for start, end in zip((ends - heights)[firsts].tolist(), ends[lasts].tolist(), strict=True)
        if end > start
    ]
    frame = pl.concat([rows.clear(), *slices])
    return frame.rechunk() if frame.n_chunks() > _CHUNKS else frame
