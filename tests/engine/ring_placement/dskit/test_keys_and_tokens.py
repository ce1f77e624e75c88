"""Token functions and token generators against upstream's own results."""

from __future__ import annotations

import numpy as np
import pytest

from engine.ring_placement.dskit.token_ring import first_draws
from engine.ring_placement.dskit.tokens import (
    fnv1,
    fnv1_each,
    parse_labels,
    random_tokens,
    series_bytes,
    spread_minimizing_tokens,
    text_bytes,
    trace_bytes,
)
from engine.ring_placement.pyroscope.prng import GoRand
from tests.engine.ring_placement.dskit.golden import digest, load


def test_tokens_of_keys() -> None:
    for entry in load("token_functions.json")["tokens"]:
        tenant = entry["tenant"]
        match entry["kind"]:
            case "mimir_metadata":
                data = text_bytes(tenant, entry["metric"])
            case "loki_stream":
                data = text_bytes(tenant, entry["stream"])
            case "tempo_trace":
                data = trace_bytes(tenant, entry["trace_id"])
            case _:
                data = series_bytes(tenant, entry["labels"])
        assert fnv1(data) == entry["token"], entry
        assert fnv1_each([data]).tolist() == [entry["token"]]


def test_many_tokens_at_once() -> None:
    rng = np.random.default_rng(3)
    texts = [rng.bytes(int(n)) for n in rng.integers(0, 40, 300)]
    assert fnv1_each(texts).tolist() == [fnv1(text) for text in texts]


def test_spread_minimizing_tokens() -> None:
    for entry in load("tokens_and_seeds.json")["spread_minimizing"]:
        tokens = spread_minimizing_tokens(entry["zone_id"], entry["instance"]).tolist()
        assert (tokens[:4], tokens[-4:], len(tokens)) == (entry["first"], entry["last"], entry["count"])
        assert digest(tokens) == entry["md5"]


def test_random_tokens() -> None:
    for entry in load("tokens_and_seeds.json")["random"]:
        tokens = random_tokens(entry["seed"], entry["count"]).tolist()
        assert digest(tokens) == entry["md5"]


@pytest.mark.parametrize(
    ("text", "labels"),
    [
        ("up", [("__name__", "up")]),
        (' up { a = "b" , c="" , } '.strip(), [("__name__", "up"), ("a", "b"), ("c", "")]),
        (r'{a="x\n\"y\\", b.c="é{}"}', [("a", 'x\n"y\\'), ("b.c", "é{}")]),
        ("{}", []),
        ("", []),
    ],
)
def test_labels_of_a_series(text: str, labels: list[tuple[str, str]]) -> None:
    assert parse_labels(text) == labels


@pytest.mark.parametrize("text", ['up{a="b",', 'up{a="b"', "up{a=b}", '{a="b" "c"}', '{a="b";c="d"}', '{="b"}'])
def test_text_that_is_not_a_series(text: str) -> None:
    with pytest.raises(ValueError, match="a label set"):
        parse_labels(text)


def test_seeds_that_go_treats_as_zero() -> None:
    for seed in (0, 2**31 - 1):
        random = GoRand(seed)
        assert first_draws([seed], 5).tolist() == [[x >> 31 & 2**32 - 1 for x in random.uint64s(5).tolist()]]
