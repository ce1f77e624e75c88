"""Damaged, hostile and odd files: a problem each, never a crash, never a silently wrong number."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from engine.broker_load.reading import tabular
from engine.broker_load.reading.kinds import KINDS
from engine.core.reading import Source
from engine.core.view import NoInput
from sample_data.broker_load.cluster import Simulation, put_documents, put_scrapes
from tests.chance import more
from tests.engine.broker_load.clusters import T0, Cluster, simple
from tests.engine.broker_load.inputs import compute, read

HOSTILE = b"\x1b[2J\x1b]0;x\x07\xe2\x80\xae\x00\xff\xfe"


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One file of every native kind."""
    root = tmp_path_factory.mktemp("native")
    simulation = Simulation()
    put_documents(simulation, root)
    for _ in range(2):
        simulation.advance(60)
        put_scrapes(simulation, root)
    (root / "metrics.csv").write_text(
        "time_ms,metric,broker,topic,partition,value\n" + "\n".join(simulation.raw_rows()[:40]) + "\n"
    )
    return root


def kinds_of(root: Path) -> list[Path]:
    """One file per kind."""
    first: dict[str, Path] = {}
    for path in sorted(p for p in root.rglob("*") if p.is_file()):
        name = path.parent.name.rsplit("_", 1)[-1] + path.suffix if path.suffix == ".prom" else path.name
        first.setdefault(name, path)
    return list(first.values())


