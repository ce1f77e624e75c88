"""Large immutable collections of which the next version differs in a few places and shares the rest.

Copying a dictionary of 14,000 entries touches 14,000 objects all over the memory: milliseconds, at each append to one
of 14,000 files.
"""

from __future__ import annotations

from collections.abc import ItemsView, Iterable, Iterator, KeysView, Mapping, Sequence, ValuesView
from itertools import chain
from typing import Any, TypeVar, overload

K = TypeVar("K")
V = TypeVar("V")
T = TypeVar("T")

_MOST = 64
"""Changes that are kept apart; with more, everything is put together anew."""
_BLOCK = 128
"""Parts of ``Parts`` that are shared or replaced together."""


class Overlay(Mapping[K, V]):
    """A mapping that is another one but for a few entries. Looking up is as quick as in a dictionary; who goes through all
    entries has them put together, once. In no defined order."""

    __slots__ = ("_base", "_count", "_gone", "_over", "_whole")

    def __init__(self, base: dict[K, V], over: dict[K, V] | None = None, gone: frozenset[K] = frozenset()) -> None:
        """``base`` without the keys ``gone`` (all of them its own, none in ``over``) and with the entries ``over``. None of
        them is changed from here on."""
        self._base, self._over, self._gone = base, over or {}, gone
        self._count = len(base) - len(gone) + sum(key not in base for key in self._over)
        self._whole: dict[K, V] | None = None if self._over or gone else base

    def changed(self, put: Mapping[K, V], drop: Iterable[K] = ()) -> Overlay[K, V]:
        """This mapping without the keys ``drop`` and with the entries ``put``."""
        over, gone = self._over.copy(), set(self._gone)
        for key in drop:
            over.pop(key, None)
            if key in self._base:
                gone.add(key)
        over.update(put)
        gone.difference_update(put)
        made = Overlay(self._base, over, frozenset(gone))
        return made if len(over) + len(gone) <= _MOST else Overlay(made._merged())

    def _merged(self) -> dict[K, V]:
        if self._whole is None:
            whole = self._base.copy()
            for key in self._gone:
                del whole[key]
            whole.update(self._over)
            self._whole = whole
        return self._whole

    def __getitem__(self, key: K) -> V:
        if key in self._over:
            return self._over[key]
        if key in self._gone:
            raise KeyError(key)
        return self._base[key]

    def __contains__(self, key: object) -> bool:
        return key in self._over or (key in self._base and key not in self._gone)

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[K]:
        return iter(self._merged())

    def keys(self) -> KeysView[K]:
        """As of a dictionary."""
        return self._merged().keys()

    def values(self) -> ValuesView[V]:
        """As of a dictionary."""
        return self._merged().values()

    def items(self) -> ItemsView[K, V]:
        """As of a dictionary."""
        return self._merged().items()


class Parts(Sequence[T]):
    """A sequence made of many short ones, of which a few can be replaced."""

    __slots__ = ("_blocks", "_count", "_flat")

    def __init__(self, parts: Sequence[tuple[T, ...]]) -> None:
        """One after another."""
        self._blocks = tuple(tuple(parts[at : at + _BLOCK]) for at in range(0, len(parts), _BLOCK))
        self._count = len(parts)
        self._flat: tuple[T, ...] | None = None

    @property
    def parts(self) -> Sequence[tuple[T, ...]]:
        """What it is made of."""
        return tuple(chain.from_iterable(self._blocks))

    @property
    def size(self) -> int:
        """Of how many parts it is made."""
        return self._count

    def replaced(self, new: Mapping[int, tuple[T, ...]]) -> Parts[T]:
        """With other parts at these places. Raises IndexError."""
        blocks = list(self._blocks)
        for place, part in new.items():
            if not 0 <= place < self._count:
                raise IndexError(place)
            block = list(blocks[place // _BLOCK])
            block[place % _BLOCK] = part
            blocks[place // _BLOCK] = tuple(block)
        made: Parts[T] = Parts(())
        made._blocks, made._count = tuple(blocks), self._count
        return made

    def _all(self) -> tuple[T, ...]:
        if self._flat is None:
            self._flat = tuple(chain.from_iterable(chain.from_iterable(self._blocks)))
        return self._flat

    @overload
    def __getitem__(self, at: int) -> T: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[T]: ...
    def __getitem__(self, at: int | slice) -> T | Sequence[T]:
        return self._all()[at]

    def __len__(self) -> int:
        return len(self._all())

    def __iter__(self) -> Iterator[T]:
        return iter(self._all())

    def __eq__(self, other: Any) -> bool:
        if isinstance(other, Parts) and len(self._blocks) == len(other._blocks):
            pairs = zip(self._blocks, other._blocks, strict=True)
            if all(one is two or one == two for one, two in pairs):
                return True
        return isinstance(other, (Parts, tuple)) and self._all() == tuple(other)

    def __hash__(self) -> int:
        return hash(self._all())

    def __repr__(self) -> str:
        return repr(self._all())
