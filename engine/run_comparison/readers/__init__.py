"""Readers of run outputs, one module per family of formats; ``READERS`` in the order of recognition."""

from __future__ import annotations

from engine.reading import FileKind
from engine.run_comparison.readers.buildlog import BuildLog
from engine.run_comparison.readers.clusterloader import ClusterLoaderReport
from engine.run_comparison.readers.csvseries import CsvSeries
from engine.run_comparison.readers.gobench import GoBenchmark
from engine.run_comparison.readers.jsontools import Fio, Hyperfine, Jmh, K6Summary, KubeBurner, Pyperf, PytestBenchmark
from engine.run_comparison.readers.metadata import RunMetadata
from engine.run_comparison.readers.sysbench import Sysbench

READERS: tuple[FileKind, ...] = (
    RunMetadata(), ClusterLoaderReport(), BuildLog(), GoBenchmark(), K6Summary(), PytestBenchmark(), Hyperfine(),
    Jmh(), Fio(), Pyperf(), KubeBurner(), Sysbench(), CsvSeries(),
)  # fmt: skip