def damages(data: bytes, seed: int) -> list[bytes]:
    """The same bytes cut, flipped, doubled, with hostile bytes in them, as another encoding."""
    rng = random.Random(seed)
    out = [data[: len(data) * k // 5] for k in (1, 2, 3, 4)] + [data[:-1], data + data[: len(data) // 3]]
    for _ in range(4):
        broken = bytearray(data)
        for _ in range(6):
            broken[rng.randrange(len(broken))] = rng.randrange(256)
        out.append(bytes(broken))
    middle = len(data) // 2
    out += [
        data[:middle] + HOSTILE + data[middle:],
        data.replace(b"\n", b"\r\n"),
        data.decode("latin-1").encode("utf-16"),
    ]
    out += [re.sub(rb"\d+", b"9" * 30, data), re.sub(rb"\d+", b"-1", data), re.sub(rb"\d+", b"NaN", data)]
    return out


@pytest.mark.parametrize("number", range(8))
def test_a_damaged_file_among_good_ones(sample: Path, number: int) -> None:
    """The model uses the rest; text from the file is harmless."""
    paths = kinds_of(sample)
    path = paths[number % len(paths)]
    rng = random.Random(number)
    whole = path.read_bytes()
    for data in rng.sample(damages(whole, number), min(more(1), 16)):
        path.write_bytes(data)
        try:
            inputs = read(sample)
        finally:
            path.write_bytes(whole)
        try:
            result = compute(inputs, ("fail", "1"), ("mode", rng.choice(["upstream", "corrected", "regression"])))
        except NoInput:
            continue
        for frame in result.tables.values():
            for column in frame.get_columns():
                if column.dtype == pl.String:
                    assert not column.str.contains("[\x00-\x1f\x7f\u202e]").any()


def test_cut_scrape_is_a_problem_and_loses_only_its_last_line(sample: Path) -> None:
    path = next(p for p in kinds_of(sample) if p.suffix == ".prom" and "7071" in str(p))
    kind = KINDS[0]
    data = path.read_bytes()
    whole = kind.read(Source(str(path), path.name, T0, 1), data, None, True).rows["metrics"]
    cut = kind.read(Source(str(path), path.name, T0, 1), data[:-4], None, True)
    assert len(cut.rows["metrics"]) == len(whole) - 1  # type: ignore[arg-type]
    assert [p.kind for p in cut.problems] == ["cut-file"]
    assert not kind.read(Source(str(path), path.name, T0, 1), data[:-4], None, False).complete


def scrape(text: str, name: str = f"kafka-1_7071_{T0 // 1000}.prom"):
    return KINDS[0].read(Source(f"/x/{name}", name, T0, 1), text.encode(), None, True)


def test_odd_samples_in_a_scrape() -> None:
    """NaN, infinities, sizes without labels, doubled series: each named, the rest used."""
    reading = scrape(
        'kafka_server_BrokerTopicMetrics_OneMinuteRate{name="BytesInPerSec",topic="t",} NaN\n'
        'kafka_server_BrokerTopicMetrics_OneMinuteRate{name="BytesOutPerSec",topic="t",} +Inf\n'
        'kafka_log_Log_Value{name="Size",} 5\n'
        'kafka_log_Log_Value{name="Size",topic="t",partition="-3",} 5\n'
        'kafka_log_Log_Value{name="Size",topic="t",partition="0",} 7\n'
        'kafka_log_Log_Value{name="Size",topic="t",partition="0",} 8\n'
    )
    assert {p.kind: p.count for p in reading.problems} == {"not-finite": 2, "missing-label": 2, "duplicate-series": 1}
    assert reading.rows["metrics"]["value"].to_list() == [7.0]  # type: ignore[index]


def test_a_counter_that_was_reset_counts_from_zero(tmp_path: Path) -> None:
    """As ``irate``: the value after the reset is the increase."""
    made = Cluster(tmp_path, (1,))
    made.partition("t", 0, 1, "1")
    made.write()
    (tmp_path / "metrics.csv").unlink()
    folder = tmp_path / "host-1_9404"
    folder.mkdir()
    for step, (total, cpu) in enumerate([(1e9, 100.0), (6e6, 148.0)]):
        (folder / f"{(T0 - 60_000 + 60_000 * step) // 1000}.prom").write_text(
            f'kafka_server_brokertopicmetrics_bytesin_total{{topic="t"}} {total}\n'
            f"kafka_server_brokertopicmetrics_bytesin_total {total}\n"
            "kafka_server_brokertopicmetrics_bytesout_total 0\nkafka_server_brokertopicmetrics_messagesin_total 0\n"
            "kafka_server_brokertopicmetrics_replicationbytesin_total 0\n"
            "kafka_server_brokertopicmetrics_replicationbytesout_total 0\n"
            "kafka_server_brokertopicmetrics_totalfetchrequests_total 0\n"
            "kafka_server_brokertopicmetrics_totalproducerequests_total 0\n"
            f'kafka_log_log_size{{topic="t",partition="0"}} 1048576\nprocess_cpu_seconds_total {cpu}\n'
        )
    row = compute(read(tmp_path)).tables["samples"].row(0, named=True)
    assert row["leader_bytes_in"] == pytest.approx(6e6 / 60 / 1024)
    assert row["cpu_usage"] == pytest.approx(48 / 60)  # cores used by the process


def test_describe_with_log_lines_spaces_and_a_cut_end(tmp_path: Path) -> None:
    """A warning in the tool's log is not a problem, an error is."""
    (tmp_path / "d.txt").write_text(
        "[2026-01-01 00:00:00,000] WARN something (org.apache.kafka.clients.NetworkClient)\n"
        "[2026-01-01 00:00:00,001] ERROR timed out (org.apache.kafka.tools.TopicCommand)\n"
        "Topic: t     TopicId: x PartitionCount: 3      ReplicationFactor: 2    Configs: min.insync.replicas=2\n"
        "      Topic: t     Partition: 0    Leader: 1       Replicas: 1,2   Isr: 1,2\n"
        "      Topic: t     Partition: 1    Leader: none    Replicas: 2,1   Isr: \n"
        "      Topic: t     Partition: 2    Leader: 2       Replicas: 2,1   Isr: 2"
    )
    inputs = read(tmp_path)
    assert {p.kind for p in inputs.problems} == {"stray-line", "cut-file"}
    assert [(p.line, p.count) for p in inputs.problems if p.kind == "stray-line"] == [(2, 1)]
    rows = inputs.table("topology")
    assert rows.select("partition", "leader", "min_isr").rows() == [(0, 1, 2), (1, -1, 2)]
    state = compute(inputs)
    assert state.tables["partitions"]["leader"].to_list() == [1, -1]


def test_describe_with_elr(tmp_path: Path) -> None:
    """With an empty ISR the eligible leader replica takes over when the cluster knows it."""
    made = Cluster(tmp_path)
    made.write()
    (tmp_path / "topology.csv").unlink()
    (tmp_path / "d.txt").write_text(
        "Topic: t\tTopicId: x\tPartitionCount: 2\tReplicationFactor: 3\tConfigs: \n"
        "\tTopic: t\tPartition: 0\tLeader: 1\tReplicas: 1,2,3\tIsr: 1\tElr: 3\tLastKnownElr: \n"
        "\tTopic: t\tPartition: 1\tLeader: 1\tReplicas: 1,2,3\tIsr: 1\tElr: N/A\tLastKnownElr: N/A\n"
    )
    leaders = compute(read(tmp_path), ("fail", "1")).tables["failover_leaders"]
    assert leaders["new_leader"].to_list() == [3, None]
    unclean = compute(read(tmp_path), ("fail", "1"), ("unclean-leader-election", "true")).tables["failover_leaders"]
    assert unclean["new_leader"].to_list() == [3, 2]
    assert unclean["unclean"].to_list() == [False, True]


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        (lambda c: c["brokerCapacities"][0]["capacity"].pop("DISK"), "bad-record"),
        (lambda c: c["brokerCapacities"][0].update(brokerId="x"), "bad-record"),
        (lambda c: c["brokerCapacities"][0]["capacity"].update(NW_IN="1e999"), "bad-record"),
        (lambda c: c["brokerCapacities"][0]["capacity"].update(DISK={"relative": "5"}), "bad-record"),
        (lambda c: c["brokerCapacities"][0]["capacity"].update(CPU={"cores": "5"}), "bad-record"),
        (lambda c: c["brokerCapacities"][0]["capacity"].update(CPU="100"), "mixed-cores"),
        (lambda c: c.update(brokerCapacities=5), "bad-record"),
    ],
)
def test_bad_capacities(tmp_path: Path, change, kind: str) -> None:
    content = {"brokerCapacities": [
        {"brokerId": "1", "capacity": {"DISK": "1", "CPU": {"num.cores": "2"}, "NW_IN": "1", "NW_OUT": "1"}},
        {"brokerId": "2", "capacity": {"DISK": {"/a": "1", "/b": "2"}, "CPU": {"num.cores": "2"}, "NW_IN": "1", "NW_OUT": "1"}},
    ]}  # fmt: skip
    change(content)
    (tmp_path / "capacity.json").write_text(json.dumps(content))
    assert [p.kind for p in read(tmp_path).problems] == [kind]


