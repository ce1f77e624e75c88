"""Rows that are kept as growing arrays, in the order they came, and read in the order of their keys."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from engine.job_heuristics.model.arrays import Array


class Board:
    """Columns of numbers by name; a row is put in under its key, or replaces the one that is there.

    Keys are read in the order of the sides (maps first), then of the keys themselves. Putting in a few rows costs time
    in proportion to them; reading a column costs one pass over it.
    """

    def __init__(self, columns: Mapping[str, Array], keys: Sequence[Any], maps: int) -> None:
        """``keys``: of the rows of ``columns``, in reading order, the first ``maps`` of them maps."""
        self.height = len(keys)
        self._columns = {name: values.copy() for name, values in columns.items()}
        self._row = {key: row for row, key in enumerate(keys)}
        self._keys = (list(keys[:maps]), list(keys[maps:]))
        self._order = [np.arange(maps), np.arange(maps, len(keys))]
        self._read: Array | None = None

    def has(self, key: Any) -> bool:
        """Whether there is a row under ``key``."""
        return key in self._row

    def put(self, keys: Sequence[Any], maps: Sequence[bool], rows: Mapping[str, Sequence[Any] | Array]) -> None:
        """Set the rows of ``keys`` (each once); ``maps`` says of each whether it is a map, which never changes."""
        if not keys:
            return
        new: tuple[list[Any], list[Any]] = ([], [])
        at = np.empty(len(keys), dtype=np.int64)
        for k, key in enumerate(keys):
            row = self._row.get(key)
            if row is None:
                row = self._row[key] = self.height
                self.height += 1
                new[0 if maps[k] else 1].append(key)
            at[k] = row
        for name, values in self._columns.items():
            if self.height > len(values):
                larger = np.zeros(max(64, self.height + self.height // 2), dtype=values.dtype)
                larger[: len(values)] = values
                values = self._columns[name] = larger
            values[at] = rows[name]
        for side, fresh in enumerate(new):
            if fresh:
                self._insert(side, sorted(fresh))

    def _insert(self, side: int, fresh: list[Any]) -> None:
        keys, rows = self._keys[side], np.array([self._row[key] for key in fresh], dtype=np.int64)
        if keys and fresh[0] < keys[-1]:
            keys += fresh
            keys.sort()  # two sorted runs: merged, not sorted
            place = np.array([self._place(keys, key, n) for n, key in enumerate(fresh)], dtype=np.int64)
            self._order[side] = np.insert(self._order[side], place, rows)
        else:
            keys += fresh
            self._order[side] = np.concatenate([self._order[side], rows])
        self._read = None

    @staticmethod
    def _place(keys: list[Any], key: Any, before: int) -> int:
        """Where ``key`` goes among the older ones, ``before`` new ones being in front of it."""
        return bisect_left(keys, key) - before

    def read(self, names: Iterable[str], where: str = "") -> dict[str, Array]:
        """Columns in reading order, as copies; with ``where`` only of the rows in which that column is true."""
        if self._read is None:
            self._read = np.concatenate(self._order)
        rows = self._read[self._columns[where][self._read]] if where else self._read
        return {name: self._columns[name][rows] for name in names}

    def unordered(self, name: str) -> Array:
        """A column in the order in which the rows came; not to be changed."""
        return self._columns[name][: self.height]
