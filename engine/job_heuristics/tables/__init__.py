"""The tables of job heuristics: what readers deliver, the model assembled from it, and what results show."""

from engine.job_heuristics.tables.input import *  # noqa: F403
from engine.job_heuristics.tables.model import *  # noqa: F403
from engine.job_heuristics.tables.result import *  # noqa: F403
