"""Which files belong to one server, and which resource goes with it."""

from __future__ import annotations

from tests.engine.query_profile.builders import (
    STEADY,
    capture,
    compute,
    kinds,
    snapshot,
)
from tests.reference import reference


def test_tables_of_other_classes_are_of_another_server() -> None:
    files = {
        name: f"q.{c}1,q.{c}2,user_us\n1,2,3\n2,3,5\n".encode()
        for name, c in (("a.csv", "a"), ("b.csv", "b"), ("c.csv", "a"))
    }
    result = compute(files, draws="0")
    assert result.tables["sources"]["source"].to_list() == ["a.csv, c.csv", "b.csv"]


def test_cpu_that_mysql_counts_itself_stands_beside_the_measured() -> None:
    head = "SCHEMA_NAME\tDIGEST\tDIGEST_TEXT\tCOUNT_STAR\tSUM_TIMER_WAIT\tSUM_CPU_TIME\n"
    files = {
        f"digest-20260101T000{t}00Z.tsv": f"{head}shop\tab\tSELECT ?\t{t * 3}\t{t}000000\t{t}000000\n"
        f"NULL\tNULL\tNULL\t{t}\t{t}000000\t0\n"
        for t in range(3)
    }
    cpu = "captured_at,user_us,system_us\n" + "".join(f"2026-01-01T00:0{t}:00Z,{t * 2},0\n" for t in range(3))
    texts = {name: text.encode() for name, text in files.items()}
    alone = compute(texts, draws="0")
    assert (alone.summary["y_measured"], alone.summary["y_source"]) == (2, "the classes' own counters")
    result = compute({**texts, "cpu.csv": cpu.encode()}, draws="0")
    assert (result.summary["y_measured"], result.summary["y_source"]) == (4, "process")
    assert result.tables["classes"].sort("calls")["cpu_measured_us"].to_list() == [0, 2]
    assert any("25.0% of the calls found no room" in note for note in result.notes)
    assert any("counted 0.0 s of CPU by class (50%" in note for note in result.notes)


def test_calls_beside_times_are_found() -> None:
    root = reference("query-profile") / "capture-pg15/wlr-layout"
    files = {name: (root / name).read_bytes() for name in ("time_us.csv", "calls.csv")}
    result = compute(files)
    assert result.tables["classes"]["calls"].sum() > 600_000
    assert result.summary["mape"] < 0.04
    assert compute({"time_us.csv": files["time_us.csv"]}).summary["mape"] > 0.08


def test_a_doubtful_class_gets_no_measured_cpu() -> None:
    """What a source does not count stays unknown in evicted classes too, and the CPU series beside it is used."""
    files = capture(
        snapshot(*STEADY), snapshot(*STEADY[:2], (4, 9, 9)), snapshot(*STEADY[:2], (4, 9, 10)), cpu=[0, 5, 9]
    )
    result = compute(files, draws="0")
    assert result.summary["y_source"] == "process"
    assert result.summary["y_measured"] == 4000
    assert result.tables["classes"]["cpu_measured_us"].null_count() == result.tables["classes"].height


def test_servers_of_the_same_name_get_different_labels() -> None:
    """Each has its own name, and source= finds it."""
    whole = capture(snapshot(*STEADY), snapshot(*STEADY))
    files = {f"{place}/{name}": text for place in ("one", "two") for name, text in whole.items()}
    result = compute(files, draws="0")
    labels = sorted(result.tables["sources"]["source"].to_list())
    assert labels == ["pg_stat_statements: pgss in one", "pg_stat_statements: pgss in two"]
    assert "not mixed in" in result.notes[0]
    assert compute(files, draws="0", source="in two").summary["source"] == labels[1]
    # a whole name is meant before longer ones
    more = {f"{place}/{name}": text for place in ("one", "one2") for name, text in whole.items()}
    more |= {f"one2/{name}": text for name, text in capture(*[snapshot(*STEADY)] * 5).items()}
    assert compute(more, draws="0", source=labels[0]).summary["source"] == labels[0]


def test_single_snapshots_of_other_versions_are_other_servers() -> None:
    old = b"userid,dbid,queryid,query,calls,total_time,rows\n10,5,1,SELECT 1,3,30,3\n"
    result = compute({"old.csv": old, "new.csv": snapshot(*STEADY)})
    assert sorted(result.tables["sources"]["source"].to_list()) == [
        "pg_stat_statements: new",
        "pg_stat_statements: old",
    ]
    assert result.tables["classes"]["x_total"].sum() == 350_000
    both = compute({"before.csv": snapshot(*STEADY), "after.csv": snapshot(*STEADY)})
    assert both.tables["sources"].height == 1


def test_each_server_has_the_cpu_that_lies_nearest_to_it() -> None:
    texts = snapshot(*STEADY), snapshot((1, 11, 130), (2, 20, 200), (3, 6, 55))
    one, two = capture(*texts, cpu=[0, 1000]), capture(*texts, cpu=[0, 7000])

    def measured(files: dict[str, bytes], source: str) -> float:
        return float(compute(files, draws="0", method="ratio", source=source).summary["y_measured"])

    apart = {f"{place}/{name}": text for place, files in (("db1", one), ("db2", two)) for name, text in files.items()}
    named = {f"{place}-{name}": text for place, files in (("db1", one), ("db2", two)) for name, text in files.items()}
    for files in (apart, named):
        assert [measured(files, place) for place in ("db1", "db2")] == [1e6, 7e6]
    # without a CPU of its own a server does not take another's
    del apart["db2/cpu.csv"]
    result = compute(apart, draws="0", source="db2")
    assert result.summary["y_measured"] is None
    assert "no-cpu" in kinds(result)
    # one that may be either's is used, and this is said
    shared = {name.removeprefix("db1/"): text for name, text in apart.items() if name == "db1/cpu.csv"}
    result = compute({**{k: v for k, v in named.items() if "cpu" not in k}, **shared}, draws="0", source="db1")
    assert any("right for one of them only" in note for note in result.notes)
