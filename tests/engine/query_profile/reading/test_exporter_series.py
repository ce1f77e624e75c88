"""Series of exporters give the work of the snapshots they were made of; lists that are cut, repeats and slices do no harm."""

from __future__ import annotations

import json
from typing import Any

import pytest

from engine.core.view import Result
from tests.engine.query_profile.builders import compute, read
from tests.reference import reference


def by_id(result: Result) -> dict[str, tuple[float, float, float]]:
    rows = result.tables["classes"].select("queryid", "x_total", "calls", "y_total").rows()
    return {queryid: (time, calls, cpu) for queryid, time, calls, cpu in rows}


def scrapes(answer: dict[str, Any]) -> dict[str, bytes]:
    """The samples of an answer as one text scrape for each of its times."""
    files: dict[str, bytes] = {}
    for series in answer["data"]["result"]:
        labels = ",".join(f'{k}="{v}"' for k, v in series["metric"].items() if k not in ("__name__", "instance", "job"))
        for at, value in series["values"]:
            name = f"db1-node-{round(at * 1000)}.prom"
            line = f"{series['metric']['__name__']}{{{labels}}} {value}\n"
            files[name] = files.get(name, b"") + line.encode()
    return files


def test_the_golden_answers_give_the_profile_of_the_snapshots() -> None:
    feeds, capture = reference("feeds") / "queries", reference("query-profile") / "capture-pg15/pgss"
    cpu = (feeds / "cpu.json").read_bytes()
    snapshots = {f"db1-{name}": (capture / name).read_bytes() for name in (feeds / "snapshots.txt").read_text().split()}
    wanted = compute({**snapshots, **scrapes(json.loads(cpu))})
    found = compute({"classes.json": (feeds / "classes.json").read_bytes(), "cpu.json": cpu})
    assert not found.problems
    ours, theirs = by_id(found), by_id(wanted)
    assert ours.keys() == theirs.keys() and len(ours) == 21
    for queryid, (time, calls, used) in theirs.items():
        assert ours[queryid] == (pytest.approx(time, rel=1e-6), calls, pytest.approx(used, rel=1e-6)), queryid
    assert found.summary["y_measured"] == pytest.approx(wanted.summary["y_measured"])


def answer(series: dict[tuple[str, str], list[tuple[int, float]]], **labels: str) -> bytes:
    """An answer with counters by name and query id at times in seconds."""
    result = [
        {
            "metric": {"__name__": name, "instance": "db1:9187", "datname": "shop", "queryid": queryid, **labels},
            "values": [[at, str(value)] for at, value in points],
        }
        for (name, queryid), points in series.items()
    ]
    return json.dumps({"status": "success", "data": {"resultType": "matrix", "result": result}}).encode()


CALLS, SECONDS = "pg_stat_statements_calls_total", "pg_stat_statements_seconds_total"
TIMES = range(1_700_000_000, 1_700_000_600, 60)


def counters(
    queryid: str, each: float, times: range | list[int] = TIMES
) -> dict[tuple[str, str], list[tuple[int, float]]]:
    grown = [(at, 1000 + each * (at - TIMES[0])) for at in times]
    return {(CALLS, queryid): grown, (SECONDS, queryid): [(at, value / 10) for at, value in grown]}


def calls(*files: bytes) -> dict[str, float]:
    result = compute({f"{number}.json": data for number, data in enumerate(files)})
    return dict(result.tables["classes"].select("queryid", "calls").rows())


def test_slices_repeats_and_calls_asked_for_alone_change_no_number() -> None:
    series = {**counters("1", 2), **counters("2", 3)}
    whole = calls(answer(series))
    assert whole == {"1": pytest.approx(1080), "2": pytest.approx(1620)}
    early = {key: points[:6] for key, points in series.items()}
    late = {key: points[5:] for key, points in series.items()}
    assert calls(answer(late), answer(early)) == whole
    finer = {key: [(at + half, value) for at, value in points for half in (0, 30)] for key, points in series.items()}
    assert calls(answer(finer)) == whole
    by_name = [answer({key: points for key, points in series.items() if key[0] == name}) for name in (CALLS, SECONDS)]
    assert calls(*by_name) == whole
    copies = [answer(series, replica=name) for name in ("a", "b")]
    assert calls(*copies) == whole


