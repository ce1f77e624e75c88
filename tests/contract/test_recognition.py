"""Every reader takes a file of its own kind, and no other reader takes it, except for the known cases."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.core.compression import stem
from engine.core.reading import HEAD, FileKind, Source
from engine.core.tables import height_of
from engine.live.ingest.file_content import Content
from engine.live.ingest.registry import Recogniser
from tests.contract.file_samples import SAMPLES
from tests.contract.samples import FED, play, view

KINDS: dict[tuple[str, str], FileKind] = {(name, kind.id): kind for name in FED for kind in view(name).kinds}

PROMETHEUS = {
    ("broker-load", "metric-scrape"),
    ("query-profile", "exporter-series"),
    ("ring-placement", "placement-metrics"),
}
ALSO: dict[tuple[str, str], set[tuple[str, str]]] = {
    # The series that a view needs may come late in a scrape, so each view reads all of it.
    **dict.fromkeys(PROMETHEUS, PROMETHEUS),
    # A line that begins with a word and a number looks like one of an exposition.
    ("query-profile", "proc-stat"): PROMETHEUS,
    ("run-comparison", "build-log"): PROMETHEUS,
    # Which columns a Parquet file has stands at its end.
    ("broker-load", "parquet"): {("ring-placement", "load-table")},
}
"""By kind: the other kinds that may take its files, too."""


def _unpacked(path: Path) -> tuple[str, bytes]:
    """Name and content of a file as readers see it."""
    with Content(str(path), max_unpacked=1 << 30, max_document=1 << 30) as content:
        return stem(path.name, content.packing), content.whole()


@pytest.fixture(scope="module", params=FED)
def files(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, list[tuple[str, bytes]]]:
    """A view's name, and name and content of its sample data and its other samples."""
    folder = play(request.param, tmp_path_factory.mktemp("played"), changes=2)
    played = [_unpacked(path) for path in sorted(folder.rglob("*")) if path.is_file()]
    return request.param, played + list(SAMPLES.get(request.param, {}).values())


def takers(name: str, content: bytes) -> set[tuple[str, str]]:
    return {key for key, kind in KINDS.items() if kind.recognise(name, content[:HEAD])}


def test_a_file_is_taken_by_the_readers_expected(files: tuple[str, list[tuple[str, bytes]]]) -> None:
    name, contents = files
    seen = set()
    for file, content in contents:
        taken = takers(file, content)
        own = {key for key in taken if key[0] == name}
        assert own, f"no reader of {name} takes {file}"
        seen |= own
        allowed = set().union(*({key} | ALSO.get(key, set()) for key in own))
        assert len(own) == 1 and taken <= allowed, f"{file} is taken by {sorted(taken)}"
    missing = {key for key in KINDS if key[0] == name} - seen
    assert not missing, f"add a sample of {sorted(missing)} to tests/contract/file_samples.py"


def test_a_table_of_numbers_is_no_query_profile() -> None:
    assert not takers("numbers.csv", b"x,y\n1,2\n2,3\n")


@pytest.mark.parametrize("key", [(name, kind) for name, kinds in SAMPLES.items() for kind in kinds], ids="/".join)
def test_a_sample_gives_rows_of_declared_tables(key: tuple[str, str]) -> None:
    name, content = SAMPLES[key[0]][key[1]]
    assert key in takers(name, content)
    source = Source(f"/data/{name}", name, 1_760_000_000_000, len(content))
    reading = KINDS[key].read(source, content, None, True)
    assert not reading.problems and reading.complete
    tables = {table.name: table for table in KINDS[key].tables}
    assert sum(height_of(rows) for rows in reading.rows.values()) > 0 and reading.rows.keys() <= tables.keys()
    for table, rows in reading.rows.items():
        tables[table].frame(rows)


@pytest.mark.parametrize(
    ("head", "words"),
    [
        (
            b'{"id": 7, "time": "2026-03-01", "state": "up, idle"}',
            "no reader knows such JSON; loadlens feeds VIEW lists what",
        ),
        (b'[{"timestamp": 1760000000000, "message": "started, 3 of 4"}]', "no reader knows such JSON;"),
        (b'{"results": [{"name": "a", "ops": 5}]}', "no reader knows such JSON;"),
        (
            b"2026-03-01 10:00:00 UTC [9] LOG stats: 12 xacts/s, 24 queries/s, query 90 us\n",
            "no reader knows such text;",
        ),
        (b"database,total_xact_count,total_query_time\nshop,10,55\n", "no reader knows such text;"),
        (
            b"day,ms\n2026-03-01,5\n",
            "CSV with a time column (a history: one run per row); missing: the name time, timestamp or",
        ),
        (b"1760000000000,50,login,200,OK,true\n", "missing: a first line that names the columns"),
        (
            b"    Latency     4.12ms    1.00ms  20.00ms   80.00%\nRequests/sec:  99.50\n",
            "wrk and wrk2; missing: a line that begins",
        ),
        (b'{"latencies": {"mean": 5}}', 'vegeta report -type=json; missing: "bytes_in"'),
        (b"<phpbench version='1'/>", "no reader knows such XML;"),
        ("Running 5s test @ http://shop/".encode("utf-16"), "it is UTF-16; write it as UTF-8"),
    ],
)
def test_a_file_that_is_not_read_is_near_a_format_or_not(head: bytes, words: str) -> None:
    recogniser = Recogniser([(view, kind) for (view, _), kind in KINDS.items()])
    assert not [key for key, kind in KINDS.items() if kind.recognise("some-file", head)]
    assert words in recogniser.nearest(head)
