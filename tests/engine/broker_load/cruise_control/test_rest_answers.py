"""What ``--format upstream`` prints, against Cruise Control's own answers."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from engine.broker_load.view import VIEW
from engine.core.incremental import Memo
from engine.core.parameters import parse
from tests.engine.broker_load.inputs import compute, read
from tests.reference import reference

SETS = {"kafka": (), "topicrepl": ("metrics_topic_replication.csv",)}


@pytest.fixture(scope="module", params=list(SETS))
def printed(request: pytest.FixtureRequest) -> tuple[Path, Any]:
    """Folder of expected answers and a function that prints ours."""
    root = reference("broker-load") / "small"
    names = ("brokers.csv", "capacity.json", "metrics.csv", *SETS[request.param])
    native = (root / "native" / "log-dirs.txt", root / "native" / "topics-describe.txt")
    inputs, memo = read(*(root / "input" / name for name in names), *native), Memo()

    def answer(**options: str) -> str:
        pairs = list(options.items())
        text = VIEW.upstream(compute(inputs, *pairs, memo=memo), parse(VIEW.parameters, pairs))
        assert text is not None
        return text

    return root / f"expected_{request.param}", answer


def same(ours: Any, theirs: Any, relative: float = 2e-5) -> None:
    """Equal structure, numbers within single precision."""
    if isinstance(theirs, dict):
        assert set(ours) == set(theirs)
        for key in theirs:
            same(ours[key], theirs[key], relative)
    elif isinstance(theirs, list):
        assert len(ours) == len(theirs)
        for a, b in zip(ours, theirs, strict=True):
            same(a, b, relative)
    elif isinstance(theirs, float):
        assert ours == pytest.approx(theirs, rel=relative, abs=1e-9)
    else:
        assert ours == theirs


def same_text(ours: str, theirs: str) -> None:
    """Exact layout; a number's last digit may differ by one."""
    assert len(ours) == len(theirs)
    for a, b in zip(ours.split("\n"), theirs.split("\n"), strict=True):
        if a == b:
            continue
        number = r"-?\d+\.\d+"
        assert re.sub(number, "#", a) == re.sub(number, "#", b)
        for x, y in zip(re.findall(number, a), re.findall(number, b), strict=True):
            assert abs(int(x.replace(".", "")) - int(y.replace(".", ""))) <= 1, (x, y)


def test_load(printed: tuple[Path, Any]) -> None:
    """JSON by key, text by layout."""
    expected, answer = printed
    same(json.loads(answer(answer="load", **{"as": "json"})), json.loads((expected / "load.json").read_text()))
    same_text(answer(answer="load", **{"as": "text"}), (expected / "load.txt").read_text())


@pytest.mark.parametrize("resource", ["disk", "cpu"])
def test_partition_load(printed: tuple[Path, Any], resource: str) -> None:
    """Order of records only up to equal values."""
    expected, answer = printed
    name = f"partition_load_{resource}"

    def key(record: dict[str, Any]) -> tuple[str, int]:
        return record["topic"], record["partition"]

    ours = json.loads(answer(answer="partition_load", resource=resource.upper(), **{"as": "json"}))["records"]
    theirs = json.loads((expected / f"{name}.json").read_text())["records"]
    same(sorted(ours, key=key), sorted(theirs, key=key), 1e-6)
    same([r[resource] for r in ours], [r[resource] for r in theirs], 1e-6)
    text = answer(answer="partition_load", resource=resource.upper(), **{"as": "text"}).split("\n")
    wanted = (expected / f"{name}.txt").read_text().split("\n")
    assert text[0] == wanted[0]
    same_text("\n".join(sorted(text)), "\n".join(sorted(wanted)))


def test_cluster_state(printed: tuple[Path, Any]) -> None:
    """Topology answers are exact."""
    expected, answer = printed
    ours = json.loads(answer(answer="kafka_cluster_state", **{"as": "json"}))
    assert ours == json.loads((expected / "kafka_cluster_state.json").read_text())
    text = answer(answer="kafka_cluster_state", **{"as": "text"})
    assert text == (expected / "kafka_cluster_state.txt").read_text()


def test_partition_load_filters(printed: tuple[Path, Any]) -> None:
    """Topics by regular expression, a limit on entries."""
    records = json.loads(printed[1](answer="partition_load", topic="orders|payments", entries="4", **{"as": "json"}))[
        "records"
    ]
    assert len(records) == 4
    assert {record["topic"] for record in records} <= {"orders", "payments"}


def test_nan_load_is_refused_as_json_and_printed_as_text(tmp_path: Path) -> None:
    """As in Cruise Control: the JSON writer refuses NaN."""
    root = reference("broker-load") / "small" / "input"
    text = (root / "metrics.csv").read_text()
    text = re.sub(r"(BROKER_CPU_UTIL,1,,),[\d.]+", r"\1,NaN", text)
    (tmp_path / "metrics.csv").write_text(text)
    inputs = read(tmp_path / "metrics.csv", *(root / n for n in ("brokers.csv", "topology.csv", "capacity.json")))
    result = compute(inputs)
    assert "errorMessage" in json.loads(VIEW.upstream(result, parse(VIEW.parameters, [("as", "json")])) or "")
    assert ",           NaN," in (VIEW.upstream(result, parse(VIEW.parameters, [("as", "text")])) or "")
    assert result.tables["ledger"].filter(pl.col("kind") == "nan-cpu")["subject"].to_list() == ["broker 1"]
