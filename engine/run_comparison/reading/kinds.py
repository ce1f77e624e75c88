"""List the readers of run outputs, in the order of recognition."""

from __future__ import annotations

from engine.reading import FileKind
from engine.run_comparison.reading.buildlog import BuildLog
from engine.run_comparison.reading.clusterloader import ClusterLoaderReport
from engine.run_comparison.reading.csvseries import CsvSeries
from engine.run_comparison.reading.json_tools import Fio, Hyperfine, Jmh, K6Summary, KubeBurner, Pyperf, PytestBenchmark
from engine.run_comparison.reading.metadata import RunMetadata
from engine.run_comparison.reading.text_tools import GoBenchmark, Sysbench

READERS: tuple[FileKind, ...] = (
    RunMetadata(), ClusterLoaderReport(), BuildLog(), GoBenchmark(), K6Summary(), PytestBenchmark(), Hyperfine(),
    Jmh(), Fio(), Pyperf(), KubeBurner(), Sysbench(), CsvSeries(),
)  # fmt: skip
