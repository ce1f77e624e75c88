"""The collector runs when nobody waits, and only if there is something to collect."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tui.process import gc_policy


class Fake:
    """A garbage collector that notes what it is told."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.young = 0
        self.collections = 0

    def __getattr__(self, name: str) -> object:
        return lambda *given: self.told.append(name)

    def collect(self, generation: int = 2) -> None:
        self.told.append(f"collect {generation}")

    def get_count(self) -> tuple[int, int, int]:
        return self.young, 0, self.collections


def test_collects_in_quiet_moments_only(monkeypatch: pytest.MonkeyPatch) -> None:
    fake, now = Fake(), SimpleNamespace(value=1000.0)
    monkeypatch.setattr(gc_policy, "gc", fake)
    collector = gc_policy.Collector(lambda: now.value)

    def told(busy: bool = False) -> list[str]:
        fake.told.clear()
        collector.tick(busy)
        return fake.told

    now.value += 1000
    assert not told(), "start-up is not over"
    collector.begin()
    assert fake.told == ["freeze", "set_threshold", "enable"]
    fake.collections = gc_policy.WORTH
    now.value += gc_policy.EVERY_S
    collector.touched()
    assert not told(), "the operator is at work"
    now.value += gc_policy.QUIET_S
    assert not told(busy=True), "somebody may wait for what is being computed"
    assert told() == ["unfreeze", "collect 2", "freeze"]
    now.value += gc_policy.QUIET_S
    assert not told(), "it was just done"
    fake.collections = 0
    now.value += gc_policy.EVERY_S
    assert not told(), "there is nothing to collect"


def test_young_objects_are_collected_between_computations(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = Fake()
    monkeypatch.setattr(gc_policy, "gc", fake)
    collector = gc_policy.Collector()
    collector.begin()
    fake.told.clear()
    collector.touched()
    fake.young = gc_policy.FEW - 1
    collector.tick(False)
    fake.young = gc_policy.FEW
    collector.tick(True)
    assert not fake.told
    collector.tick(False)
    assert fake.told == ["collect 1"], "also while the operator is at work"
