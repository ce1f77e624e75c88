"""Loads of log directories."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from engine.broker_load.reading.kinds import KINDS
from engine.core.reading import HEAD
from tests.engine.broker_load.clusters import MB, simple
from tests.engine.broker_load.inputs import compute, read


def test_directories_of_jbod(tmp_path: Path) -> None:
    """Each directory has its own load; offline and unlisted directories have null, not 0."""
    made = simple(tmp_path).write()
    (made / "capacity.json").write_text(
        '{"brokerCapacities": [{"brokerId": "1", "capacity": {"DISK": {"/d1": "100", "/d3": "50"}, "CPU": "100",'
        ' "NW_IN": "1000", "NW_OUT": "1000"}}]}'
    )
    part = '{"partition": "%s-0", "size": %d, "offsetLag": 0, "isFuture": false}'
    found = (
        '{{"logDir": "/d1", "error": null, "partitions": [{}, {}]}}, {{"logDir": "/d0", "error": null, "partitions": []}},'
        ' {{"logDir": "/d2", "error": "KafkaStorageException", "partitions": []}}'
    ).format(part % ("t", 10 * MB), part % ("u", 15 * MB))
    (made / "log-dirs.txt").write_text(f'{{"version": 1, "brokers": [{{"broker": 1, "logDirs": [{found}]}}]}}\n')
    rows = compute(read(made)).tables["directories"].filter(pl.col("broker") == 1)
    assert rows.select("log_dir", "replicas", "disk_mb", "capacity_mb", "disk_pct").rows() == [
        ("/d0", 0, 0.0, None, None), ("/d1", 2, 25.0, 100.0, 25.0), ("/d2", 0, None, None, None),
        ("/d3", None, None, 50.0, None),
    ]  # fmt: skip
    assert rows["error"].null_count() == 3


def shuffled(value: Any, rng: random.Random) -> Any:
    """The same JSON with its keys in another order."""
    if isinstance(value, dict):
        return {key: shuffled(value[key], rng) for key in rng.sample(sorted(value), len(value))}
    return [shuffled(item, rng) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize("seed", range(6))
def test_log_directories_alone_show_replicas_and_sizes(tmp_path: Path, seed: int) -> None:
    """The newest report counts, in any order of keys, on one line or several, once or twice in a file."""
    rng = random.Random(seed)

    def partition(topic: str, number: int, size: int, future: bool = False) -> dict[str, Any]:
        return {"partition": f"{topic}-{number}", "size": size, "offsetLag": 0, "isFuture": future}

    def answer(first: int) -> str:
        many = [partition("t-x", number, int(MB) * number) for number in range(first, 200)]
        dirs = [{"logDir": "/d", "error": None, "partitions": [*many, partition("t-x", 3, 5, future=True)]}]
        bad = [{"logDir": "/e", "error": "org.apache.kafka.common.errors.KafkaStorageException",
                "partitions": [partition("u", 0, int(MB))]}]  # fmt: skip
        brokers = [{"broker": 4, "logDirs": dirs}, {"broker": 7, "logDirs": bad}]
        indent = 1 if seed % 2 else None
        return json.dumps(shuffled({"version": 1, "brokers": brokers}, rng), indent=indent)

    lines = ["Querying brokers for log directories information", "Received log directory information from brokers 4,7"]
    lines += [answer(2), *lines, answer(0)] if seed in (2, 4) else [answer(0)]
    (tmp_path / "dirs.out").write_text("\n".join(lines) + "\n")
    head = (tmp_path / "dirs.out").read_bytes()[:HEAD]
    assert [kind.id for kind in KINDS if kind.recognise("dirs.out", head)] == ["log-directories"]
    result = compute(read(tmp_path))
    assert not result.problems
    brokers = result.tables["brokers"].select("broker", "replicas", "disk_mb", "source").rows()
    assert brokers == [(4, 200, 199 * 100.0, "reported"), (7, 1, 1.0, "reported")]
    replicas = result.tables["replicas"].select("topic", "partition", "broker", "disk_mb", "offline").rows()
    assert replicas == [("t-x", number, 4, float(number), False) for number in range(200)] + [("u", 0, 7, 1.0, True)]
    assert result.tables["directories"].select("broker", "log_dir", "replicas").rows() == [(4, "/d", 200), (7, "/e", 1)]
