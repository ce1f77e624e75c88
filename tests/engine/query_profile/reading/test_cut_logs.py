"""A log without its first or last lines loses the records that were cut, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from engine.core.reading import HEAD, Reading, Source
from engine.query_profile.reading.kinds import KINDS

N = 12
SQL = ("UPDATE shelf", " SET n = 1", "WHERE id = {i};")


def slow(before: str = "", each: bool = True) -> list[list[str]]:
    """Records of a slow log; ``before`` their first line, or ``each`` of them."""
    records = [
        [f"# Time: 2026-01-01T00:{i:02d}:01.000000Z", "# User@Host: s[s] @ w []  Id: 3",
         "# Query_time: 1.000000  Lock_time: 0.0 Rows_sent: 1  Rows_examined: 1", f"SET timestamp={1767225600 + 60 * i};",
         *(line.format(i=i) for line in SQL)]
        for i in range(N)
    ]  # fmt: skip
    return [[before.format(i=i) * (each or k == 0) + line for k, line in enumerate(r)] for i, r in enumerate(records)]


def postgres(prefix: str, further: str = "\t") -> list[list[str]]:
    """Records of a PostgreSQL log, whose further lines begin with ``further``."""
    return [
        [prefix.format(i=i, k=1) + "LOG:  duration: 1000.000 ms  statement: UPDATE shelf",
         *(further.format(i=i, k=k) + line.strip(";").format(i=i) for k, line in enumerate(SQL[1:], 2))]
        for i in range(N)
    ]  # fmt: skip


def csvlog(i: int) -> list[str]:
    text = f'2026-01-01 00:{i:02d}:01.000 UTC,"s","d",7,,6b,8,"U",2026-01-01 00:00:00 UTC,5/0,0,LOG,00000,"duration: 1000 ms'
    return [f"{text}  statement: UPDATE shelf", "SET n = 1", f'WHERE id = {i}",,,,,,,,,"api"']


def jsonlog(i: int) -> list[str]:
    message = f"duration: 1000.000 ms  statement: UPDATE shelf SET n = 1 WHERE id = {i}"
    entry = {"timestamp": f"2026-01-01 00:{i:02d}:01.000 UTC", "pid": 7, "error_severity": "LOG", "message": message}
    return [json.dumps(entry)]


def pod(i: int) -> list[str]:
    message = f"duration: 1000.000 ms  statement: UPDATE shelf SET n = 1 WHERE id = {i}"
    record = {"log_time": f"2026-01-01 00:{i:02d}:01.000 UTC", "error_severity": "LOG", "message": message}
    return [json.dumps({"level": "info", "logger": "postgres", "msg": "record", "record": record})]


def counters(i: int) -> list[str]:
    return [f"{1767225600 + i}", f"usage_usec {3 * i}", f"user_usec {2 * i}", f"system_usec {i}"]


FORMS: dict[str, list[list[str]]] = {
    "slow.log": slow(),
    "kubectl.log": slow("2026-01-01T00:{i:02d}:01.123456789Z "),
    "journal.log": slow("Jan 01 00:{i:02d}:01 db1 mysqld[77]: "),
    "tail.log": slow("prod-1 2026-01-01T00:{i:02d}:01+00:00 ", each=False),
    "debian.log": postgres("2026-01-01 00:{i:02d}:01.000 UTC [7] s@d "),
    "rds.log": postgres("2026-01-01 00:{i:02d}:01 UTC:10.0.0.9(4):s@d:[7]:"),
    "syslog": postgres(*2 * ("Jan  1 00:{i:02d}:01 db1 postgres[7]: [{i}-{k}] ",)),
    "docker.log": postgres("2026-01-01T00:{i:02d}:01.1Z [7] s@d ", "2026-01-01T00:{i:02d}:01.1Z \t"),
    "log.csv": [csvlog(i) for i in range(N)],
    "log.json": [jsonlog(i) for i in range(N)],
    "pod.log": [pod(i) for i in range(N)],
    "cpu.stat": [counters(i) for i in range(N)],
    "cpuacct.usage.log": [[f"{1767225600 + i} {i * 1000}"] for i in range(N)],
}


def read(name: str, lines: list[str]) -> Reading:
    data = "".join(f"{line}\n" for line in lines).encode()
    kind = next(kind for kind in KINDS if kind.recognise(name, data[:HEAD]))
    return kind.read(Source(f"/in/{name}", name, 1_795_217_883_000, len(data)), data, None, True)


def calls(reading: Reading) -> float:
    return sum(reading.rows.get("interval_classes", {}).get("calls", ()))


def moments(reading: Reading) -> float:
    return len(set(reading.rows["host"]["at_ms"]))


@pytest.mark.parametrize("name", FORMS)
def test_a_cut_costs_its_own_record_only(name: str) -> None:
    records = FORMS[name]
    lines = [line for record in records for line in record]
    count: Callable[[Reading], float] = moments if name.startswith("cpu") else calls
    assert count(read(name, lines)) == N
    begin = 0
    for place, record in enumerate(records[:-2]):
        for cut in range(1, len(record) + 1):
            whole = N - place - 1
            assert whole <= count(read(name, lines[begin + cut :])) <= whole + (cut < len(record)), (place, cut)
            ended = count(read(name, lines[: len(lines) - begin - cut]))
            assert N - place - 1 <= ended <= N - place, (place, cut)
        begin += len(record)


@pytest.mark.parametrize("name", ["slow.log", "journal.log", "syslog", "docker.log", "log.csv", "pod.log"])
def test_reading_on_behind_each_line_gives_the_same(name: str) -> None:
    lines = [line for record in FORMS[name] for line in record]
    data = "".join(f"{line}\n" for line in lines).encode()
    kind = next(kind for kind in KINDS if kind.recognise(name, data[:HEAD]))
    whole = kind.read(Source(f"/in/{name}", name, 0, len(data)), data, None, True).rows["interval_classes"]
    for cut in range(0, len(data), 97):
        first = kind.read(Source(f"/in/{name}", name, 0, len(data)), data[:cut], None, False)
        rest = data[first.consumed :]
        second = kind.read(Source(f"/in/{name}", name, 0, len(data), first.consumed), rest, first.state, True)
        parts = [one.rows.get("interval_classes", {}) for one in (first, second)]
        assert sum(sum(part.get("time_us", ())) for part in parts) == pytest.approx(sum(whole["time_us"])), cut
        assert {text for part in parts for text in part.get("query", ())} == set(whole["query"]), cut
