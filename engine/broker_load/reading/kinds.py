"""File kinds of the broker load view, one module per family of formats."""

from __future__ import annotations

from engine.broker_load.reading.capacity_file import CapacityFile
from engine.broker_load.reading.cruise_control_answers import CruiseControlJson, CruiseControlText
from engine.broker_load.reading.kafka_tools import LogDirectories, Reassignment, TopicDescription
from engine.broker_load.reading.listings import ClusterListing
from engine.broker_load.reading.metric_scrape import MetricScrape
from engine.broker_load.reading.tabular import CsvRows, ParquetRows
from engine.core.reading import FileKind

KINDS: tuple[FileKind, ...] = (
    MetricScrape(),
    TopicDescription(),
    LogDirectories(),
    ClusterListing(),
    Reassignment(),
    CapacityFile(),
    CruiseControlJson(),
    CruiseControlText(),
    CsvRows(),
    ParquetRows(),
)
"""All kinds, in the order of the page of formats."""
