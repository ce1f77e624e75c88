"""The file kinds of the query profile."""

from __future__ import annotations

from engine.core.reading import FileKind
from engine.query_profile.reading.counter_readers import CumulativeCsv, PidStat, ProcStat
from engine.query_profile.reading.exporter_series import ExporterSeries
from engine.query_profile.reading.mysql_digest import MysqlDigest
from engine.query_profile.reading.percent_readers import DockerStats, SadfCsv, Sysstat, Vmstat
from engine.query_profile.reading.pg_names import PgNames
from engine.query_profile.reading.pgss import KcacheCsv, PgssCsv, PgssInfo, PgssJson
from engine.query_profile.reading.pt_query_digest import PtQueryDigest
from engine.query_profile.reading.slowlog import SlowLog
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
