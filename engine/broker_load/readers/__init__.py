"""File kinds of the broker load view, one module per family of formats."""

from __future__ import annotations

from engine.broker_load.readers.answers import CruiseControlJson, CruiseControlText
from engine.broker_load.readers.capacity import CapacityFile
from engine.broker_load.readers.describe import TopicDescription
from engine.broker_load.readers.json_tools import LogDirectories, Reassignment
from engine.broker_load.readers.records import SampleRecords
from engine.broker_load.readers.scrape import MetricScrape
from engine.broker_load.readers.tabular import CsvRows, ParquetRows
from engine.reading import FileKind

KINDS: tuple[FileKind, ...] = (
    MetricScrape(),
    TopicDescription(),
    LogDirectories(),
    Reassignment(),
    CapacityFile(),
    CruiseControlJson(),
    CruiseControlText(),
    SampleRecords(),
    CsvRows(),
    ParquetRows(),
)
"""All kinds in the order of recognition."""

__all__ = ["KINDS"]
