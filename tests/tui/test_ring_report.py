"""``report`` and ``check`` of ring placement as scripts call them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from engine.ring_placement.pyroscope.adaptive_placement import Rule, Rules
from engine.ring_placement.pyroscope.ring import Member
from sample_data.ring_placement.encode import write_rules
from tests.engine.ring_placement.cases import load, members, page, table
from tui.__main__ import main

SAMPLE = Path(__file__).parents[2] / "sample_data" / "ring_placement" / "files"


def report(capsys: pytest.CaptureFixture[str], folder: Path, *options: str, more: tuple[str, ...] = ()) -> Any:
    words = [part for option in options for part in ("-o", option)]
    assert main(["report", "ring-placement", str(folder), "--no-cache", *words, *more]) == 0
    return json.loads(capsys.readouterr().out)


def test_tables_of_a_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(SAMPLE, tmp_path / "data")
    found = report(capsys, tmp_path, "fail=segment-writer-0,zone:zone-b", "regime=left", "sweep=zones", "capacity=2MB")
    assert {"shards", "nodes", "placements", "sweep", "observed"} <= set(found["tables"])
    columns = {
        "shards": {"shard", "instance"},
        "nodes": {"instance", "state", "zone", "tokens", "load_before", "load_after", "capacity"},
        "placements": {
            "tenant", "dataset", "fingerprint", "tenant_shards", "dataset_shards", "shard", "instance", "candidates",
        },
        "sweep": {"down", "rejected_bytes", "rerouted_bytes", "moved_bytes", "datasets_touched"},
        "observed": {"source", "tenant", "dataset", "shard", "instance", "bytes"},
    }  # fmt: skip
    for name, wanted in columns.items():
        assert wanted <= set(found["tables"][name][0]), name
    for name in (
        "rejected_bytes", "rerouted_bytes", "moved_bytes", "needless_moved_bytes", "shards_with_changed_owner",
        "datasets_touched", "datasets_fully_on_down", "tenants_touched", "datasets_with_changed_shard_set",
    ):  # fmt: skip
        assert isinstance(found["summary"][name], int)
    nodes = found["tables"]["nodes"]
    assert len(nodes) == 12 and all(isinstance(n["load_after"], int) for n in nodes)
    assert {n["load_after"] for n in nodes if n["down"]} == {0}
    assert all(isinstance(row["down"], list) for row in found["tables"]["sweep"])
    assert all(1 <= len(row["candidates"]) <= 6 for row in found["tables"]["placements"])
    assert found["settings"]["regime"] == "left"
    one = report(capsys, tmp_path, more=("--table", "nodes"))
    assert set(one["tables"]) == {"nodes"} and "summary" in one


@pytest.mark.parametrize("file", ["rings_small.json", "rings_medium.json"])
def test_reference_keys_through_a_report(file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for case in load(file):
        chosen = {}
        for key in case["keys"]:
            size = key["dataset_size"]
            if (
                (key["tenant"], key["dataset"]) not in chosen
                and size
                and int(key["fingerprint"], 16) % size == key["offset"]
            ):
                chosen[key["tenant"], key["dataset"]] = key
        keys = [k for k in chosen.values() if not any(c in k["tenant"] + k["dataset"] for c in ',"\n')]
        folder = tmp_path / case["name"]
        folder.mkdir()
        rules = tuple(Rule(k["tenant"], k["dataset"], k["tenant_shards"], k["dataset_shards"], 1) for k in keys)
        (folder / "placement_rules.binpb").write_bytes(
            write_rules(Rules(tuple(dict.fromkeys(r.tenant for r in rules)), rules, 1))
        )
        (folder / "ring.json").write_bytes(page(members(case)))
        rows = [(k["tenant"], k["dataset"], 7, "0x" + k["fingerprint"]) for k in keys]
        (folder / "keys.csv").write_bytes(table(rows, "tenant,dataset,bytes_per_s,fingerprint"))
        found = report(capsys, folder)
        ids = case["sorted_ids"]
        placed = {(r["tenant"], r["dataset"]): r for r in found["tables"]["placements"]}
        assert len(placed) == len(keys)
        for key in keys:
            row = placed[key["tenant"], key["dataset"]]
            assert row["fingerprint"] == key["fingerprint"]
            assert (row["shard"], row["instance"]) == (key["shard"], key["owner"])
            assert (row["tenant_shards"], row["dataset_shards"]) == (key["tenant_shards"], key["dataset_shards"])
            assert row["candidates"] == [ids[i] for i in key.get("active", [])][:6]
            assert row["limits_from"] == "rule"


def test_check_names_what_would_not_be_survived(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cluster = [Member(f"w-{i}", "ACTIVE", f"z{i % 3}") for i in range(6)]
    (tmp_path / "ring.json").write_bytes(page(cluster))
    (tmp_path / "l.csv").write_bytes(table([(f"t{i % 3}", f"d{i}", 1000) for i in range(60)]))
    need = report(capsys, tmp_path)["summary"]["min_capacity_any_node"]
    words = ["check", "ring-placement", str(tmp_path), "--no-cache"]
    assert main(words) == 0
    capsys.readouterr()
    assert main([*words, "-o", f"capacity={need}"]) == 0
    capsys.readouterr()
    assert main([*words, "-o", f"capacity={need - 1}"]) == 1
    assert "over capacity" in capsys.readouterr().out


def test_check_names_drift(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(SAMPLE, tmp_path / "data")
    words = ["check", "ring-placement", str(tmp_path), "--no-cache"]
    assert main(words) == 0
    capsys.readouterr()
    ring = tmp_path / "data" / "ring.json"
    body = json.loads(ring.read_text())
    body["shards"][0]["state"] = "LEFT"
    ring.write_text(json.dumps(body))
    assert main(words) == 1
    out = capsys.readouterr().out
    assert "drift" in out and "segment-writer" in out


def test_nothing_to_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "notes.txt").write_text("nothing")
    assert main(["report", "ring-placement", str(tmp_path), "--no-cache"]) == 3


@pytest.mark.parametrize("command", ["report", "check"])
@pytest.mark.parametrize("option", ["fail=segment-writer-99", "fail=zone:nowhere", "leaving=x", "home-zone=y"])
def test_a_node_that_does_not_exist_is_a_usage_error(
    command: str, option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(SAMPLE, tmp_path / "data")
    assert main([command, "ring-placement", str(tmp_path), "--no-cache", "-o", option]) == 2
    said = capsys.readouterr()
    assert not said.out and option.split("=")[1].removeprefix("zone:") in said.err


def test_a_ring_that_is_not_there_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    """Not the numbers of no ring, nor those of another."""
    assert main(["report", "ring-placement", str(SAMPLE), "--no-cache", "-o", "ring=nosuch"]) == 2
    assert "'nosuch'; there are: " in capsys.readouterr().err
    report(capsys, SAMPLE, "ring=ring.json")
