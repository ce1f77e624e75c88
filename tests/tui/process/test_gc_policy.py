"""The collector runs in quiet moments, and only if there is something to collect."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tui.process import gc_policy


class Fake:
    """A garbage collector that records its calls."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.collections = 0

    def __getattr__(self, name: str) -> object:
        return lambda *args: self.calls.append(name)

    def collect(self, generation: int = 2) -> None:
        self.calls.append(f"collect {generation}")

    def get_count(self) -> tuple[int, int, int]:
        return 0, 0, self.collections


def test_collects_in_quiet_moments_only(monkeypatch: pytest.MonkeyPatch) -> None:
    fake, now = Fake(), SimpleNamespace(value=1000.0)
    monkeypatch.setattr(gc_policy, "gc", fake)
    collector = gc_policy.Collector(lambda: now.value)

    def tick(busy: bool = False) -> list[str]:
        fake.calls.clear()
        collector.tick(busy)
        return fake.calls

    now.value += 1000
    assert not tick(), "start-up is not over"
    collector.begin()
    assert fake.calls == ["freeze", "set_threshold", "enable"]
    fake.collections = gc_policy.MIN_COLLECTIONS
    now.value += gc_policy.INTERVAL_S
    collector.touched()
    assert not tick(busy=True), "the operator may wait for what is being computed"
    assert tick() == ["collect 2"], "the operator is at work: what is frozen has to wait"
    now.value += gc_policy.INTERVAL_S
    assert not tick(busy=True), "the operator may wait for what is being computed"
    assert tick() == ["unfreeze", "collect 2", "freeze"]
    now.value += gc_policy.QUIET_S
    assert not tick(), "it was just done"
    fake.collections = 0
    now.value += gc_policy.INTERVAL_S
    assert not tick(), "there is nothing to collect"
