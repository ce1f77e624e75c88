from engine.job_heuristics.tables.insight import *  # noqa: F403
