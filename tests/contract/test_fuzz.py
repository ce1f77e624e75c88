"""Damaged files for every reader: a few of those that ``python -m tests.fuzz`` tries, and whether it would find mistakes."""

from __future__ import annotations

import io
import random
import zipfile
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from engine.core.reading import FileKind, Problem, Reading, Source
from engine.core.tables import Column, Table
from engine.views import VIEWS
from tests.fuzz import attempt, samples
from tests.fuzz.attempt import Attempts, Failure, Input, read, stretched
from tests.fuzz.records import damaged

INPUTS = 10
KINDS = {(entry.name, kind.id): kind for entry in VIEWS for kind in entry.load().kinds}


@pytest.fixture(autouse=True)
def without_reference_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LOADLENS_REFERENCE_DATA", raising=False)


@pytest.mark.parametrize("key", KINDS, ids=lambda key: key[1])
def test_damaged_files_are_problems_and_no_more(key: tuple[str, str]) -> None:
    kind = KINDS[key]
    given = samples.of_kind(key[0], kind)[:8]  # reading all that there are would take longer than what is tried
    assert given, "no sample"
    attempts = Attempts(kind, given, "smoke")
    for index in range(INPUTS):
        attempts.run(index)
    attempts.flush()
    failures = [*attempts.failures, *_by_record(kind, given)]
    assert not failures, [(failure.sort, failure.what, failure.data[:200]) for failure in failures]


FAILED_ONCE = (
    ("broker-load", "cruise-control-text", "partition_load.txt",
     "PARTITION LEADER FOLLOWERS CPU (%_RES) DISK (MB) NW_IN (KB/s) NW_OUT (KB/s) MSG_IN (#/s)\n"
     "orders-3 7 [²] 1.0 10.0 2.0 3.0 4.0\n"),
    ("broker-load", "cruise-control-text", "partition_load.txt",
     "PARTITION LEADER FOLLOWERS CPU (%_RES) DISK (MB) NW_IN (KB/s) NW_OUT (KB/s) MSG_IN (#/s)\n"
     f"orders-3 7 [{'1' * 5000}] 1.0 10.0 2.0 3.0 4.0\n"),
    ("job-heuristics", "fleet-result", "manifest/part-00000.txt",
     '{"loadlens": "1", "at": "2026-01-05T10:00:00Z", "parameters": {}, "rows": {"jobs": 1}, "findings": {"low": Infinity}}'),
    ("query-profile", "pg-stat-kcache", "kcache-1760000000.csv",
     "captured_at,queryid,top,userid,dbid,exec_user_time,exec_system_time\n"
     "2026-01-05 10:00:00+00,42,t,\x01,5,1.5,0.5\n"),
    ("job-heuristics", "tez-history", "history.txt.appattempt_1760000000000_0001_000001",
     '{"entityType": "TEZ_DAG_ID", "entityId": "dag_1760000000000_0001_1", "otherInfo": {"startTime": -Infinity}}\n'),
    ("job-heuristics", "spark-event-log", "application_1760000000000_0001",
     '{"Event": "org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionStart", "executionId": 1, "time": 5,'
     ' "sparkPlanInfo": {"nodeName": "\\ud800"}}\n'),
    ("query-profile", "postgresql-log", "postgresql.log",
     f"2026-01-05 10:00:01 UTC [7] app@shop LOG:  duration: {'9' * 400}.0 ms  statement: SELECT 1\n"),
    ("query-profile", "slow-log-table", "slow_log.tsv",
     "start_time\tquery_time\tsql_text\n2026-01-05 10:00:00\t00:00:01\tSELECT 1\n"),
    ("broker-load", "cluster-listing", "listing.txt", "\x00b1:9092 (id: 1 rack: \x1b[2J) -> (\n"),
    ("run-comparison", "criterion", "a/new/sample.json", f'{{"times": [{"9" * 400}], "iters": [1]}}'),
    ("run-comparison", "asv", "results/m/0a-env.json", '{"result_columns": ["result", "params"], "results": {"a": [[1], 5]}}'),
    ("run-comparison", "github-action-history", "data.js",
     'window.BENCHMARK_DATA = {"entries": {"a": [{"commit": {"id": "\\ud800\\u001b"}, "date": 1760000000000,'
     ' "benches": [{"name": "b", "value": 1, "unit": "s"}]}]}}'),
    ("run-comparison", "vegeta", "vegeta.json", f'{{"requests": 1, "success": {"9" * 400}}}'),
    ("run-comparison", "ghz", "ghz.json", '{"statusCodeDistribution": {"OK": 5}, "latencyDistribution": true}'),
    ("run-comparison", "k6-json", "results.json",
     f'{{"metric": "a", "type": "Point", "data": {{"value": {"9" * 400}}}}}\n'
     f'{{"metric": "a", "type": "Point", "data": {{"x": {"[" * 3000}{"]" * 3000}}}}}\n'),
)  # fmt: skip
"""Inputs that a reader once failed on."""


