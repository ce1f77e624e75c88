"""The steps that choose a ring among several, each on its own."""

from __future__ import annotations

from typing import Any

from engine.ring_placement.scenarios import cluster


def ring(label: str, **values: Any) -> dict[str, Any]:
    given = {"members": 3, "partitions": False, "key": "", "kind": "page", "now_ns": 0, "file": 1, "beat": 1000}
    return {**given, "label": label, "told": "token-ring", "strategy": "token-ring", **values}


def labels(rings: list[dict[str, Any]]) -> list[str]:
    return [row["label"] for row in rings]


def test_named() -> None:
    rings = [ring("a/ring.json"), ring("b/ring.json", key="collectors/ring"), ring("c", partitions=True)]
    assert labels(cluster.named(rings, "ring")) == ["a/ring.json", "b/ring.json"]
    assert labels(cluster.named(rings, "a/ring.json")) == ["a/ring.json"]
    assert labels(cluster.named(rings, "collectors/ring")) == ["b/ring.json"]
    assert labels(cluster.named(rings, "c")) == ["b/ring.json"], "rings of members come before partitions"
    assert cluster.named(rings, "other") == []


def test_of_kind() -> None:
    rings = [ring("s", told="segment-writer"), ring("t"), ring("p", told="partition-ring"), ring("?", told="")]
    assert labels(cluster.of_kind(rings, "auto")) == ["s", "t", "p", "?"]
    assert labels(cluster.of_kind(rings, "segment-writer")) == ["s", "?"]
    assert (
        labels(cluster.of_kind(rings, "partition-ring"))
        == labels(cluster.of_kind(rings, "token-ring"))
        == ["t", "p", "?"]
    )
    assert labels(cluster.of_kind(rings[1:3], "segment-writer")) == ["t", "p"], "the option says so"


def test_writable() -> None:
    assert labels(cluster.writable([ring("empty", members=0), ring("full")])) == ["full"]
    assert labels(cluster.writable([ring("empty", members=0)])) == ["empty"]


def test_kind_known() -> None:
    assert labels(cluster.kind_known([ring("a", strategy=""), ring("b")])) == ["b"]
    assert labels(cluster.kind_known([ring("a", strategy="")])) == ["a"]


def test_fresh() -> None:
    rings = [ring("old", beat=399), ring("new", beat=400), ring("newest", beat=1000)]
    assert labels(cluster.fresh(rings, 1000)) == ["new", "newest"]
    assert labels(cluster.fresh(rings, 5000)) == ["old", "new", "newest"], "the newest of all was left out before"


def test_first_kind() -> None:
    rings = [ring("p", strategy="partition-ring"), ring("?", strategy=""), ring("t"), ring("u")]
    assert labels(cluster.first_kind(rings)) == ["t", "u"]
    assert labels(cluster.first_kind([*rings, ring("s", strategy="segment-writer")])) == ["s"]


def test_main() -> None:
    rings = [ring("other", key="collectors/compactor"), ring("main", key="collectors/ring"), ring("page")]
    assert labels(cluster.main(rings)) == ["main", "page"]
    assert labels(cluster.main(rings[:1])) == ["other"]


def test_newest() -> None:
    rings = [ring("dump", kind="memberlist", now_ns=9), ring("page", now_ns=1), ring("older page", beat=999)]
    assert cluster.newest(rings)["label"] == "page"
    assert cluster.newest([*rings, ring("later page", now_ns=2)])["label"] == "later page"
    assert cluster.newest([*rings, ring("newer dump", kind="memberlist", beat=1001)])["label"] == "newer dump"
