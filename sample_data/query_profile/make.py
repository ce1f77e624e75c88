"""Make the sample: a small shop's PostgreSQL, seen through pg_stat_statements snapshots and the CPU of its processes.

``python -m sample_data.query_profile.make`` rewrites ``files/``. Everything is generated here, with a fixed seed. One class
waits for locks (much time, little CPU), two are short and frequent (little time, much CPU): what WLR gets wrong.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

FILES = Path(__file__).parent / "files"
START = 1_767_603_600
"""2026-01-05T09:00:00Z in epoch seconds."""

STEP = 10
"""Seconds between snapshots."""

SNAPSHOTS = 48
CORES = 4
PLAIN = (
    "shared_blks_hit", "shared_blks_read", "shared_blks_dirtied", "shared_blks_written", "local_blks_hit",
    "local_blks_read", "local_blks_dirtied", "local_blks_written", "temp_blks_read", "temp_blks_written",
    "blk_read_time", "blk_write_time", "temp_blk_read_time", "temp_blk_write_time", "wal_records", "wal_fpi",
    "wal_bytes", "jit_functions", "jit_generation_time", "jit_inlining_count", "jit_inlining_time",
    "jit_optimization_count", "jit_optimization_time", "jit_emission_count", "jit_emission_time",
)  # fmt: skip
"""The columns behind ``rows`` of the extension's version 1.10."""
HEADER = (
    "userid,dbid,toplevel,queryid,query,plans,total_plan_time,min_plan_time,max_plan_time,mean_plan_time,"
    "stddev_plan_time,calls,total_exec_time,min_exec_time,max_exec_time,mean_exec_time,stddev_exec_time,rows,"
    + ",".join(PLAIN)
)


@dataclass(frozen=True)
class Kind:
    """One query class: how often it runs (per second), what it costs (CPU ms per call: inside the timed part and
    around it), how long it waits (ms per call), rows per call, and how uneven its load is."""

    queryid: int
    query: str
    rate: float
    inside_ms: float
    around_ms: float
    wait_ms: float
    rows: int
    uneven: float
    pages: int


KINDS = (
    Kind(-6012274903115837741, "SELECT name, price FROM items WHERE id = $1", 900, 0.012, 0.07, 0.004, 1, 0.35, 4),
    Kind(2741398820554127003, "SELECT * FROM carts WHERE session = $1 AND\n closed IS NULL", 260, 0.03, 0.08, 0.01, 2, 0.4, 7),
    Kind(8830157662093344120, "SELECT count(*) FROM orders o JOIN items i ON i.id = o.item WHERE i.shelf = $1",
         1.6, 95, 0.4, 22, 1, 0.7, 5200),
    Kind(-1270446389920573318, "SELECT id FROM items WHERE words  to_tsquery($1) ORDER BY ts_rank(words, $1)",
         7, 28, 0.2, 5, 20, 0.5, 610),
    Kind(4410087236675519902, "UPDATE stock SET amount = amount - $1 WHERE item = $2", 45, 0.05, 0.14, 60, 1, 0.3, 9),
    Kind(-7755301942216038846, "INSERT INTO orders (item, amount, day) VALUES ($1, $2, now())",
         42, 0.04, 0.16, 0.9, 1, 0.4, 6),
    Kind(5539871220044716257, "SELECT shelf, sum(amount * price) FROM orders JOIN items USING (item) GROUP BY shelf",
         0.25, 620, 0.5, 140, 40, 1.0, 30500),
    Kind(-3390012875541106629, "SELECT pg_sleep($1)", 3, 0.02, 0.1, 400, 1, 0.1, 0),
)  # fmt: skip