def test_a_sample_without_a_time_is_not_of_midnight() -> None:
    sample = '{"timestamp": "%s", "cpu-load": [{"cpu": "all", "usr": 9, "sys": 1, "idle": 90}]}'
    text = '{"sysstat": {"hosts": [{"nodename": "vm", "number-of-cpus": 2, "date": "2026-11-20", "statistics": [%s]}]}}'
    times = ("23:38:00", "", "23:38:02")
    ((rows, problems),) = read(
        KINDS["query-profile", "sysstat-json"],
        Input("mpstat.json", (text % ", ".join(sample % time for time in times)).encode()),
    )
    assert len(set(rows["host"]["at_ms"])) == 2 and [problem.kind for problem in problems] == ["bad-time"]


def test_an_entry_of_an_archive_without_a_name_is_passed_over() -> None:
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("application_1_1", b"x")
        file.writestr("b", b"x")
    nameless = archive.getvalue()
    at = nameless.rindex(b"PK\x01\x02")  # the second entry of the directory: a name of no bytes, its one byte a comment
    nameless = nameless[: at + 28] + b"\x00\x00\x00\x00\x01\x00" + nameless[at + 34 :]
    ((_, problems),) = read(KINDS["job-heuristics", "spark-archive"], Input("eventLogs-a.zip", nameless))
    assert not problems


@pytest.mark.parametrize(("view", "kind", "name", "text"), FAILED_ONCE, ids=[each[1] for each in FAILED_ONCE])
def test_inputs_that_failed_once(view: str, kind: str, name: str, text: str) -> None:
    attempts = Attempts(KINDS[view, kind], samples.of_kind(view, KINDS[view, kind])[:8], "")
    attempts._check([rows for rows, _ in read(KINDS[view, kind], Input(name, text.encode()))])


def _by_record(kind: FileKind, given: list[samples.Sample]) -> list[Failure]:
    tries = (damaged(kind, given, random.Random(index), index) for index in range(4))
    return [failure for failure in tries if failure is not None]


# -- mistakes that it finds ------------------------------------------------------------------------------------

ROWS = Table("rows", "Rows.", (Column("text", pl.String, "text"), Column("value", pl.Int64, "number")))


class Planted:
    """Lines of a word and a number, with one mistake."""

    id, title, append, version, tables = "planted", "planted", True, 1, (ROWS,)

    def __init__(self, mistake: str = "") -> None:
        self.mistake = mistake

    def recognise(self, name: str, head: bytes) -> bool:
        return True

    def read(self, source: Source, data: bytes, state: Any, final: bool) -> Reading:
        end = len(data) if final else data.rfind(b"\n") + 1
        reading = Reading(consumed=end)
        texts, values = [], []
        for line in data[:end].decode("utf-8", "replace").split("\n"):
            word, _, number = line.partition(" ")
            if number.isascii() and number.isdecimal() and len(number) < 18:
                texts.append(word if self.mistake == "text" else "".join(c for c in word if c.isprintable()))
                values.append(int(number) if self.mistake != "split" else source.offset)
            elif self.mistake == "raises" and word:
                int(number)
            elif self.mistake == "spread" and word:
                break
            elif line:
                reading.problems.append(Problem.at(source.path, "bad-record", "no number"))
        if self.mistake == "super-linear":
            sum(len(data[:at]) for at in range(0, len(data), 12) if data[:at].count(b"x") < 0)
        reading.rows = {"rows": {"text": texts, "value": values if self.mistake != "rows" else [*values, 1]}}
        return reading


GOOD: list[samples.Sample] = [("a.txt", b"".join(b"word%d %d\n" % (n, n * 7) for n in range(30)))]


@pytest.mark.parametrize("mistake", ["", "raises", "rows", "text", "split", "spread,split"])
def test_it_finds_mistakes(mistake: str) -> None:
    kind = Planted(mistake.split(",")[0])
    attempts = Attempts(kind, GOOD if mistake != "rows" else [("a.txt", b"")], "planted")
    for index in range(150):
        attempts.run(index)
    attempts.flush()
    sorts = {failure.sort for failure in [*attempts.failures, *_by_record(kind, GOOD)]}
    assert sorts == set(mistake.split(",")) - {""}


@pytest.mark.parametrize("mistake", ["", "super-linear"])
def test_it_finds_what_is_not_linear(mistake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempt, "SLOW_S", 0.05)  # what is planted need not be as slow as what is worth a look
    failure = stretched(Planted(mistake), GOOD, random.Random(3), 1)
    assert (failure.sort if failure is not None else "") == mistake


def test_inputs_follow_from_their_number() -> None:
    from tests.fuzz.attempt import make

    for (view, _), kind in list(KINDS.items())[::10]:
        given = samples.of_kind(view, kind)
        one, two = (make(random.Random("7"), given) for _ in range(2))
        assert one == two


def test_the_command(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    from tests.fuzz.__main__ import mistakes, table
    from tests.fuzz.runner import run

    results = run(["jmh", "pid-stat"], 12, 1, 1)
    assert [(one.kind, one.inputs) for one in results] == [("pid-stat", 12), ("jmh", 12)]
    assert table(results).count("\n") == 2 and all(one.bytes for one in results)
    results[0].failures.append(Failure("raises", "ValueError at x.py:1", 7, "a", b"long"))
    results[0].failures.append(Failure("raises", "ValueError at x.py:1", 9, "b", b"s"))
    (line,) = (line for line in mistakes(results, tmp_path, 1) if "x.py:1" in line)
    assert "(2 times; --seed 1 --only 9)" in line
    assert (tmp_path / "pid-stat.raises.9.bin").read_bytes() == b"s"
