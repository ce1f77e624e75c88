"""File kinds of the broker load view, one module per family of formats."""

from __future__ import annotations

from engine.broker_load.reading.answers import CruiseControlJson, CruiseControlText
from engine.broker_load.reading.capacity import CapacityFile
from engine.broker_load.reading.describe import TopicDescription
from engine.broker_load.reading.json_tools import LogDirectories, Reassignment
from engine.broker_load.reading.records import SampleRecords
from engine.broker_load.reading.scrape import MetricScrape
from engine.broker_load.reading.tabular import CsvRows, ParquetRows
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
