"""Tables of the layout."""

from __future__ import annotations

from tests.engine.ring_placement.cases import computed, even, table


def test_shards_without_load_are_not_called_rejected() -> None:
    cluster, _ = even(12)
    result = computed(cluster, table([("t", "d", 10)]), ("fail", "zone:zone-a"))
    assert result.summary["rejected_bytes"] == 0
    assert -1 not in result.detail.stored_by
    assert -2 in result.detail.stored_by
