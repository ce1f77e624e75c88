"""List the readers of run outputs."""

from __future__ import annotations

from engine.core.reading import FileKind
from engine.run_comparison.reading import clusterloader, json_tools, metadata, text_tools

READERS: tuple[FileKind, ...] = (
    metadata.RunMetadata(),
    clusterloader.ClusterLoaderReport(),
    clusterloader.BuildLog(),
    text_tools.CsvSeries(),
    json_tools.K6Summary(),
    json_tools.PytestBenchmark(),
    json_tools.Hyperfine(),
    json_tools.Jmh(),
    json_tools.Fio(),
    json_tools.Pyperf(),
    json_tools.KubeBurner(),
    text_tools.GoBenchmark(),
    text_tools.Sysbench(),
)
"""Every reader that recognises a file reads it; the order is that of the page of formats."""
