"""A few small files of every kind, from the sample data, from here, and from the reference data if present."""

from __future__ import annotations

import contextlib
import importlib
import io
import itertools
import json
import os
import re
import tempfile
import time
from collections.abc import Collection, Iterator
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

import polars as pl

from engine.core.reading import HEAD, FileKind
from engine.core.view import View
from engine.views import VIEWS
from sample_data.ring_placement.protobuf import write_bytes, write_int, write_packed
from tests.contract.file_samples import SAMPLES

Sample = tuple[str, bytes]
"""A file's name and content."""
SMALL = 12 << 10
"""Maximum bytes of a sample that can be cut."""
EACH = 24
"""Maximum number of samples of one kind."""

_TASK = {"id": "task_1700000000000_0007_m_000001", "type": "MAP", "state": "SUCCEEDED", "startTime": 1700000001000,
         "finishTime": 1700000009000, "elapsedTime": 8000, "progress": 100.0}  # fmt: skip
_SLOW = """# Time: 2026-01-05T09:00:0{n}.500123Z
# User@Host: app[app] @ web1 [10.0.0.5]  Id: 41
# Query_time: 0.{n}5  Lock_time: 0.000010 Rows_sent: 1  Rows_examined: {n}00
SET timestamp=176760360{n};
SELECT * FROM orders WHERE id = {n};
"""
_LOAD = """

  HOST  BROKER RACK DISK_CAP(MB) DISK(MB)/_(%)_ CORE_NUM CPU(%) NW_IN_CAP(KB/s) LEADER_NW_IN(KB/s) FOLLOWER_NW_IN(KB/s) \
NW_OUT_CAP(KB/s) NW_OUT(KB/s) PNW_OUT(KB/s) LEADERS/REPLICAS
kafka-1,  1,  a,  2000.000,  370.500/18.53,  8,  49.985,  20000.000,  2629.506,  6609.2,  40000.0,  8982.3,  28968.0,  6/15
kafka-2,  2,  b,  2000.000,  327.433/16.37,  8,  38.959,  20000.000,  5167.258,  3782.3,  40000.0,  12285.6,  27524.2,  8/16
"""
_STATS = "".join(
    f"{name}:{{cpu: 36{n}.971 networkInbound: 837{n}.4 networkOutbound: 1073{n}.0 disk: 30859{n}.5 potentialNwOut: 2707{n}.0 "
    f"replicas:15.25 leaderReplicas:6.25 topicReplicas:2.5}}\n"
    for n, name in enumerate(("AVG", "MAX", "MIN", "STD"))
)


def _json(*documents: Any) -> bytes:
    return b"\n".join(json.dumps(document).encode() for document in documents)


def _load_row(broker: int) -> dict[str, Any]:
    return {"Broker": broker, "Host": f"k{broker}", "Rack": "a", "BrokerState": "ALIVE", "CpuPct": 5.5, "NumCore": 8.0,
            "FollowerNwInRate": 66.5, "LeaderNwInRate": 12.5, "NwOutRate": 8.5, "PnwOutRate": 9.5, "DiskMB": 37.5,
            "DiskPct": 1.5, "DiskCapacityMB": 2000.0, "NetworkInCapacity": 200.0, "NetworkOutCapacity": 400.0,
            "Leaders": 6, "Replicas": 15}  # fmt: skip


def _partition(number: int) -> dict[str, Any]:
    return {"topic": "t", "partition": number, "leader": 1, "replicas": [1, 2], "in-sync": [1], "out-of-sync": [2],
            "offline": [], "min-isr": 1}  # fmt: skip


def _record(number: int) -> dict[str, Any]:
    return {"topic": "t", "partition": number, "leader": 1, "followers": [2], "cpu": 5.5, "networkInbound": 1.5,
            "networkOutbound": 2.5, "disk": 6.5, "msg_in": 7.5}  # fmt: skip


def _parquet(frame: pl.DataFrame) -> bytes:
    buffer = io.BytesIO()
    frame.write_parquet(buffer)
    return buffer.getvalue()


