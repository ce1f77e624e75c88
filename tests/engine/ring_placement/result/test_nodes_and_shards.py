"""Tables of the layout."""

from __future__ import annotations

import dataclasses

from tests.engine.ring_placement.cases import computed, even, page, result_of, table


def test_shards_without_load_are_not_called_rejected() -> None:
    cluster, _ = even(12)
    result = computed(cluster, table([("t", "d", 10)]), ("fail", "zone:zone-a"))
    assert result.summary["rejected_bytes"] == 0
    assert -1 not in result.detail.stored_by
    assert -2 in result.detail.stored_by


def test_nodes_that_take_no_data_stand_first_whatever_fails() -> None:
    cluster, loads = even(12)
    cluster[7] = dataclasses.replace(cluster[7], state="UNHEALTHY")
    for pairs in ((), (("fail", "segment-writer-7,segment-writer-2"), ("regime", "left"))):
        result = computed(cluster, loads, *pairs)
        assert result.tables["nodes"]["instance"][0] == "segment-writer-7"
        assert result.tables["nodes"]["out"].to_list() == [True] + [False] * 11
        assert [(f.level, f.row) for f in result.findings if "heartbeat" in f.text] == [
            ("moderate", ("nodes", ("segment-writer-7",)))
        ]


def test_the_headline_has_no_load_without_load() -> None:
    result = result_of({"ring.json": page(even(12)[0])})
    assert [(h.label, h.value) for h in result.headline][:2] == [("load", "not known"), ("nodes", "12 of 12 take data")]
    assert not any("B/s" in h.value for h in result.headline)
