"""The minimum capacity is the edge between survived and not."""

from __future__ import annotations

from engine.ring_placement.pyroscope.placement import place
from engine.ring_placement.pyroscope.ring import Ring
from engine.ring_placement.scenarios.segment_sweeps import every_node, receiving_members, worst_case
from tests.engine.ring_placement.cases import (
    computed,
    equal_keys,
    even,
    quiet,
)


def test_minimum_capacity_is_the_edge() -> None:
    cluster, loads = even()
    summary = computed(cluster, loads).summary
    edge = summary["min_capacity_any_node"]

    def severe(capacity: int) -> bool:
        return any(f.level == "severe" for f in computed(cluster, loads, ("capacity", str(capacity))).findings)

    assert not severe(edge)
    assert severe(edge - 1)
    placement = place(Ring.of(cluster), equal_keys(50), 6)
    sweep = every_node(placement, "transient", None, quiet)
    assert worst_case(sweep, receiving_members(placement)) == max(sweep["worst_load"])
    zone = summary["min_capacity_any_zone"]
    assert zone >= edge
    worst = computed(cluster, loads, ("sweep", "zones")).tables["sweep"]["worst_load"].max()
    assert worst == zone


def test_loads_have_units() -> None:
    cluster, loads = even()
    texts = [f.text for f in computed(cluster, loads, ("capacity", "6000000")).findings if f.level == "severe"]
    assert texts[-1] == "carries 6.19 MiB/s before anything fails, its capacity is 5.72 MiB/s"
    assert texts[:-1] and all(" MiB/s of 5.72 MiB/s" in text for text in texts[:-1])
