"""Overlays against plain dictionaries and tuples."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import engine.overlay
from engine.overlay import Overlay, Parts

KEYS = st.integers(0, 12)
STEPS = st.lists(st.tuples(st.dictionaries(KEYS, st.integers()), st.sets(KEYS)), max_size=12)


@pytest.mark.parametrize("most", [0, 3, 64])
@given(base=st.dictionaries(KEYS, st.integers()), steps=STEPS)
def test_an_overlay_is_a_dictionary(
    most: int, base: dict[int, int], steps: list[tuple[dict[int, int], set[int]]]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine.overlay, "_MOST", most)
        seen: list[tuple[Overlay[int, int], dict[int, int]]] = [(Overlay(base.copy()), base)]
        for put, drop in steps:
            made, model = seen[-1]
            seen.append((made.changed(put, drop), {k: v for k, v in model.items() if k not in drop} | put))
        for made, model in seen:  # also the older ones: nothing of theirs changes
            assert made == model and len(made) == len(model) and set(made) == set(model)
            assert dict(made.items()) == model and sorted(made.values()) == sorted(model.values())
            for key in range(13):
                assert (key in made, made.get(key)) == (key in model, model.get(key))
                assert (key in made) is (key in made.keys())  # noqa: SIM118
            with pytest.raises(KeyError):
                made[99]


PARTS = st.lists(st.lists(st.integers(0, 3), max_size=3).map(tuple), max_size=9)


@given(PARTS, st.data())
def test_parts_are_a_flat_tuple(parts: list[tuple[int, ...]], data: st.DataObject) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine.overlay, "_BLOCK", 2)
        made: Parts[int] = Parts(parts)
        new: dict[int, Any] = {}
        if parts:
            places = st.integers(0, len(parts) - 1)
            new = data.draw(st.dictionaries(places, st.tuples(st.integers(0, 3)), max_size=3))
        after = made.replaced(new)
        changed = [new.get(k, part) for k, part in enumerate(parts)]
        for one, model in ((made, parts), (after, changed)):
            flat = tuple(x for part in model for x in part)
            assert one == flat and tuple(one) == flat and len(one) == len(flat) and one == Parts(model)
            assert list(one.parts) == list(model) and one.size == len(model)
            assert one[:2] == flat[:2] and hash(one) == hash(flat) and repr(one) == repr(flat)
        assert (made == after) is (tuple(made) == tuple(after))
        with pytest.raises(IndexError):
            made.replaced({len(parts): (1,)})
