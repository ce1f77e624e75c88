"""The ordered list of the views. Importing it is cheap: a view's package is imported when the view is asked for."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from engine.core.view import View


class Entry(msgspec.Struct, frozen=True):
    """One view by ``name``; ``module`` holds its ``VIEW``; ``reads`` says in one line which files it reads,
    for the tab without data; ``effort``: how much longer its readers take for a byte than those of job histories."""

    name: str
    title: str
    module: str
    reads: str
    effort: int = 1

    def load(self) -> View:
        """Import and return the view."""
        return importlib.import_module(self.module).VIEW


VIEWS: tuple[Entry, ...] = (
    Entry(
        "broker-load",
        "Broker load",
        "engine.broker_load.view",
        "JMX and node exporter scrapes, kafka-topics and kafka-log-dirs output, capacity.json, Cruise Control answers",
        effort=20,
    ),
    Entry(
        "job-heuristics",
        "Job heuristics",
        "engine.job_heuristics.view",
        "Hadoop job histories (.jhist, text or binary) with their _conf.xml, Spark event logs, REST answers as files",
    ),
    Entry(
        "query-profile",
        "Query profile",
        "engine.query_profile.view",
        "WLR CSV, pg_stat_statements snapshots, MySQL digests and slow logs, /proc/stat, vmstat, mpstat or sadf",
    ),
    Entry(
        "run-comparison",
        "Run comparison",
        "engine.run_comparison.view",
        "k6, JMeter, Gatling, locust, wrk, hey, ab, vegeta, oha, ghz, autocannon, pgbench, sysbench, YCSB, fio, hyperfine, JMH, "
        "Google Benchmark, Catch2, criterion, Go, pytest-benchmark, pyperf, asv, BenchmarkDotNet, ClusterLoader2, kube-burner, "
        "histories as CSV",
    ),
    Entry(
        "ring-placement",
        "Ring placement",
        "engine.ring_placement.view",
        "ring pages of Pyroscope, Mimir, Loki, Tempo, memberlist keys, overrides YAML, placement stats, metrics",
    ),
)


def entry(name: str) -> Entry:
    """The entry called ``name`` (hyphen or underscore). Raises KeyError."""
    wanted = name.replace("_", "-")
    for found in VIEWS:
        if found.name == wanted:
            return found
    raise KeyError(name)