def test_of_two_capacities_of_a_broker_the_last_counts(tmp_path: Path) -> None:
    amounts = {"CPU": "100", "NW_IN": "1", "NW_OUT": "1"}
    entries = [{"brokerId": "1", "capacity": {"DISK": disk, **amounts}} for disk in ("5", "6")]
    (tmp_path / "capacity.json").write_text(json.dumps({"brokerCapacities": entries}))
    inputs = read(tmp_path)
    assert [(p.kind, "given twice; the last counts" in p.reason) for p in inputs.problems] == [("bad-record", True)]
    assert inputs.table("capacity").select("broker", "disk_mb").rows() == [(1, 6.0)]


def test_duplicated_hosts_count_once(tmp_path: Path) -> None:
    """The same scrape under two folders of one host is one reading, not a second one."""
    simulation = Simulation()
    put_documents(simulation, tmp_path)
    for _ in range(2):
        simulation.advance(60)
        put_scrapes(simulation, tmp_path)
    before = compute(read(tmp_path)).tables["brokers"]
    import shutil

    host = "kafka-1.example.net"
    shutil.copytree(tmp_path / "scrape" / f"{host}_7071", tmp_path / "copy" / f"{host}_7071")
    assert compute(read(tmp_path)).tables["brokers"].equals(before)


def test_nan_in_cruise_control_json_is_read_with_a_problem(tmp_path: Path) -> None:
    (tmp_path / "load.json").write_text(
        '{"brokers":[{"Broker":1,"Host":"h","CpuPct":NaN,"DiskMB":"1,024.5","Leaders":1,"Replicas":2,"PnwOutRate":1}],"version":1}'
    )
    inputs = read(tmp_path)
    assert [p.kind for p in inputs.problems] == ["nan-in-json"]
    row = compute(inputs).tables["brokers"].row(0, named=True)
    assert row["disk_mb"] == 1024.5


def test_broker_list_of_any_width_and_without_a_last_line_end() -> None:
    """The last broker counts though its line has no end, further columns do not matter, exports of this view do."""
    from engine.broker_load.reading.tabular import CsvRows

    def read_rows(data: bytes, *, final: bool) -> tuple[list[int], list[str], int]:
        reading = CsvRows().read(Source("/in/b.csv", "b.csv", T0, len(data)), data, None, final)
        rows = reading.rows.get("broker_list")
        return (
            rows["broker"].to_list() if rows is not None else [],
            [p.kind for p in reading.problems],
            reading.consumed,
        )

    data = b"zone,broker,host,rack,alive\nx,1,a,r,true\nx,4,b,r,true"
    assert CsvRows().recognise("b.csv", data)
    assert read_rows(data, final=True) == ([1, 4], ["cut-file"], len(data))
    assert read_rows(data, final=False) == ([1], [], data.rfind(b"\n") + 1)
    assert read_rows(data[:-7], final=True)[:2] == ([1], ["cut-file"])
    assert not CsvRows().recognise("b.csv", b"broker,host,rack,state,cores\n1,a,r,ALIVE,8\n")
    assert not CsvRows().recognise("b.csv", b"broker,host,metric\n1,a,3\n")


