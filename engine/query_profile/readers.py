"""The file kinds that the query profile understands, in the order of recognition."""

from __future__ import annotations

from engine.query_profile.hostcpu import CumulativeCsv, NodeExporter, PidStat, ProcStat
from engine.query_profile.hostrates import DockerStats, SadfCsv, Sysstat, Vmstat
from engine.query_profile.mysql_digest import MysqlDigest
from engine.query_profile.pgss import PgssCsv, PgssInfo, PgssJson
from engine.query_profile.ptqd import PtQueryDigest
from engine.query_profile.slowlog import SlowLog
from engine.query_profile.wlr_csv import WlrCsv
from engine.reading import FileKind

KINDS: tuple[FileKind, ...] = (
    WlrCsv(),
    PgssCsv(),
    PgssJson(),
    PgssInfo(),
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
    NodeExporter(),
)