@dataclass
class Server:
    """The server's counters from one snapshot to the next."""

    seed: int = 20260105
    at: int = START
    user_us: float = 41_000_000.0
    system_us: float = 9_000_000.0
    since: int = START - 3600
    evictions: int = 0
    dear: float = 1.0
    """Factor on the cost of the third class (its index is lost)."""
    totals: dict[int, list[float]] = field(default_factory=dict)
    levels: dict[int, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        for kind in KINDS:
            calls = round(kind.rate * 300)
            self.totals[kind.queryid] = [calls, calls * (kind.inside_ms + kind.wait_ms), calls * kind.rows]
            self.levels[kind.queryid] = 0.0

    def run(self) -> None:
        """Run for one step of ``STEP`` seconds."""
        self.at += STEP
        day = 1 + 0.35 * math.sin((self.at - START) / 400)
        cpu_ms = 60.0 * STEP / 10  # the server's own housekeeping
        for number, kind in enumerate(KINDS):
            level = self.levels[kind.queryid]
            level = 0.8 * level + math.sqrt(1 - 0.64) * self.random.gauss(0, kind.uneven)
            self.levels[kind.queryid] = level
            calls = max(0, round(kind.rate * STEP * day * math.exp(level) + self.random.gauss(0, 0.3)))
            dear = self.dear if number == 2 else 1.0
            cpu_ms += calls * (kind.inside_ms * dear + kind.around_ms)
            time_ms = calls * (kind.inside_ms * dear + kind.wait_ms * math.exp(self.random.gauss(0, 0.15)))
            total = self.totals[kind.queryid]
            total[0] += calls
            total[1] += time_ms
            total[2] += calls * kind.rows
        cpu_us = cpu_ms * 1000 * math.exp(self.random.gauss(0, 0.02))
        share = 0.8 + self.random.gauss(0, 0.01)
        # the kernel counts in ticks of 10 ms
        self.user_us += round(cpu_us * share, -4)
        self.system_us += round(cpu_us * (1 - share), -4)

    def reset(self) -> None:
        """Reset the statistics, as pg_stat_statements_reset() does."""
        for total in self.totals.values():
            total[:] = [0, 0.0, 0]
        self.since = self.at

    @property
    def stamp(self) -> str:
        """The moment as file names have it."""
        return datetime.fromtimestamp(self.at, UTC).strftime("%Y%m%dT%H%M%SZ")

    @property
    def iso(self) -> str:
        """The moment as columns have it."""
        return datetime.fromtimestamp(self.at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

    def snapshot(self) -> str:
        """Write what COPY (SELECT * FROM pg_stat_statements) TO STDOUT CSV HEADER would."""
        lines = [HEADER]
        for kind in KINDS:
            calls, time_ms, rows = self.totals[kind.queryid]
            if not calls:
                continue
            mean = time_ms / calls
            query = kind.query if "," not in kind.query and "\n" not in kind.query else f'"{kind.query}"'
            pages = kind.pages * calls
            hit = round(pages * 0.98)
            plain = {"shared_blks_hit": hit, "shared_blks_read": round(pages - hit), "blk_read_time": 0}
            lines.append(
                f"10,16384,t,{kind.queryid},{query},0,0,0,0,0,0,{round(calls)},{time_ms:.6f},{mean / 3:.6f},"
                f"{mean * 9:.6f},{mean:.6f},{mean / 2:.6f},{round(rows)},"
                + ",".join(str(plain.get(name, 0)) for name in PLAIN)
            )
        return "\n".join(lines) + "\n"

    def info(self) -> str:
        """Write a line of pg_stat_statements_info."""
        return f"{self.iso},{self.evictions},{datetime.fromtimestamp(self.since, UTC):%Y-%m-%d %H:%M:%S+00}\n"

    def stat(self) -> str:
        """Write a copy of /proc/stat of the host, which does little else."""
        user, system = int(self.user_us / 1e4), int(self.system_us / 1e4)
        idle = (self.at - START + 7200) * CORES * 100 - user - system
        each = "".join(
            f"cpu{i} {user // CORES} 0 {system // CORES} {idle // CORES} 0 0 0 0 0 0\n" for i in range(CORES)
        )
        return f"cpu  {user} 0 {system} {idle} 0 0 0 0 0 0\n{each}btime {START - 7200}\n"

    def cpu(self) -> str:
        """Write a line of the CPU of all server processes."""
        return f"{self.iso},{self.user_us:.0f},{self.system_us:.0f}\n"


def first(server: Server, target: Path) -> None:
    """Write the starting files below ``target``."""
    (target / "pgss").mkdir(parents=True, exist_ok=True)
    info, cpu = "captured_at,dealloc,stats_reset\n", "captured_at,user_us,system_us\n"
    for number in range(SNAPSHOTS):
        if number:
            server.run()
        (target / "pgss" / f"pgss-{server.stamp}.csv").write_text(server.snapshot(), encoding="utf-8")
        info += server.info()
        cpu += server.cpu()
    (target / f"stat-{server.stamp}.txt").write_text(server.stat(), encoding="utf-8")
    (target / "pgss_info.csv").write_text(info, encoding="utf-8")
    (target / "db_process_cpu.csv").write_text(cpu, encoding="utf-8")


if __name__ == "__main__":
    import shutil

    shutil.rmtree(FILES, ignore_errors=True)
    first(Server(), FILES)
