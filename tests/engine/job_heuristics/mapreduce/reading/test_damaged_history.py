"""A damaged history gives the same rows and problems however it is cut while it grows, and the same result live and cold."""

from __future__ import annotations

import random
from functools import cache
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from engine.core.reading import Problem, Source, fold
from engine.core.view import Result
from engine.job_heuristics.mapreduce.reading.event_collector import Collector
from engine.job_heuristics.mapreduce.reading.kinds import HISTORY
from engine.job_heuristics.parameters import JobParameters
from engine.job_heuristics.view import VIEW
from engine.live.options import LiveSettings
from engine.live.session import Session
from sample_data.job_heuristics import writer
from sample_data.job_heuristics.plans import Shape, make
from tests.chance import more

SCRAPS = (
    b"null", b"9" * 30, b"\n", b"\r\n", b"{}", b"[[", b"\xff", b"\0", b'"', b"Avro-Json\n", b"Avro-Binary\n", b" ", b"_0001_",
    b"_0009_", b"task_x", b"job_", b"\x80" * 10, b"\x02", b'{"type":"JOB_SUBMITTED"', b'{"type":"X"}\n',
)  # fmt: skip


@cache
def sound() -> tuple[bytes, ...]:
    one = make(Shape("one", "ann", "etl", maps=4, reduces=2, failing=0.5), 1, 1_760_000_000_000, 1)
    two = make(Shape("two", "bob", "etl", maps=2, reduces=1), 2, 1_760_000_000_000, 2)
    return writer.text(one), writer.binary(one), writer.text(one) + writer.text(two)


def damaged(rng: random.Random) -> bytes:
    """A history with bytes changed, put in, taken out or repeated; mostly behind its schema."""
    data = bytearray(rng.choice(sound()))
    events = data.find(b"\n", data.find(b"\n") + 1)
    for _ in range(rng.choice((1, 1, 2, 4, 8, 20))):
        at = rng.randrange(0 if rng.random() < 0.3 else min(events, len(data)), len(data) + 1)
        match rng.randrange(5):
            case 0 if data:
                data[at % len(data)] = rng.randrange(256)
            case 1:
                data[at:at] = rng.choice(SCRAPS)
            case 2:
                del data[at : at + rng.choice((1, 5, 50, 500, 5000))]
            case 3:
                begin = rng.randrange(len(data) + 1)
                data[at:at] = data[begin : begin + rng.choice((1, 8, 100, 3000))]
            case _:
                data[at : at + 4] = rng.choice(SCRAPS)
    return bytes(data)


def read(data: bytes, cuts: list[int]) -> tuple[dict[str, pl.DataFrame], tuple[Problem, ...]]:
    """Rows that count and problems of a file that is seen at the lengths ``cuts`` first, then as a whole."""
    state: Any = None
    offset, readings = 0, []
    for end, final in [*((cut, False) for cut in cuts), (len(data), False), (len(data), True)]:
        source = Source("/d/x.jhist", "x.jhist", 0, end, offset)
        readings.append(HISTORY.read(source, data[offset:end], state, final))
        offset, state = offset + readings[-1].consumed, readings[-1].state
    rows = {
        table.name: pl.concat(
            [table.empty(), *(table.frame(r.rows[table.name]) for r in readings if table.name in r.rows)]
        )
        for table in HISTORY.tables
    }
    jobs = rows["job_events"].filter(pl.col("job_id").is_not_null())
    broken = pl.col("event") == "BROKEN"
    # Of what Hadoop's parser would throw only the first counts, and a file read in pieces may hold more of it.
    rows["broken"] = jobs.filter(broken).unique("job_id", keep="first", maintain_order=True).sort("job_id")
    rows["job_events"] = jobs.filter(~broken)
    return rows, fold(problem for reading in readings for problem in reading.problems)


def test_rows_and_problems_do_not_depend_on_the_cuts() -> None:
    problems = 0
    seeds = more(60)
    for seed in range(seeds):
        rng = random.Random(seed)
        data = damaged(rng)
        cuts = sorted(rng.randrange(len(data) + 1) for _ in range(rng.choice((1, 3, 30))))
        (whole, found), (pieces, found_in_pieces) = read(data, []), read(data, cuts)
        assert found == found_in_pieces, seed
        assert all(frame.equals(pieces[name]) for name, frame in whole.items()), seed
        problems += len(found)
    assert problems > seeds


def test_the_job_of_a_task_does_not_depend_on_other_ids() -> None:
    """Not on an odd one that the job's own record has, and not on tasks before it."""
    assert Collector("x", job="job_17_1_000").jobs_of(["task_17_1_000_m_1"]) == ["job_17_1"]
    assert Collector("x").jobs_of(["task_17_1_m", "task_17_2_m"]) == ["job_17_1", "job_17_2"]


def result_of(session: Session) -> Result:
    session.scan()
    return session.compute(VIEW.name, JobParameters(), now_ms=0)


@pytest.mark.parametrize("seed", range(6))
def test_live_equals_cold(seed: int, tmp_path: Path) -> None:
    rng = random.Random(1000 + seed)
    data = damaged(rng)
    path = tmp_path / "job_1760000000000_0001-1-x.jhist"
    settings = LiveSettings(cache=False, settle_s=0)
    path.write_bytes(b"")
    other = make(Shape("other", "cleo", "etl", maps=2, reduces=1), 3, 1_760_000_000_000, 3)
    (tmp_path / other.file_name).write_bytes(writer.text(other))
    live = Session([tmp_path], [VIEW], settings=settings, strict=True)
    live.scan()
    begin = 0
    for end in [*sorted(rng.randrange(len(data) + 1) for _ in range(4)), len(data)]:
        with path.open("ab") as file:
            file.write(data[begin:end])
        begin = end
        live.look({str(path)})
    cold = Session([tmp_path], [VIEW], settings=settings, strict=True)
    grown, fresh = result_of(live), result_of(cold)
    live.close()
    cold.close()
    assert grown.problems == fresh.problems and grown.summary == fresh.summary
    for name, frame in fresh.tables.items():
        assert frame.equals(grown.tables[name]), name