def test_last_broker_counts_also_where_the_list_is_read_in_two_steps() -> None:
    """The lines before were taken while the file might still grow; the last one comes when nothing follows."""
    from engine.broker_load.reading.tabular import CsvRows

    data = b"broker,host,rack,alive\n1,a,r,true\n7,c,s,true"
    source = Source("/in/b.csv", "b.csv", T0, len(data))
    first = CsvRows().read(source, data, None, False)
    rest = CsvRows().read(source, data[first.consumed :], first.state, True)
    assert rest.rows["broker_list"]["broker"].to_list() == [7]
    assert [(p.kind, p.line) for p in rest.problems] == [("cut-file", 3)]


def test_a_quote_changes_nothing_in_the_lines_around_it() -> None:
    from engine.broker_load.reading.tabular import CsvRows

    data = b'broker,host,rack,alive\n1,"a\nb",r,true\n2,b,s\r,true\n3,"c",s,true\n'
    source = Source("/in/b.csv", "b.csv", T0, len(data))
    whole = CsvRows().read(source, data, None, True)
    cut = data.index(b"2,b")
    first = CsvRows().read(source, data[:cut], None, False)
    rest = CsvRows().read(source, data[cut : data.index(b"3,")], first.state, False)
    last = CsvRows().read(source, data[data.index(b"3,") :], rest.state, True)
    parts = [reading.rows["broker_list"] for reading in (first, rest, last)]
    assert (
        pl.concat(parts).rows()
        == whole.rows["broker_list"].rows()
        == [(2, "b", "s·", True, None), (3, "c", "s", True, None)]
    )


def test_csv_rows_that_do_not_fit(tmp_path: Path) -> None:
    """Each kind of bad row is counted at its first line; good rows stay."""
    made = simple(tmp_path)
    made.write()
    path = tmp_path / "metrics.csv"
    good = path.read_text()
    bad = (
        "x,TOPIC_BYTES_IN,1,t,,5\n1700000040000,NO_SUCH_METRIC,1,,,5\n1700000040000,PARTITION_SIZE,1,t,,5\n"
        "1700000040000,TOPIC_BYTES_IN,1,t,,1,234\n"
    )
    path.write_text(good + bad + "1700000040000,TOPIC_BYTES_IN,1,t,,99")
    inputs = read(tmp_path)
    lines = good.count("\n")
    found = [(p.kind, p.line, p.count) for p in inputs.problems]
    assert found == [("bad-record", lines + 4, 1), ("bad-record", lines + 1, 3), ("cut-file", lines + 5, 1)]
    path.write_text(good)
    assert compute(inputs).tables["samples"].equals(compute(read(tmp_path)).tables["samples"])


def test_nothing_usable(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("hello\n")
    with pytest.raises(NoInput):
        compute(read(tmp_path))


def test_options_that_name_nothing_give_notes(tmp_path: Path) -> None:
    result = compute(read(simple(tmp_path).write()), ("fail", "99,rack:none"))
    assert sum("is called" in note for note in result.notes) == 2
    with pytest.raises(NoInput):
        compute(read(tmp_path), ("at", "yesterday"))


def test_live_sample_kills_and_revives_a_broker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The played cluster stays readable, also after it drops old files; the dead broker shows."""
    from sample_data.broker_load import live
    from sample_data.broker_load.live import DIES, RETURNS, VICTIM, steps

    monkeypatch.setattr(live, "KEEP", 3)
    play = steps(tmp_path)
    for _ in range(DIES + 1):
        next(play)
    result = compute(read(tmp_path))
    states = dict(result.tables["brokers"].select("broker", "state").iter_rows())
    assert states[VICTIM] == "DEAD"
    assert not result.problems
    for _ in range(RETURNS - DIES):
        next(play)
    states = dict(compute(read(tmp_path)).tables["brokers"].select("broker", "state").iter_rows())
    assert states[VICTIM] == "ALIVE"


def test_static_sample_is_what_the_maker_makes(tmp_path: Path) -> None:
    """``files/`` is current."""
    import sample_data.broker_load as package
    from sample_data.broker_load.make import write

    write(tmp_path)
    files = Path(str(package.__file__)).parent / "files"
    made = {p.relative_to(tmp_path): p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}
    assert made == {p.relative_to(files): p.read_bytes() for p in files.rglob("*") if p.is_file()}


@pytest.mark.parametrize("shape", tabular._SHAPES)
def test_a_shape_reads_no_column_that_it_does_not_need(shape: Any) -> None:
    frame = pl.DataFrame({name: ["1"] for name in shape.needs})
    made = shape.make(frame, 1_700_000_000_000)
    assert made.height == 1 and set(made.columns) <= {*shape.table.schema, "_ok"}
