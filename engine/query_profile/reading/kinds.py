"""The file kinds of the query profile."""

from __future__ import annotations

from engine.core.reading import FileKind
from engine.query_profile.reading.cpu_readers import (
    CumulativeCsv,
    DockerStats,
    PidStat,
    ProcStat,
    SadfCsv,
    Sysstat,
    Vmstat,
)
from engine.query_profile.reading.exporter_series import ExporterSeries
from engine.query_profile.reading.mysql import MysqlDigest, PtQueryDigest, SlowLog
from engine.query_profile.reading.pgss import KcacheCsv, PgNames, PgssCsv, PgssInfo, PgssJson
from engine.query_profile.reading.wlr_csv import WlrCsv

KINDS: tuple[FileKind, ...] = (
    WlrCsv(),
    PgssCsv(),
    PgssJson(),
    PgssInfo(),
    PgNames(),
    KcacheCsv(),
    MysqlDigest(),
    SlowLog(),
    PtQueryDigest(),
    CumulativeCsv(),
    ProcStat(),
    PidStat(),
    Vmstat(),
    Sysstat(),
    SadfCsv(),
    DockerStats(),
    ExporterSeries(),
)
