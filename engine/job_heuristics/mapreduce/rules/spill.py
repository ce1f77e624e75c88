"""Mapper Spill: maps write their output records to disk more than once."""

from __future__ import annotations

from engine.job_heuristics.dr_elephant.gates import Branch, Gate
from engine.job_heuristics.dr_elephant.side_rules import (
    SPILL,
    TASKS,
    spill_ratio,
)
from engine.job_heuristics.mapreduce.model.model import Job, number
from engine.job_heuristics.mapreduce.rules.heuristic import MapReduceHeuristic

EXACT = Gate(key="spill", label="records spilled per output record", value=spill_ratio, limits="spill_severity")


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
        **SPILL,
        published=(Branch((EXACT, TASKS)),),
        difference="the published description compares the ratio itself, Dr. Elephant the ratio cut after four decimals",
        advice=_advice,
    ),
)
