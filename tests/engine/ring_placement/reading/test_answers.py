"""Answers of Prometheus and VictoriaMetrics place what the text they were made of places."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.result import Result
from engine.ring_placement.parameters import RingParameters
from tests.contract.samples import opened
from tests.reference import reference


def placed(folder: Path, ring: Path, feed: Path) -> Result:
    folder.mkdir()
    (folder / "ring3.page.json").write_bytes(ring.read_bytes())
    (folder / feed.name).write_bytes(feed.read_bytes())
    session = opened("ring-placement", folder)
    try:
        return session.compute("ring-placement", RingParameters())
    finally:
        session.close()


@pytest.mark.parametrize("name", ["vector.json", "export.jsonl"])
def test_an_answer_places_what_the_text_does(tmp_path: Path, name: str) -> None:
    native = reference("ring-placement") / "native"
    of_text = placed(tmp_path / "text", native / "ring3.page.json", native / "metrics.prom")
    of_answer = placed(tmp_path / "answer", native / "ring3.page.json", reference("feeds") / "ring" / name)
    assert not of_answer.problems
    for table in ("nodes", "shards"):
        assert of_answer.tables[table].equals(of_text.tables[table]), table
        assert of_answer.tables[table].height
