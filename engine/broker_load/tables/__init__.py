"""The typed tables of the broker load view: what its readers deliver and what its results show."""

from __future__ import annotations

from engine.broker_load.tables import inputs, loads, plan, verdicts, whatif

RESULTS = (
    loads.BROKERS,
    loads.REPLICAS,
    loads.PARTITIONS,
    loads.SAMPLES,
    loads.WINDOWS,
    verdicts.GOALS,
    verdicts.BALANCE,
    verdicts.STATS,
    loads.DIRECTORIES,
    loads.HOSTS,
    loads.RACKS,
    loads.TOPICS,
    loads.BROKER_SAMPLES,
    whatif.FAILURES,
    whatif.FAILOVER_LEADERS,
    whatif.FAILOVER_BROKERS,
    whatif.FAILOVER_MIN_ISR,
    whatif.ROLLING,
    whatif.SCENARIO_BROKERS,
    whatif.SCENARIO_MOVES,
    whatif.ADD_BROKERS,
    *plan.TABLES,
    verdicts.REGRESSION,
    verdicts.COVERAGE,
    verdicts.SKIPPED,
    verdicts.LEDGER,
    verdicts.DIFFERENCES,
    inputs.ANSWER_GOALS,
)
"""All result tables, the main one first."""
