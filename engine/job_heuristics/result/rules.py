"""The heuristics of every kind of job, and the rules in force under the parameters."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from engine.job_heuristics.dr_elephant import heuristic
from engine.job_heuristics.dr_elephant.heuristic import Heuristic, Rules
from engine.job_heuristics.mapreduce.rules.heuristics import HEURISTICS as OF_MAPREDUCE
from engine.job_heuristics.mapreduce.rules.heuristics import QUEUE_LIMIT
from engine.job_heuristics.parameters import JobParameters
from engine.job_heuristics.spark.rules.heuristics import HEURISTICS as OF_SPARK
from engine.job_heuristics.tez.rules import HEURISTICS as OF_TEZ

DECLARED: tuple[Heuristic, ...] = (*OF_MAPREDUCE, *OF_SPARK, *OF_TEZ)


def default_rules() -> Rules[Heuristic]:
    """Return what Dr. Elephant ships switched on, with its default parameters."""
    return heuristic.default_rules(DECLARED)


@lru_cache(maxsize=8)
def configured_rules(name: str, data: bytes) -> Rules[Heuristic]:
    """Return the rules of a HeuristicConf.xml, see ``heuristic.read``."""
    return heuristic.read(name, data, DECLARED)


def rules_of(parameters: JobParameters) -> Rules[Heuristic]:
    """Return the rules in force under ``parameters``."""
    conf = parameters.heuristic_conf
    chosen = default_rules() if conf is None else configured_rules(conf.name, conf.data)
    chosen = replace(chosen, block_size=parameters.block_size)
    return chosen.also(QUEUE_LIMIT) if parameters.queue_limit else chosen