def test_a_class_that_enters_a_cut_list_starts_there_and_one_that_leaves_stays_as_it_was() -> None:
    """The list is cut, since class 2 has left it; class 3 had run before it was listed."""
    series = {**counters("1", 2), **counters("2", 3, list(TIMES[:4])), **counters("3", 1, list(TIMES[5:]))}
    result = compute({"a.json": answer(series)})
    found = dict(result.tables["classes"].select("queryid", "calls").rows())
    assert found == {"1": pytest.approx(1080), "2": pytest.approx(540), "3": pytest.approx(240)}
    assert any("lists only" in note for note in result.notes)
    assert set(result.tables["intervals"]["reason"]) == {"no CPU sample"}


@pytest.mark.parametrize("hosts", [("db1.example.com", "db2.example.com"), ("10.0.0.1", "10.0.0.2"), ("db-1", "db-2")])
def test_each_server_of_an_answer_has_its_own_cpu(hosts: tuple[str, str]) -> None:
    parts, node = [], ""
    for number, host in enumerate(hosts, 1):
        series = {**counters("1", 2 * number), **counters("2", 3 + number)}
        parts.append(answer(series).replace(b"db1:9187", f"{host}:9187".encode()))
        node += "".join(f'node_cpu_seconds_total{{cpu="0",mode="{mode}",instance="{host}:9100"}} {cpu} {at * 1000}\n'
                        for n, at in enumerate(TIMES) for mode, cpu in (("user", 7 * number * n), ("system", 0)))  # fmt: skip
    files = {f"{n}.json": data for n, data in enumerate(parts)} | {"node.prom": node.encode()}
    for number, host in enumerate(hosts, 1):
        result = compute(files, source=host, draws=0)
        assert result.summary["y_measured"] == pytest.approx(7e6 * number * (len(TIMES) - 1)), host
        assert not [problem for problem in result.problems if problem.kind == "several-hosts"]


@pytest.mark.parametrize("domain", ["", ".example.com"])
def test_an_address_is_the_machine_that_node_exporter_calls_it(domain: str) -> None:
    parts, node = [], ""
    for number in (1, 2):
        series = {**counters("1", 2 * number), **counters("2", 3 + number)}
        parts.append(answer(series).replace(b"db1:9187", f"db{number}:9187".encode()))
        instance = f'instance="10.0.0.{9 - number}:9100"'
        node += f'node_uname_info{{nodename="db{number}{domain}",{instance}}} 1 {TIMES[0] * 1000}\n'
        node += "".join(f'node_cpu_seconds_total{{cpu="0",mode="{mode}",{instance}}} {cpu} {at * 1000}\n'
                        for n, at in enumerate(TIMES) for mode, cpu in (("user", 7 * number * n), ("system", 0)))  # fmt: skip
    files = {f"{n}.json": data for n, data in enumerate(parts)} | {"node.prom": node.encode()}
    for number in (1, 2):
        result = compute(files, source=f"db{number}", draws=0)
        assert result.summary["y_measured"] == pytest.approx(7e6 * number * (len(TIMES) - 1))


def test_digests_have_cpu_and_two_servers_stay_two() -> None:
    name = "mysql_perf_schema_events_statements_"
    rows = [("total", 10.0), ("seconds_total", 2.0), ("cpu_time_seconds_total", 1.0), ("lock_time_seconds_total", 0.5)]
    text = "".join(
        f'{name}{ending}{{instance="{host}:9104",schema="s",digest="d",digest_text="SELECT ?"}} {value} 60000\n'
        for host in ("a", "b")
        for ending, value in rows
    )
    found = read("m.prom", text.encode(), "exporter-series").rows["snapshots"]
    assert found.select("series", "calls", "time_us", "cpu_us", "lock_us", "query").rows() == [
        ("a", 10, 2e6, 1e6, 5e5, "SELECT ?"),
        ("b", 10, 2e6, 1e6, 5e5, "SELECT ?"),
    ]
