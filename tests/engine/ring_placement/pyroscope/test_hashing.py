"""The generator, the permutation, hashes, jump and candidate order against Pyroscope's numbers."""

from __future__ import annotations

from itertools import takewhile

import numpy as np

from engine.ring_placement.pyroscope import prng
from engine.ring_placement.pyroscope import ring as hashing
from engine.ring_placement.pyroscope import ring as subrings
from tests.engine.ring_placement.cases import digest, load


def test_the_table_is_computed() -> None:
    cells = prng.cooked()
    assert len(cells) == 607
    assert int(cells[0].astype(np.int64)) == -4181792142133755926
    assert int(cells[606]) == 0x39A00A3A31C025C6 & (2**64 - 1)


def test_generator() -> None:
    for case in load("prng_perm.json")["rng"]:
        drawn = prng.GoRand(case["seed"]).uint64s(5001)
        assert [f"{x:016x}" for x in drawn[:8].tolist()] == case["uint64_first8_hex"]
        assert [f"{int(drawn[i]):016x}" for i in (607, 1000, 5000)] == case["uint64_at_607_1000_5000_hex"]
        assert [x & (2**63 - 1) for x in drawn[:4].tolist()] == case["int63_first4"]
        bounds, values = zip(*takewhile(lambda pair: pair[0] < 2**31, case["intn_n_value_sequence"]), strict=True)
        assert prng.GoRand(case["seed"]).intn_each(np.array(bounds)).tolist() == list(values)


def test_draws_beyond_the_last_whole_multiple_of_the_bound_are_drawn_again() -> None:
    # Bounds just above a power of two reject almost half of all draws.
    bounds = [2**30 + 1, 7, 2**30 + 1, 2**20, 3] * 200
    numbers = iter(((prng.GoRand(42).uint64s(4000) >> np.uint64(32)) & np.uint64(2**31 - 1)).tolist())
    expected = [next(x for x in numbers if x < 2**31 - 2**31 % bound) % bound for bound in bounds]
    assert prng.GoRand(42).intn_each(np.array(bounds)).tolist() == expected


def test_steps_and_permutations() -> None:
    case = load("prng_perm.json")
    assert prng.steps(256).tolist() == case["steps_first_256"]
    assert digest(prng.steps(4096).tolist()) == case["steps_4096_xxh64"]
    assert digest(prng.steps(20000).tolist()) == case["steps_20000_xxh64"]
    for one in case["perm"]:
        assert prng.permutation(one["n"]).tolist() == one["v"]
    for one in case["perm_digest"]:
        assert digest(prng.permutation(one["n"]).tolist()) == one["xxh64"]


def test_hashes() -> None:
    case = load("hash_jump.json")
    for one in case["xxh64"]:
        assert hashing.hex16(hashing.xxh64(one["s"])) == one["xxh64"]
    for one in case["labels"]:
        assert hashing.hex16(hashing.series_fingerprint(one["labels"])) == one["fingerprint"]


def test_jump() -> None:
    cases = load("hash_jump.json")["jump"]
    keys = np.array([int(c["key"], 16) for c in cases], dtype=np.uint64)
    buckets = np.array([c["buckets"] for c in cases])
    expected = [c["bucket"] for c in cases]
    assert hashing.jump(keys, buckets).tolist() == expected
    for count in (0, 1, 2, 7, 64, 300):
        assert hashing.jump(keys, count).tolist() == hashing.jump(keys, np.full(len(keys), count)).tolist()


def test_candidate_order() -> None:
    for case in load("candidate_order.json"):
        order = subrings.candidate_positions(case["n"], *case["abcd"], case["offset"])
        assert order == case["shard_order"]


def test_parse_hash() -> None:
    assert hashing.parse_hash("0xFF") == 255
    assert hashing.parse_hash("ef46db3751d8e999") == 0xEF46DB3751D8E999
    for bad in ("", "0x", "g", "0123456789abcdef0", "-1", "1 2"):
        assert hashing.parse_hash(bad) is None
