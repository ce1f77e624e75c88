"""The collector runs when nobody waits, and only if there is something to collect."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tui import garbage


class Fake:
    """A garbage collector that notes what it is told."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.young = 0

    def __getattr__(self, name: str) -> object:
        return lambda *given: self.told.append(name)

    def get_count(self) -> tuple[int, int, int]:
        return 0, 0, self.young


def test_collects_in_quiet_moments_only(monkeypatch: pytest.MonkeyPatch) -> None:
    fake, now = Fake(), SimpleNamespace(value=1000.0)
    monkeypatch.setattr(garbage, "gc", fake)
    collector = garbage.Collector(lambda: now.value)
    now.value += 1000
    assert not collector.tick() and fake.told == [], "start-up is not over"
    collector.begin()
    assert fake.told == ["freeze", "set_threshold", "enable"]
    fake.young = garbage.WORTH
    now.value += garbage.EVERY_S
    collector.touched()
    assert not collector.tick(), "the operator is at work"
    now.value += garbage.QUIET_S
    assert collector.tick() and fake.told[3:] == ["unfreeze", "collect", "freeze"]
    now.value += garbage.QUIET_S
    assert not collector.tick(), "it was just done"
    fake.young = 0
    now.value += garbage.EVERY_S
    assert not collector.tick() and len(fake.told) == 6, "there is nothing to collect"
