"""Token functions and token generators against upstream's own results."""

from __future__ import annotations

import numpy as np

from engine.ring_placement.dskit.keys import fnv1, fnv1_each, series_bytes, text_bytes, trace_bytes
from engine.ring_placement.dskit.tokens import random_tokens, spread_minimizing_tokens
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
