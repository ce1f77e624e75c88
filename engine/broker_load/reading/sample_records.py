"""Sample-store records: the binary samples Cruise Control keeps in two Kafka topics.

A dump is a text file with one record per line in base64 (optionally after ``kind,key,`` as in CSV), or one raw record
per file. Layout: big endian, see the fields below; version 0 of a partition sample ends after four values.
"""

from __future__ import annotations

import base64
import binascii
import re
import struct
from typing import Any

from engine.broker_load.reading.fields import LATEST_MS
from engine.broker_load.tables.inputs import OBSERVATIONS, SAMPLES_IN
from engine.broker_load.tables.raw_metrics import SAMPLE
from engine.core.problems import Problem, ProblemList
from engine.core.reading import Reading, Source
from engine.core.tables import Table
from engine.core.text import clean, decode

_V1 = struct.Struct(">bi9dqi")
_V0 = struct.Struct(">bi4dqi")
_BROKER = struct.Struct(">bih")
_BROKER_REST = struct.Struct(">13dq2i")
_BASE64 = re.compile(rb"^(?:(?:partition|broker),[^,\n]*,)?([A-Za-z0-9+/]{40,}={0,2})\r?$")
_CSV = b"kind,key,base64"


def partition_sample(record: bytes) -> dict[str, Any]:
    """Decode one partition sample: topic, partition, leader, time_ms and the nine values (absent ones 0). Raises ValueError."""
    if not record:
        raise ValueError("empty record")
    if record[0] == 1 and len(record) > _V1.size:
        _, broker, *values, time, partition = _V1.unpack_from(record)
        topic = record[_V1.size :]
    elif record[0] == 0 and len(record) > _V0.size:
        _, broker, *values, time, partition = _V0.unpack_from(record)
        values += [0.0] * 5
        topic = record[_V0.size :]
    else:
        raise ValueError("not a partition sample of version 0 or 1")
    if broker < 0 or partition < 0 or not 0 < len(topic) <= 255 or not 0 <= time <= LATEST_MS:
        raise ValueError("negative id, over-long topic or impossible time")
    name = topic.decode("utf-8")
    row: dict[str, Any] = {"topic": clean(name), "partition": partition, "leader": broker, "time_ms": time}
    return row | dict(zip(SAMPLE, values, strict=True))


def broker_sample(record: bytes) -> dict[str, Any]:
    """Decode one broker sample to a row of ``observations``. Raises ValueError."""
    if len(record) < _BROKER.size or record[0] not in (4, 5):
        raise ValueError("not a broker sample of version 4 or 5")
    _, broker, length = _BROKER.unpack_from(record)
    rest = _BROKER.size + length
    if length < 0 or broker < 0 or len(record) < rest + _BROKER_REST.size:
        raise ValueError("cut broker sample")
    record[_BROKER.size : rest].decode("utf-8")  # the host: text that is none shows a damaged record
    cpu, bytes_in, bytes_out, follower_in, *_, time_ms, _, _ = _BROKER_REST.unpack_from(record, rest)
    if not 0 <= time_ms <= LATEST_MS:
        raise ValueError("impossible time")
    rates = {"bytes_in": bytes_in, "bytes_out": bytes_out, "follower_in": follower_in}
    return {"time_ms": time_ms, "broker": broker, "cpu": cpu * 100} | rates


class SampleRecords:
    """Partition and broker samples as the sample store keeps them, in base64, one per line, or one raw per file."""

    id = "sample-records"
    title = "Cruise Control sample-store records (base64 lines)"
    append = True
    version = 2
    tables: tuple[Table, ...] = (SAMPLES_IN, OBSERVATIONS)

    def recognise(self, name: str, head: bytes) -> bool:
        """Recognise by the CSV header, or lines of base64 whose first byte is a record version."""
        first = head.split(b"\n", 1)[0].rstrip(b"\r")
        if first.strip().lower() == _CSV:
            return True
        match = _BASE64.match(first)
        return match is not None and match[1][:2] in (b"AA", b"AQ", b"BA", b"BQ")

    def read(self, source: Source, data: bytes, state: Any, final: bool) -> Reading:
        """Read new complete lines to rows of ``finished_samples`` and ``observations``."""
        end = len(data) if final else data.rfind(b"\n") + 1
        samples: dict[str, list[Any]] = {column.name: [] for column in SAMPLES_IN.columns}
        observations: dict[str, list[Any]] = {column.name: [] for column in OBSERVATIONS.columns}
        problems = ProblemList()
        done = int((state or {}).get("lines", 0))
        lines = data[:end].split(b"\n")
        for number, line in enumerate(lines, done + 1):
            text = line.strip()
            if not text or text.lower() == _CSV:
                continue
            try:
                record = base64.b64decode(text.rsplit(b",", 1)[-1], validate=True)
                partitioned = record[:1] in (b"\x00", b"\x01")
                row = partition_sample(record) if partitioned else broker_sample(record)
                for name, values in (samples if partitioned else observations).items():
                    values.append(row[name])
            except (ValueError, binascii.Error, struct.error) as error:
                reason = f"not a sample record: {error}; {decode(text[:40])}"
                problems.append(Problem.at(source.path, "bad-record", reason, line=number))
        return Reading(
            rows={"finished_samples": samples, "observations": observations},
            problems=problems,
            consumed=end,
            state={"lines": done + len(lines) - 1},
        )