def _sysstat() -> dict[str, Any]:
    sample = [
        {"timestamp": f"23:38:0{n}", "cpu-load": [{"cpu": "all", "usr": 29.5, "nice": 0.0, "sys": 4.0, "idle": 66.5}]}
        for n in range(4)
    ]
    host = {"nodename": "vm", "number-of-cpus": 2, "date": "2026-11-20", "statistics": sample}
    return {"sysstat": {"hosts": [host]}}


def _fio() -> dict[str, Any]:
    side = {
        "iops": 10.5,
        "bw_bytes": 1000,
        "total_ios": 4,
        "clat_ns": {"mean": 5.0, "N": 4, "percentile": {"99.000000": 9}},
    }
    return {
        "fio version": "fio-3",
        "timestamp_ms": 5,
        "jobs": [{"jobname": "j", "read": side, "write": side, "usr_cpu": 1.0}],
    }


def _memberlist() -> dict[str, Any]:
    one = {"addr": "10.0.0.1:9095", "timestamp": 1700000000, "state": "ACTIVE", "tokens": [1, 5, 9], "zone": "a",
           "registered_timestamp": 1690000000}  # fmt: skip
    return {"ingesters": {"node-1": one, "node-2": {**one, "tokens": [2, 7], "zone": "b"}}}


