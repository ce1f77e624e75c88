"""Timing of Tez applications: one large answer and one large proto history, read whole, and the history with a megabyte more.

The floor is decoding: the JSON of the answer; of the history inflating each record, its fields, and the JSON of its counters.
"""

from __future__ import annotations

import gc
import time
import zlib
from collections.abc import Callable
from typing import Any

import msgspec

from engine.core.incremental import Memo
from engine.core.reading import Source
from engine.core.view import Context
from engine.formats import protobuf
from engine.job_heuristics.parameters import JobParameters
from engine.job_heuristics.tez.reading.kinds import KINDS
from engine.job_heuristics.view import VIEW
from sample_data.job_heuristics import tez_history as tez
from sample_data.job_heuristics.tez_history import DagPlan, VertexPlan
from tests.bench.line import Line
from tests.engine.job_heuristics.helper import Store

APP = "application_1760000000000_0888"
MB = 1 << 20
TASKS = 24_000
LARGE = DagPlan("large", (
    VertexPlan("Map 1", "map", TASKS, 20), VertexPlan("Reducer 2", "reduce", TASKS // 4, 12, 40, (("Map 1", "SCATTER_GATHER"),)),
), slots=400)  # fmt: skip


def spent(work: Callable[[], Any]) -> float:
    """Processor seconds of a call, without collections of garbage, as in the processes that read."""
    gc.collect()
    gc.disable()
    begin = time.process_time()
    work()
    took = time.process_time() - begin
    gc.enable()
    return took


def _decoded(data: bytes) -> None:
    at = len(tez.proto_head())
    while at < len(data):
        length = int.from_bytes(data[at + 20 : at + 24], "big")
        value = zlib.decompress(data[at + 28 : at + 28 + length])
        at += 28 + length
        size, start = protobuf.varint(value, 0, len(value))
        for number, _, begin, end in protobuf.fields(value, start, start + size):
            if number == 10:
                pair = [value[a:b] for _, _, a, b in protobuf.fields(value, begin, end)]
                if pair[0] == b"counters":
                    msgspec.json.decode(pair[1])


def run() -> list[Line]:
    """Read both forms; the history also grows."""
    events = tez.events(APP, [LARGE], 1_760_400_000_000, 3)
    answer, history = tez.answer(events, "TEZ_TASK_ID"), tez.proto_head() + tez.proto(events)
    kinds = {kind.id: kind for kind in KINDS}
    lines = []
    for name, data, decode in (("tez-answer", answer, msgspec.json.decode), ("tez-proto-history", history, _decoded)):
        floor = spent(lambda decode=decode, data=data: decode(data))
        source = Source("/in/x", "x", 0, len(data))
        took = spent(lambda name=name, data=data, source=source: kinds[name].read(source, data, None, final=True))
        label = f"{name} of {len(data) >> 20} MB: reading over decoding"
        lines.append(Line(label, took / floor, "x", 3.0, note=f"decoding took {floor:.2f} s"))
    store, memo = Store(), Memo()
    store.put("/in/dag", history[:-MB], final=False)
    VIEW.compute(store.inputs(), JobParameters(), Context(0, memo=memo))
    read = spent(lambda: store.put("/in/dag", history, final=False))
    judged = spent(lambda: VIEW.compute(store.inputs(), JobParameters(), Context(0, memo=memo)))
    lines.append(Line(f"1 MB to {TASKS * 5 // 4:,} tasks of Tez: to the number", 1000 * (read + judged), "ms", 250.0))
    return lines
