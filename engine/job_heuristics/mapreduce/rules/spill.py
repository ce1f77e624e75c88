"""Mapper Spill: maps write their output records to disk more than once."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from engine.job_heuristics.dr_elephant.display import each, java_double, plain
from engine.job_heuristics.dr_elephant.gates import Array, Branch, Gate, Subject, ratio
from engine.job_heuristics.mapreduce.model.model import Job, number
from engine.job_heuristics.mapreduce.rules.heuristic import MapReduceHeuristic
from engine.job_heuristics.mapreduce.rules.side_stats import divided, total
from engine.job_heuristics.mapreduce.rules.time import TASKS

_DECIMALS = 10_000
"""Dr. Elephant compares the ratio times this, cut to a whole number, with the limits times this."""


def _ratio(subject: Subject) -> Array:
    """Return records spilled per record written; infinite if records were spilled and none written."""
    spilled = subject["sum_spilled_records"]
    return np.where(spilled == 0, 0.0, ratio(spilled, subject["sum_map_output_records"]))


# The ratio is truncated after four decimals, the limits are not: exactly 2.01 is below 2.01.
CUT = Gate(
    key="spill", label="records spilled per output record", unit="10000",
    value=lambda s: np.trunc(_ratio(s) * _DECIMALS), limits="spill_severity", scale=_DECIMALS,
)  # fmt: skip
EXACT = Gate(key="spill", label="records spilled per output record", value=_ratio, limits="spill_severity")


def _details(subject: Subject) -> Mapping[str, list[str]]:
    some = np.maximum(subject["n"], 1)
    spilled, written = subject["sum_spilled_records"], subject["sum_map_output_records"]
    return {
        "Number of tasks": plain(subject["n"]),
        "Avg spilled records per task": plain(divided(spilled, some)),
        "Avg output records per task": plain(divided(written, some)),
        "Ratio of spilled records to output records": each(java_double, _ratio(subject)),
    }


def _advice(level: int, job: Job) -> str:
    spilled, records = float(job.maps.spilled.sum()), float(job.maps.out_records.sum())
    times = f"{spilled / records:.2f} times" if records else "without any output"
    if not level:
        return f"Each output record is spilled {times}." if records else "Maps write no records to sort."
    buffer = int(number(job.conf, "mapreduce.task.io.sort.mb", 100))
    return (
        f"Each output record is written to disk {times}; once would do. Raise mapreduce.task.io.sort.mb above {buffer} (and "
        f"mapreduce.map.sort.spill.percent above {number(job.conf, 'mapreduce.map.sort.spill.percent', 0.8):g}), add a combiner, "
        f"or compress the map output."
    )


HEURISTICS = (
    MapReduceHeuristic(
        name="Mapper Spill",
        class_name="MapperSpillHeuristic",
        order=4,
        side="map",
        limits={"spill_severity": (2.01, 2.2, 2.5, 3.0), "num_tasks_severity": (50, 100, 500, 1000)},
        measures=(total("spilled_records", of_all=True), total("map_output_records", of_all=True)),
        branches=(Branch((CUT, TASKS)),),
        published=(Branch((EXACT, TASKS)),),
        difference="the published description compares the ratio itself, Dr. Elephant the ratio cut after four decimals",
        details=_details,
        advice=_advice,
    ),
)
