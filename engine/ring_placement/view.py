"""Ring placement: which writer holds which tenant's data, how even the load is, and what a failure does to the others.

The story: the files become one cluster (``reading``), its keys are placed on the ring as Pyroscope does (``pyroscope``),
the parameters change the ring or let members fail (``scenarios``), what goes beyond Pyroscope is derived from that
(``insight``), and all of it becomes tables and texts (``result``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from engine.inputs import Inputs
from engine.problems import Problem, fold
from engine.result import Level, Result
from engine.ring_placement import tables
from engine.ring_placement.insight.drift import observed_table
from engine.ring_placement.insight.explain import BadKey, Step, explain, parse_key
from engine.ring_placement.insight.findings import findings_of, minimum_capacity
from engine.ring_placement.parameters import RingParameters
from engine.ring_placement.pyroscope.limits import DEFAULTS, policy_of
from engine.ring_placement.reading.document import columns_of
from engine.ring_placement.reading.kinds import KINDS
from engine.ring_placement.result.detail import shard_map_view
from engine.ring_placement.result.layout_tables import node_table, shard_table, strategy_table
from engine.ring_placement.result.placements_table import placements_table
from engine.ring_placement.result.summary import headline_of, state_notes, summary_of
from engine.ring_placement.result.sweep_tables import comparison_table, sweep_of, sweep_table
from engine.ring_placement.scenarios.scenario_state import KEEP, Scenario, apply_scenario, live_state
from engine.view import Context, NoInput


class RingPlacement:
    """The view (see ``engine.view.View``)."""

    name = "ring-placement"
    title = "Ring placement"
    kinds: Sequence[Any] = KINDS
    parameters = RingParameters
    tables = tables.RESULTS
    fail_on: Level = "severe"

    def compute(self, inputs: Inputs, parameters: RingParameters, context: Context) -> Result:
        """Place the load of the newest files and apply the scenario. Raises NoInput without a ring and any load."""
        p, memo = parameters, context.memo
        state = live_state(inputs, p, context)
        cluster = state.cluster
        if cluster.ring is None and not any(x.height for x in (cluster.observed, cluster.stats, cluster.load)):
            raise NoInput("no ring page, memberlist key, stats, metrics, blocks or load table")
        s = apply_scenario(state, p, context)
        context.check()
        notes = [*state_notes(s, p), *cluster.notes, *s.notes]
        problems = list(s.problems)
        frames = {
            "nodes": node_table(s),
            "shards": shard_table(s, context),
            "placements": placements_table(s, p, memo, notes),
            "observed": memo.value(
                "observed", state.key, lambda: observed_table(cluster, state.placement.ring), keep=KEEP
            ),
        }
        if cluster.stats.height:
            frames["strategy"] = memo.value("strategy", state.key, lambda: strategy_table(state), keep=KEEP)
        sweep = sweep_of(s, p, context) if p.sweep else None
        if sweep is not None:
            frames["sweep"] = sweep_table(s, p, sweep, memo)
        if p.explain is not None:
            steps, error = _explained(s, p, p.explain)
            rows = [(number, *step) for number, step in enumerate(steps, 1)]
            frames["explain"] = tables.EXPLAIN.frame(columns_of(tables.EXPLAIN, rows))
            if error:
                problems.append(Problem.at("-o explain", "bad-option", error))
        if p.compare:
            frames["comparison"] = comparison_table(s, p, context)
        findings = findings_of(s, p, frames["observed"], context)
        summary = summary_of(s, p, frames["observed"], minimum_capacity(s, p, context), sweep, memo)
        return Result(
            self.name,
            summary,
            {table.name: frames[table.name] for table in tables.RESULTS if table.name in frames},
            headline=headline_of(s, summary),
            findings=tuple(findings),
            notes=tuple(notes),
            problems=fold([*inputs.problems, *problems]),
            newest_ms=inputs.newest_ms,
            at_ms=context.at_ms,
            detail=shard_map_view(s, p),
        )

    def upstream(self, result: Result, parameters: Any) -> str | None:
        """Return None: Pyroscope prints nothing of this."""
        return None


def _explained(s: Scenario, p: RingParameters, text: str) -> tuple[list[Step], str]:
    """Explain the key ``text``. Returns the steps and "", or no steps and why it is no key."""
    try:
        key = parse_key(text)
    except BadKey as error:
        return [], str(error)
    cluster = s.live.cluster
    policy = policy_of(key.tenant, key.dataset, cluster.rules, cluster.limits, DEFAULTS)
    policy = policy.with_limits(p.tenant_shards, p.dataset_shards)
    return explain(key, s.planned.ring, frozenset(s.down), policy), ""


VIEW = RingPlacement()