def written() -> dict[str, list[Sample]]:
    """Return samples written here, by view."""
    loads = pl.DataFrame({"tenant": ["a", "b"], "dataset": ["x", "y"], "bytes_per_s": [1.5, 2.5]})
    metrics = pl.DataFrame(
        {"time_ms": [1, 2], "metric": ["ALL_TOPIC_BYTES_IN"] * 2, "broker": [1, 2], "value": [1.5, 2.5]}
    )
    stats = {"min": 0.1, "median": 0.2, "mean": 0.25, "data": [0.1, 0.2, 0.45]}
    digest = {"fingerprint": "select ?", "checksum": "AB", "query_count": 4,
              "metrics": {"Query_time": {"sum": "2.5"}, "Lock_time": {"sum": "0.5"}, "Rows_examined": {"sum": "9"}}}  # fmt: skip
    pgss = {"queryid": 5, "query": "select $1", "calls": 4, "total_exec_time": 1.5, "rows": 3, "dbid": 1, "userid": 2}
    jmh = {"jmhVersion": "1.37", "benchmark": "a.B.c", "mode": "thrpt", "params": {"n": "1"}, "secondaryMetrics": {},
           "primaryMetric": {"score": 5.0, "scoreUnit": "ops/us", "rawData": [[4.0, 6.0], [5.0]]}}  # fmt: skip
    burner = {"metricName": "cpu", "uuid": "u", "jobName": "j", "value": 1.5, "labels": {"node": "a"}, "timestamp": 1}
    perf = {
        "version": "v1",
        "dataItems": [{"data": {"Perc50": 1.5, "Perc99": 2.5}, "unit": "ms", "labels": {"Verb": "GET"}}] * 2,
    }
    k6 = {"root_group": {}, "metrics": {"d": {"type": "trend", "contains": "time", "values": {"avg": 1.5, "p(95)": 3.0}},
          "r": {"type": "counter", "contains": "data", "values": {"count": 10, "rate": 2.0}}}}  # fmt: skip
    return {
        "broker-load": [
            ("load.json", _json({"brokers": [_load_row(1), _load_row(2)], "hosts": [], "version": 1})),
            ("state.json", _json({"KafkaPartitionState": {"offline": [], "urp": [_partition(0)], "other": [_partition(1)]},
                                  "KafkaBrokerState": {"LeaderCountByBrokerId": {"1": 2}}, "version": 1})),
            ("partition_load.json", _json({"records": [_record(0), _record(1)], "version": 1})),
            ("load.txt", _LOAD.encode()),
            ("cluster_stats.txt", _STATS.encode()),
            ("metrics.parquet", _parquet(metrics)),
        ],
        "job-heuristics": [
            ("tasks.json", _json({"tasks": {"task": [_TASK, {**_TASK, "id": "task_1700000000000_0007_r_000000"}]}})),
            ("counters.json", _json({"jobCounters": {"id": "job_1700000000000_0007", "counterGroup": [
                {"counterGroupName": "org.apache.hadoop.mapreduce.TaskCounter",
                 "counter": [{"name": "SPILLED_RECORDS", "totalCounterValue": 5, "mapCounterValue": 3}]}]}})),
        ],
        "query-profile": [
            ("wlr.csv", b"user_us,select_1,insert_2\n" + b"".join(b"%d,%d,%d\n" % (n * 7, n, n % 3) for n in range(40))),
            ("pgss.json", _json([pgss, {**pgss, "queryid": 6}])),
            ("pgss2.json", _json({"snapshot_timestamptz": "2019-06-28T19:59:45+00:00", "queries": {"a": pgss, "b": pgss}})),
            ("digest.tsv", b"SCHEMA_NAME\tDIGEST\tDIGEST_TEXT\tCOUNT_STAR\tSUM_TIMER_WAIT\tSUM_LOCK_TIME\tFIRST_SEEN\n"
             + b"".join(b"shop\ta%d\tSELECT ?\t%d\t1000000\t5\t2026-01-05 09:00:00\n" % (n, n + 1) for n in range(6))),
            ("slow.log", "".join(_SLOW.format(n=n) for n in range(1, 8)).encode()),
            ("digest.json", _json({"classes": [digest, {**digest, "checksum": "CD"}],
                                   "global": {"query_count": 8, "unique_query_count": 2, "metrics": {}}})),
            ("pid-1795217883.txt", b"".join(b"%d (post gres: a) x) S 1 1 1 0 -1 4194560 100 0 0 0 %d 20 3 1 20 0 1 0 100 1 1\n"
                                            % (n, n * 9) for n in range(1, 5))),
            ("vmstat.txt", b"procs -------memory-------- ---swap-- -----io---- -system-- ------cpu----- ----timestamp----\n"
             b" r  b   swpd   free   buff  cache   si   so    bi    bo   in   cs us sy id wa st                 UTC\n"
             + b"".join(b" 2  0      0 1195 1236 1141    0    0  1775  5243  505 1054 %d  9 54  0  0 2026-11-20 23:38:%02d\n"
                        % (30 + n, n * 5) for n in range(8))),
            ("mpstat.json", _json(_sysstat())),
            ("sadf.csv", b"# hostname;interval;timestamp;CPU;%user;%nice;%system;%iowait;%steal;%idle\n"
             + b"".join(b"vm;5;2026-11-20 23:38:%02d UTC;-1;%d.31;0.00;4.26;0.61;0.00;60.5\n" % (n, n) for n in range(9))),
            ("docker.jsonl", b"".join(b'{"CPUPerc":"%d.4%%","Container":"db%d","Name":"db"}\n' % (n, n) for n in range(4))),
        ],
        "run-comparison": [
            ("build-log.txt", b"[k8s.io] Density\nI0101 10:00:00.000] [Result:Performance] " + json.dumps(perf, indent=1).encode()
             + b"\n[Finished:Performance]\nmore\n"),
            ("summary.json", _json(k6)),
            ("0001_x.json", _json({"machine_info": {"python_version": "3"}, "datetime": "2015-08-15T00:01:46Z", "benchmarks": [
                {"group": None, "fullname": "t.py::a", "stats": stats}, {"group": "g", "fullname": "t.py::b", "stats": stats}]})),
            ("jmh.json", _json([jmh, {**jmh, "benchmark": "a.B.d"}])),
            ("fio.json", _json(_fio())),
            ("pyperf.json", _json({"version": "1.0", "benchmarks": [
                {"runs": [{"warmups": [[1, 2.0]]}, {"values": [0.5, 0.6]}], "metadata": {"name": "x", "unit": "second"}}]})),
            ("burner.json", _json([burner, {**burner, "value": 2.5}])),
            ("cpu.txt", b"sysbench 1.0.20\nRunning the test with following options:\n"
             b"CPU speed:\n    events per second:  3150.00\n\nGeneral statistics:\n"
             b"    total time:  2.0017s\nLatency (ms):\n         min:     0.18\n         95th percentile:   0.92\n"
             b"         sum:      14.37\n"),
        ],
        "ring-placement": [
            ("ring-key.json", _json(_memberlist())),
            ("loads.csv", b"tenant,dataset,bytes_per_s,fingerprint\na,x,1.5,12\nb,y,2.5,\nb,\"z,\"\"q\",3,9\n"),
            ("loads.parquet", _parquet(loads)),
            ("ring-key.bin", _memberlist_binary()),
        ],
    }  # fmt: skip


