"""Token rings and partition rings from files to tables, against dskit's own results."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import numpy as np
import pytest

from engine.core.view import Context
from engine.ring_placement.dskit.token_ring import SPACE
from engine.ring_placement.dskit.tokens import spread_minimizing_tokens
from engine.ring_placement.parameters import RingParameters
from engine.ring_placement.scenarios.scenario_state import live_state
from engine.ring_placement.view import VIEW
from tests.chance import every
from tests.engine.ring_placement.cases import inputs
from tests.engine.ring_placement.dskit.golden import load, token_values

STATES = {"ACTIVE": 0, "LEAVING": 1, "PENDING": 2, "JOINING": 3, "LEFT": 4}
REGIMES = {"errors": "transient", "heartbeat": "unhealthy", "gone": "left"}


def memberlist(case: dict[str, Any]) -> bytes:
    values = token_values(case) if any(i["tokens"] for i in case["instances"]) else {}
    return json.dumps({
        "ingesters": {
            i["id"]: {
                "addr": i["addr"], "timestamp": i["ts"], "state": STATES[i["state"]], "zone": i["zone"],
                "tokens": values[i["id"]].tolist() if values else [], "registered_timestamp": i["reg"],
                "read_only": i["ro"], "read_only_updated_timestamp": i["rots"],
            }
            for i in case["instances"]
        }
    }).encode()  # fmt: skip


def overrides(sizes: dict[str, int], key: str = "ingestion_tenant_shard_size") -> bytes:
    return json.dumps({"overrides": {tenant: {key: size} for tenant, size in sizes.items()}}).encode()


def compute(case: dict[str, Any], files: dict[str, bytes], **more: Any) -> Any:
    return VIEW.compute(inputs(files), parameters(case, **more), Context(now_ms=0))


def parameters(case: dict[str, Any], **more: Any) -> RingParameters:
    given: dict[str, Any] = {
        "strategy": "token-ring", "replication_factor": case.get("rf", 3), "now": str(case["now"]),
        "zone_awareness": "on" if case.get("za") else "off", "read_operation": "mimir", "safe_loss": 0.05,
    }  # fmt: skip
    return RingParameters(**(given | more))


def shard_cases(case: dict[str, Any], lookback: int) -> dict[str, int]:
    """Positions of the shards with ``lookback``, one for each tenant."""
    found: dict[str, int] = {}
    for number, shard in enumerate(case["shards"]):
        if shard["lookback"] == lookback:
            found.setdefault(shard["tenant"], number)
    return found


def cases() -> list[dict[str, Any]]:
    return [c for c in load("rings.json.gz")["rings"] if len(c["instances"]) <= 45]


@pytest.mark.parametrize("part", range(4))
def test_keys_tenants_and_failures(part: int) -> None:
    for which, case in list(enumerate(cases()))[part::4]:
        keys = "tenant,token\n" + "".join(f"whole ring,{k}\n" for k in case["keys"])
        number = {name: n for n, name in enumerate(case["sorted_ids"])}
        chosen = shard_cases(case, 0)
        sizes = {tenant: case["shards"][n]["size"] for tenant, n in chosen.items()}
        files = {"ring.json": memberlist(case), "keys.csv": keys.encode(), "overrides.yaml": overrides(sizes)}
        given, context = inputs(files), Context(now_ms=0)  # its memo: what no parameter changes is computed once a case
        read_only = any(i["ro"] for i in case["instances"])
        for operation in ("write_no_extend", *("write", "read")[which // 4 % every(2) :: every(2)]):
            result = VIEW.compute(given, parameters(case, operation=operation, lookback=0), context)
            found = {row["token"]: row for row in result.tables["placements"].iter_rows(named=True)}
            for key, expected in zip(case["keys"], case["get"][operation], strict=True):
                if not read_only:  # the shard of size 0 leaves read-only members out, Ring.Get does not
                    assert text(found[key], number) == expected, (case["name"], operation, key)
        nodes = result.tables["nodes"]
        owns = dict(zip(nodes["instance"], nodes["ownership"], strict=True))
        for name, own in zip(case["sorted_ids"], case["count_tokens"], strict=True):
            assert owns[name] == (own / SPACE if len(found) and result.summary["tokens"] else None)
        ranges = dict(zip(nodes["instance"], nodes["token_ranges"], strict=True))
        for name, text_ in zip(case["sorted_ids"], case.get("token_ranges", ()), strict=False):
            assert ranges[name] == (None if text_ == "!" else int(text_.partition("/")[0])), (case["name"], name)
        step = every(5 if len(case["instances"]) < 12 else 8)
        check_failures(case, case["failures"][which % min(step, 3) :: step], given, context, chosen)


def text(row: dict[str, Any], number: dict[str, int]) -> str:
    if row["error"] == "empty ring":
        return "!empty"
    if row["error"]:
        words = row["error"].split()
        return f"!{words[2]}/{row['error'].split('could only find ')[1].split()[0]}"
    return ".".join(str(number[name]) for name in row["replicas"]) + f"/{row['max_errors']}"


def check_failures(
    case: dict[str, Any], failures: list[dict[str, Any]], given: Any, context: Context, chosen: dict[str, int]
) -> None:
    for failure in failures:
        down = tuple(case["sorted_ids"][i] for i in failure["down"])
        p = parameters(case, fail=down, regime=REGIMES[failure["kind"]], lookback=0)
        result = VIEW.compute(given, p, context)
        where = (case["name"], failure["kind"], down)
        if "lost_write_no_extend" in failure:
            assert result.summary["write_lost_share"] == pytest.approx(
                failure["lost_write_no_extend"] / SPACE, rel=1e-9
            ), where
        assert result.summary["reads_ok"] == (failure["read"]["read_no_extend_ap"] == "ok"), where
        tenants = {row["tenant"]: row for row in result.tables["tenants"].iter_rows(named=True)}
        for tenant, n in chosen.items():
            expected = failure["shards"][n]
            assert tenants[tenant]["reads_ok"] == (expected["read"] == "ok"), (where, tenant)
            if "lost" in expected:
                assert tenants[tenant]["write_lost_share"] == pytest.approx(expected["lost"] / SPACE, rel=1e-9), (
                    where,
                    tenant,
                )
            indices = expected.get("i", case["shards"][n]["i"])
            assert tenants[tenant]["instances"] == [case["sorted_ids"][i] for i in indices], (where, tenant)


def test_shards_with_lookback() -> None:
    for case in cases():
        for lookback in {s["lookback"] for s in case["shards"]} - {0}:
            chosen = shard_cases(case, lookback)
            sizes = {tenant: case["shards"][n]["size"] for tenant, n in chosen.items()}
            files = {"ring.json": memberlist(case), "overrides.yaml": overrides(sizes)}
            tenants = compute(case, files, lookback=lookback).tables["tenants"]
            for row in tenants.iter_rows(named=True):
                expected = case["shards"][chosen[row["tenant"]]]
                assert row["read_instances"] == [case["sorted_ids"][i] for i in expected["i"]], (case["name"], row)
                assert row["reads_ok"] == isinstance(expected["read"], dict)


def test_sweeps() -> None:
    for case in cases():
        if "sweep" not in case:
            continue
        given, context = inputs({"ring.json": memberlist(case)}), Context(now_ms=0)
        if VIEW.compute(given, parameters(case), context).summary["write_lost_share"]:
            continue  # too few members for a quorum: nothing is left to lose
        single = {row["down"][0]: row["write_lost_share"] for row in
                  VIEW.compute(given, parameters(case, sweep="nodes"), context).tables["sweep"]
                  .iter_rows(named=True)}  # fmt: skip
        for name, lost in zip(case["sorted_ids"], case["sweep"]["single_lost"], strict=True):
            assert single[name] == pytest.approx(lost / SPACE, rel=1e-9, abs=1e-15), case["name"]
        if case["rf"] != 3 or max(case["sweep"]["single_lost"]) or len(case["instances"]) < 2:
            continue
        pairs = {tuple(row["down"]): row["write_lost_share"] for row in
                 VIEW.compute(given, parameters(case, sweep="pairs"), context).tables["sweep"]
                 .iter_rows(named=True)}  # fmt: skip
        shared = {(case["sorted_ids"][a], case["sorted_ids"][b]): n for a, b, n in case["sweep"]["pair_shared"]}
        for pair, lost in pairs.items():
            assert lost == pytest.approx(shared.get(pair, 0) / SPACE, rel=1e-9, abs=1e-15), (case["name"], pair)


@cache
def spread(partition: int) -> list[int]:
    return spread_minimizing_tokens(0, partition).tolist()


def test_partition_rings() -> None:
    for case in load("partition_rings.json.gz")["rings"]:
        page = {
            "partitions": {
                str(q["id"]): {"id": q["id"], "state": q["state"], "stateTimestamp": q["ts"],
                               "tokens": spread(q["id"])}
                for q in case["parts"]
            },
            "owners": {o["id"]: {"ownedPartition": o["part"], "state": o["state"]} for o in case["owners"]},
        }  # fmt: skip
        keys = "tenant,token\n" + "".join(f"whole ring,{k}\n" for k in case["keys"])
        lookbacks = sorted({s["lookback"] for s in case["shards"]})
        for first, lookback in enumerate(lookbacks):
            chosen = shard_cases(case, lookback)
            sizes = {tenant: case["shards"][n]["size"] for tenant, n in chosen.items()}
            files = {
                "ring.json": memberlist(case), "partitions.json": json.dumps(page).encode(), "keys.csv": keys.encode(),
                "overrides.yaml": overrides(sizes, "ingestion_partitions_tenant_shard_size"),
            }  # fmt: skip
            given, context = inputs(files), Context(now_ms=0)
            step = every(len(lookbacks) * (1 if len(case["parts"]) < 10 else 2))
            for entry in case["sets"][first % step :: step]:
                down = tuple(case["sorted_ids"][i] for i in entry["down"])
                for name, operation in (("read", "read"), ("read_no_extend_ap", "mimir")):
                    p = parameters(case, strategy="auto", fail=down, regime="unhealthy", lookback=lookback,
                                   read_operation=operation)  # fmt: skip
                    result = VIEW.compute(given, p, context)
                    tenants = {row["tenant"]: row for row in result.tables["tenants"].iter_rows(named=True)}
                    for tenant, n in chosen.items():
                        shard = case["shards"][n]
                        column = "read_partitions" if lookback else "partitions"
                        assert tenants[tenant][column] == shard["partitions"], (case["name"], tenant)
                        accepted = entry[f"{name}_tenants"][n] == "ok"
                        assert tenants[tenant]["reads_ok"] == accepted, (case["name"], down, tenant)
                    for row in result.tables["partitions"].iter_rows(named=True):
                        expected = entry[name][str(row["partition"])]
                        readers = [] if isinstance(expected, str) else [case["sorted_ids"][i] for i in expected["i"]]
                        assert sorted(row["readers"]) == sorted(readers)
            placed = {r["token"]: r["partition"] for r in result.tables["placements"].iter_rows(named=True)}
            assert [-1 if placed[k] is None else placed[k] for k in case["keys"]] == case["active"]


def test_a_ring_of_three_hundred() -> None:
    case = next(c for c in load("rings.json.gz")["rings"] if c["name"] == "d_n300_z3_t512")
    chosen = shard_cases(case, 0)
    sizes = {tenant: case["shards"][n]["size"] for tenant, n in chosen.items()}
    given = inputs({"ring.json": memberlist(case), "overrides.yaml": overrides(sizes)})
    failure = next(f for f in case["failures"] if f["kind"] == "errors")
    down = tuple(case["sorted_ids"][i] for i in failure["down"])
    result = VIEW.compute(given, parameters(case, fail=down, lookback=0), Context(now_ms=0))
    tenants = {row["tenant"]: row for row in result.tables["tenants"].iter_rows(named=True)}
    for tenant, n in chosen.items():
        assert tenants[tenant]["instances"] == [case["sorted_ids"][i] for i in case["shards"][n]["i"]]
        assert tenants[tenant]["reads_ok"] == (failure["shards"][n]["read"] == "ok")
    assert np.isclose(result.tables["nodes"]["replica_share"].sum(), 3 * (1 - 1 / 300) if len(down) == 1 else
                      result.tables["nodes"]["replica_share"].sum())  # fmt: skip


def test_rows_are_kept_while_the_topology_stays() -> None:
    """Another heartbeat or load lays nothing out again; another token, or time past the lookback, does."""
    case = next(c for c in load("rings.json.gz")["rings"] if c["name"] == "d_n12_z4_rf3")
    files = {
        "ring.json": memberlist(case),
        "overrides.yaml": overrides({"a": 4, "b": 8}),
        "keys.csv": b"tenant,token\na,7\n",
    }
    context = Context(now_ms=0)

    def rows(**more: Any) -> Any:
        changed = json.loads(files["ring.json"])
        for member in changed["ingesters"].values():
            member["timestamp"] += more.get("later", 0)
        if "token" in more:
            next(iter(changed["ingesters"].values()))["tokens"].append(more["token"])
        given = inputs({**files, "ring.json": json.dumps(changed).encode()}, version=len(versions) + 1)
        versions.append(given)
        now = case["now"] + more.get("later", 0)
        p = parameters(case, lookback=more.get("lookback", 46_800), now=str(now))
        return live_state(given, p, context).placement.rows, live_state(given, p, Context(now_ms=0)).placement.rows

    versions: list[Any] = []
    first, _ = rows()
    kept, fresh = rows(later=5)
    assert kept is first and (fresh.members == first.members).all() and (fresh.length == first.length).all()
    other, _ = rows(token=12345)
    assert other is not first
    back, fresh = rows(lookback=10_000_000)
    assert back is not first and [m.tolist() for m in back.reads] == [m.tolist() for m in fresh.reads]
