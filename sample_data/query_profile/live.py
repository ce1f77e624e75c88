"""Play the sample as a running PostgreSQL: a snapshot and a CPU sample every step; an index is lost and comes back, and the
statistics are reset once per round."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from sample_data.query_profile.make import Server, first
from sample_data.whole_files import put

STEP_S = 15.0
"""Seconds between two snapshots."""

KEEP = 120
"""Number of snapshots on disk, and of lines that a rotation leaves of a log; older ones are deleted."""

ROUND = 22
"""Steps of a round."""

LOST = range(5, 13)
"""Steps of each round without the index."""

RESET = 17
"""Step of each round in which the statistics are reset."""


def steps(target: Path) -> Iterator[float]:
    """Write the starting files below ``target``, then make one change per ``next()``; yields seconds to wait. Never ends."""
    server = Server()
    first(server, target)
    yield 1.5
    turn = 0
    while True:
        server.dear = 4.0 if turn % ROUND in LOST else 1.0
        server.run()
        if turn % ROUND == RESET:
            server.reset()
        for name, line in (("db_process_cpu.csv", server.cpu()), ("pgss_info.csv", server.info())):
            _append(target / name, line)
        path = target / "pgss" / f"pgss-{server.stamp}.csv"
        put({path: server.snapshot()})
        for old in sorted((target / "pgss").glob("pgss-*.csv"))[:-KEEP]:
            old.unlink(missing_ok=True)
        turn += 1
        yield STEP_S


def _append(path: Path, line: str) -> None:
    """Append to a log; drop what is older than twice the snapshots."""
    with path.open("a", encoding="utf-8") as file:
        file.write(line)
    head, *lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    if len(lines) > 2 * KEEP:
        put({path: head + "".join(lines[-KEEP:])})