def _memberlist_binary() -> bytes:
    def member(name: str, tokens: list[int]) -> bytes:
        body = write_bytes(1, b"10.0.0.1:9095") + write_int(2, 1_700_000_000) + write_packed(6, tokens)
        return write_bytes(1, write_bytes(1, name.encode()) + write_bytes(2, body + write_bytes(7, b"a")), always=True)

    data = member("node-1", [1, 5, 9]) + member("node-2", [2, 7])
    assert 60 < len(data) < 128
    return bytes([len(data), 60 << 2, len(data) - 1]) + data  # Snappy: its length, and all of it as one literal


# -- all of them -----------------------------------------------------------------------------------------------


def gather(views: list[View], wanted: Collection[str] = ()) -> dict[tuple[str, str], list[Sample]]:
    """Return samples of the ``wanted`` kinds (empty: all) by view and kind."""
    kinds = ((view.name, kind) for view in views for kind in view.kinds if not wanted or kind.id in wanted)
    return {(view, kind.id): of_kind(view, kind) for view, kind in kinds}


def of_kind(view: str, kind: FileKind) -> list[Sample]:
    """Return samples of one kind of a view."""
    samples: list[Sample] = []
    for name, data in itertools.chain(_near(view), _reference()):
        if len(samples) < EACH and kind.recognise(name, data[:HEAD]):
            small = _cut(data)
            if small is not None and (name, small) not in samples:
                samples.append((name, small))
    return samples


@cache
def _near(view: str) -> list[Sample]:
    """Files that a view may read: those written for it, its played ones, and those of other views."""
    played = {entry.name: _played(entry.name) for entry in VIEWS}
    shared = SAMPLES.get(view, {}).values()
    return [*written().get(view, ()), *shared, *played.get(view, ()), *itertools.chain(*played.values())]


@cache
def _played(view: str) -> list[Sample]:
    """The files of a view's sample data."""
    with tempfile.TemporaryDirectory(prefix="loadlens-fuzz-") as folder:
        steps = importlib.import_module(f"sample_data.{view.replace('-', '_')}.live").steps(Path(folder))
        with patch.object(time, "time", lambda: 1_790_000_000.0):  # the same files in every run
            for _ in range(3):
                next(steps)
        return list(_files(Path(folder), 60))


_known: list[Sample] = []


def _reference() -> list[Sample]:
    """The files of the reference data, at most a few of one form of name in a folder."""
    root = os.environ.get("LOADLENS_REFERENCE_DATA")
    if root and not _known:
        _known.extend(_files(Path(root), 3))
    return _known


def _files(root: Path, alike: int) -> Iterator[Sample]:
    seen: dict[tuple[str, str], int] = {}
    for path in sorted(root.rglob("*")):
        form = (str(path.parent), re.sub(r"\d+", "0", path.name))
        if path.is_file() and path.stat().st_size <= 16 << 20 and seen.get(form, 0) < alike:
            seen[form] = seen.get(form, 0) + 1
            yield path.name, path.read_bytes()


def _cut(data: bytes) -> bytes | None:
    """Return a small file of the same form, None if it cannot be made."""
    if len(data) <= SMALL:
        return data
    with contextlib.suppress(ValueError, RecursionError):
        return _json(_shortened(json.loads(data), 3))
    if b"\x00" in data[:HEAD] or data.lstrip()[:1] == b"<":
        return data if len(data) <= 4 * SMALL else None
    end = data.rfind(b"\n", 0, SMALL) + 1
    return data[:end] or None


def _shortened(value: Any, most: int) -> Any:
    if isinstance(value, list):
        return [_shortened(each, most) for each in value[:most]]
    if isinstance(value, dict):
        return {key: _shortened(each, most) for key, each in list(value.items())[:40]}
    return value
