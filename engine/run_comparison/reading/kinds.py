"""List the readers of run outputs."""

from __future__ import annotations

from engine.core.reading import FileKind
from engine.run_comparison.reading import benchmark_tools, clusterloader, json_tools, load_tools, metadata, text_tools

READERS: tuple[FileKind, ...] = (
    metadata.RunMetadata(),
    clusterloader.ClusterLoaderReport(),
    clusterloader.BuildLog(),
    text_tools.CsvSeries(),
    *json_tools.READERS,
    text_tools.GoBenchmark(),
    *benchmark_tools.READERS,
    *load_tools.READERS,
    *text_tools.READERS,
)
"""Every reader that recognises a file reads it; the order is that of the page of formats."""
