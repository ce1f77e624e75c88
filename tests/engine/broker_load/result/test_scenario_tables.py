"""Demotion and options that name nothing."""

from __future__ import annotations

from pathlib import Path

from tests.engine.broker_load.clusters import Cluster, simple
from tests.engine.broker_load.inputs import compute, read


def test_demotion_moves_leaders_and_list_places(tmp_path: Path) -> None:
    """The demoted broker goes to the end of every list it is in; the first other replica leads; a lone one stays."""
    made = Cluster(tmp_path)
    for number, (leader, replicas) in enumerate([(1, "1|2|3"), (2, "2|1|3"), (3, "3|2"), (1, "1"), (2, "3|2|1")]):
        made.partition("t", number, leader, replicas)
    for broker in made.ids:
        made.totals(broker, 0.5)
    result = compute(read(made.write()), ("demote", "1"))
    moves = result.tables["scenario_moves"].select("partition", "old_leader", "new_leader", "new_replicas").rows()
    assert moves == [(0, 1, 2, [2, 3, 1]), (1, 2, 2, [2, 3, 1])]
    assert result.tables["scenario_brokers"]["state"].to_list() == ["DEMOTED", "ALIVE", "ALIVE"]
    assert any("1 have no other live replica" in note for note in result.notes)


def test_an_unknown_broker_in_fail_is_a_problem(tmp_path: Path) -> None:
    """As in every view: a script sees it in ``problems``, not in a sentence only."""
    given = read(simple(tmp_path).write())
    for option in ("fail", "demote"):
        found = [(p.path, p.kind) for p in compute(given, (option, "1,rack:none")).problems]
        assert found == [(f"-o {option}", "bad-option")]
