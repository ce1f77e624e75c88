"""Small made-up models for the tests of everything beyond upstream."""

from __future__ import annotations

from typing import Any

import polars as pl

from engine.job_heuristics.mapreduce.model.model import Model
from engine.job_heuristics.mapreduce.tables import ATTEMPT_MODEL, CONF_MODEL, JOB_MODEL, TASK_MODEL

BASE = 1_700_000_000_000
MB = 2**20


def task(side: str, start: float, seconds: float, **more: Any) -> dict[str, Any]:
    """One task with one successful attempt: times in seconds after BASE."""
    return {"side": side, "start": start, "seconds": seconds, **more}


def model(
    tasks: list[dict[str, Any]], job_id: str = "job_1_0001", conf: dict[str, str] | None = None, **row: Any
) -> Model:
    """A Model of one job. Keys of a task: side, start, seconds, scheduled, shuffle, sort (seconds), size, pmem_mb,
    cpu, gc, spilled, records, out_bytes, host, rack, state, and ``extra``: further attempts as
    (state, start, seconds, avataar)."""
    task_rows, attempt_rows = [], []
    for k, t in enumerate(tasks):
        side, letter = t["side"], "m" if t["side"] == "map" else "r"
        task_id = f"task_{job_id[4:]}_{letter}_{k:06}"
        start = BASE + int(t["start"] * 1000)
        total = int(t["seconds"] * 1000)
        state = t.get("state", "SUCCEEDED")
        running = state == "RUNNING"
        shuffle, sort = int(t.get("shuffle", 0) * 1000), int(t.get("sort", 0) * 1000)
        scheduled = BASE + int(t.get("scheduled", max(0, t["start"] - 1)) * 1000)
        kind = "MAP" if side == "map" else "REDUCE"
        size = int(t.get("size", 100 * MB))
        base = {"job_id": job_id, "task_id": task_id, "side": side, "type": kind, "scheduled_ms": scheduled}
        counters = {
            "physical_bytes": int(t.get("pmem_mb", 1000) * MB),
            "virtual_bytes": int(t.get("vmem_mb", 1500) * MB),
            "cpu_ms": int(t.get("cpu", total * 0.7)),
            "gc_ms": int(t.get("gc", 0)),
            "spilled_records": int(t.get("spilled", 1000)) if side == "map" else None,
            "map_output_records": int(t.get("records", 1000)) if side == "map" else None,
            "map_output_bytes": int(t.get("out_bytes", 10 * MB)) if side == "map" else None,
            "reduce_shuffle_bytes": size if side == "reduce" else None,
        }
        task_rows.append(
            {
                **base,
                **(counters if not running else {}),
                "state": state,
                "attempt_id": None if running else f"attempt_{task_id[5:]}_0",
                "timed": not running,
                "start_ms": None if running else start,
                "finish_ms": None if running else start + total,
                "ended_ms": None if running else start + total,
                "total_ms": None if running else total,
                "shuffle_ms": None if running else shuffle,
                "sort_ms": None if running else sort,
                "input_bytes": size if side == "map" and not running else None,
                "host": t.get("host", f"n{k % 5}"),
                "rack": t.get("rack", "/r1"),
            }
        )
        attempt_rows.append(
            {
                **base,
                "attempt_id": f"attempt_{task_id[5:]}_0",
                "state": state,
                "chosen": not running,
                "start_ms": start,
                "finish_ms": None if running else start + total,
                "shuffle_finish_ms": start + shuffle if side == "reduce" and not running else None,
                "sort_finish_ms": start + shuffle + sort if side == "reduce" and not running else None,
                "host": t.get("host", f"n{k % 5}"),
                "rack": t.get("rack", "/r1"),
                "avataar": "VIRGIN",
            }
        )
        for number, (other, s, d, avataar) in enumerate(t.get("extra", []), 1):
            attempt_rows.append(
                {
                    **base,
                    "attempt_id": f"attempt_{task_id[5:]}_{number}",
                    "state": other,
                    "chosen": False,
                    "start_ms": BASE + int(s * 1000),
                    "finish_ms": None if other == "RUNNING" else BASE + int((s + d) * 1000),
                    "host": "n9",
                    "avataar": avataar,
                }
            )
    ends = [r["ended_ms"] for r in task_rows if r["ended_ms"]]
    maps = sum(t["side"] == "map" for t in tasks)
    last = max(ends, default=BASE)
    job = {
        "job_id": job_id,
        "name": "demo",
        "user": "ann",
        "queue": "etl",
        "job_type": "Unknown",
        "state": "SUCCEEDED",
        "submit_ms": BASE,
        "am_start_ms": BASE + 2000,
        "launch_ms": BASE + 4000,
        "finish_ms": last + 1000,
        "last_event_ms": last + 1000,
        "maps": maps,
        "reduces": len(tasks) - maps,
        "maps_finished": sum(t["side"] == "map" and t.get("state", "SUCCEEDED") == "SUCCEEDED" for t in tasks),
        "reduces_finished": sum(t["side"] == "reduce" and t.get("state", "SUCCEEDED") == "SUCCEEDED" for t in tasks),
        "uberized": False,
        "map_memory_mb": 2048,
        "reduce_memory_mb": 2048,
        "source": "history",
        "broken": "",
        **row,
    }
    stated = {f"mapreduce.{side}.memory.mb": str(job[f"{side}_memory_mb"]) for side in ("map", "reduce")}
    settings = stated if conf is None else conf
    return Model.of(
        _frame(JOB_MODEL, [job]),
        TASK_MODEL.sorted(_frame(TASK_MODEL, task_rows)),
        ATTEMPT_MODEL.sorted(_frame(ATTEMPT_MODEL, attempt_rows)),
        _frame(CONF_MODEL, [{"job_id": job_id, "key": k, "value": v} for k, v in sorted(settings.items())]),
    )


def together(*models: Model) -> Model:
    """Several models (in the order of their job ids) as one."""
    return Model.of(
        JOB_MODEL.sorted(pl.concat([m.jobs for m in models])),
        *(pl.concat([getattr(m, name) for m in models]) for name in ("tasks", "attempts", "conf")),
    )


def _frame(table: Any, rows: list[dict[str, Any]]) -> pl.DataFrame:
    names = {n for r in rows for n in r}
    return table.frame({n: [r.get(n) for r in rows] for n in table.schema if n in names})
