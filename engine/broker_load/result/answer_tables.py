"""Result rows of Cruise Control's own answers, beside the model's."""

from __future__ import annotations

import polars as pl

from engine.broker_load.insight import answer_differences
from engine.broker_load.insight.answer_differences import MODEL, SHARED
from engine.broker_load.parameters import CpuWeights
from engine.broker_load.result.result_builder import ResultBuilder
from engine.broker_load.tables.inputs import ANSWER_GOALS
from engine.broker_load.tables.loads import BROKERS, DIRECTORIES, REPLICAS
from engine.broker_load.tables.verdicts import DIFFERENCES
from engine.core.view import Finding, Inputs


def add(inputs: Inputs, has_loads: bool, builder: ResultBuilder, weights: CpuWeights) -> None:
    """Add the answers' rows to ``brokers``, ``replicas`` and ``directories``, and the table of differences.

    ``has_loads``: the model has loads to compare the answers with.
    """
    answers, records, frames = inputs.table("answer_brokers"), inputs.table("answer_partitions"), builder.frames
    ours = frames.get("brokers", BROKERS.empty())
    if answers.height:
        shown = answer_differences.one_per_broker(answers)
        capacities = ("nw_in_cap_kbs", "nw_out_cap_kbs", "disk_cap_mb")
        source = pl.lit("upstream").alias("source")
        rows = BROKERS.frame(shown.select("broker", "host", "rack", "state", *SHARED, *capacities, source))
        frames["brokers"] = BROKERS.sorted(pl.concat([ours, rows]))
        dirs = answer_differences.directories(inputs, shown)
        if dirs.height:
            names = [name for name in DIRECTORIES.schema if name in dirs.columns]
            every = [frames.get("directories", DIRECTORIES.empty()), DIRECTORIES.frame(dirs.select(*names, source))]
            frames["directories"] = DIRECTORIES.sorted(pl.concat(every))
    if records.height:
        frames["replicas"] = pl.concat(
            [frames.get("replicas", REPLICAS.empty()), answer_differences.replicas(records, weights)]
        )
    if answers.height or records.height:
        differences = answer_differences.find(inputs, ours if has_loads else None)
        frames["answer_differences"] = DIFFERENCES.frame(
            pl.DataFrame(differences, schema=DIFFERENCES.schema, orient="row")
        )
        builder.notes.append(
            f"Cruise Control answers are shown as source upstream; {len(differences)} of their numbers differ"
        )
        internal = [difference for difference in differences if difference[5] != MODEL]
        if internal:
            builder.findings.append(
                Finding("moderate", "Cruise Control answer", f"{len(internal)} numbers contradict its own others")
            )
    goals = inputs.table("answer_goals")
    if goals.height:
        frames["answer_goals"] = ANSWER_GOALS.frame(goals.select(list(ANSWER_GOALS.schema)))
