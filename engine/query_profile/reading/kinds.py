"""The file kinds of the query profile."""

from __future__ import annotations

from engine.core.reading import FileKind
from engine.query_profile.reading.cpu_readers import (
    CgroupCpu,
    CumulativeCsv,
    DockerStats,
    PidStat,
    Pidstat,
    ProcStat,
    SadfCsv,
    Sysstat,
    Vmstat,
)
from engine.query_profile.reading.exporter_series import ExporterSeries
from engine.query_profile.reading.mysql import MysqlDigest, PtQueryDigest, SlowLog, SlowTable
from engine.query_profile.reading.pgss import KcacheCsv, PgNames, PgssCsv, PgssInfo, PgssJson, PgStatMonitor
from engine.query_profile.reading.postgres_log import CarriedLog, PostgresCsv, PostgresJson, PostgresStderr
from engine.query_profile.reading.wlr_csv import WlrCsv

KINDS: tuple[FileKind, ...] = (
    WlrCsv(),
    PgssCsv(),
    PgssJson(),
    PgssInfo(),
    PgNames(),
    KcacheCsv(),
    PgStatMonitor(),
    MysqlDigest(),
    SlowLog(),
    SlowTable(),
    PtQueryDigest(),
    PostgresStderr(),
    PostgresCsv(),
    PostgresJson(),
    CarriedLog(),
    CumulativeCsv(),
    ProcStat(),
    PidStat(),
    CgroupCpu(),
    Pidstat(),
    Vmstat(),
    Sysstat(),
    SadfCsv(),
    DockerStats(),
    ExporterSeries(),
)
