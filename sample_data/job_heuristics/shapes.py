"""The jobs of our made-up cluster: a mix of healthy, wasteful, skewed, failing and repeated ones."""

from __future__ import annotations

from dataclasses import replace

from sample_data.job_heuristics.plans import Shape
from sample_data.job_heuristics.spark_log import AppPlan, StagePlan
from sample_data.job_heuristics.tez_history import DagPlan, VertexPlan

SESSIONS = Shape("daily-sessions", "ana", "etl", maps=4, reduces=2, slots=4)
FINISHED: tuple[tuple[Shape, float], ...] = (
    # Shape and the hours before the end at which it was submitted. The same job on three days, with growing input.
    (SESSIONS, 50.0),
    (replace(SESSIONS, input_mb=135.0, map_s=270.0), 26.0),
    (replace(SESSIONS, input_mb=150.0, map_s=520.0, gc_share=0.035), 2.0),
    (Shape("Index search logs", "ben", "search", maps=3, reduces=1, map_mb=8192, reduce_mb=8192, used_mb=1100), 6.5),
    (
        Shape("join-orders-customers", "cleo", "etl", maps=3, reduces=4, hot_reduces=1, hot_factor=9.0, shuffle_s=700),
        5.2,
    ),
    (Shape("import-events", "dan", "ingest", maps=6, reduces=0, state="FAILED", map_s=90.0), 4.1),
    (Shape("compress-archive", "dan", "ingest", maps=2, reduces=0, map_s=5200.0, input_mb=3000.0), 3.5),
    (Shape("report: top sellers (weekly)", "ana", "reports", maps=3, reduces=1, sort_s=420.0, failing=0.5), 1.2),
)
"""The static sample: finished jobs of few tasks, so that the files stay small."""

HISTORY: tuple[tuple[Shape, float], ...] = (
    *((replace(s, maps=s.maps * 6, reduces=s.reduces * 3, slots=12), hours) for s, hours in FINISHED),
    (Shape("crawl-frontier", "eve", "search", maps=160, reduces=4, map_s=18.0, input_mb=6.0, slots=40), 7.7),
    (Shape("dedup-images", "eve", "ml", maps=60, reduces=12, spill=2.7, map_s=400.0, slots=24), 9.4),
    (
        Shape("train-features", "fay", "ml", maps=40, reduces=16, hot_maps=14, hot_factor=11.0, spread=0.05, slots=20),
        11.0,
    ),
    (replace(SESSIONS, maps=24, reduces=6, slots=12), 74.0),
    (replace(SESSIONS, maps=24, reduces=6, slots=12), 98.0),
)
"""What the done folder of the played cluster holds at the start."""

LIVE: tuple[Shape, ...] = (
    Shape("stream-rollup", "ana", "etl", maps=36, reduces=6, map_s=9, reduce_s=9, shuffle_s=2, sort_s=0.4, slots=6,
          map_mb=6144, used_mb=900),
    Shape("sync-warehouse", "ben", "ingest", maps=60, reduces=4, map_s=5, reduce_s=8, shuffle_s=1, sort_s=0.3, slots=10,
          failing=0.15),
    Shape("score-models", "fay", "ml", maps=24, reduces=8, map_s=12, reduce_s=9, shuffle_s=3, sort_s=0.5, slots=6,
          gc_share=0.03, reduce_mb=8192, used_mb=700, hot_reduces=1, hot_factor=2.5),
    Shape("import-events", "dan", "ingest", maps=20, reduces=2, map_s=7, slots=6, state="FAILED"),
    Shape("stream-rollup", "ana", "etl", maps=40, reduces=6, map_s=9, reduce_s=9, shuffle_s=2, sort_s=0.4, slots=8,
          map_mb=2048, used_mb=1400),
)  # fmt: skip
"""Jobs that the played cluster runs one after the other, in seconds instead of minutes."""

_SCAN = StagePlan("scan orders", 24, 5.0, input_mb=96, shuffle_write_mb=40)
_JOIN = StagePlan(
    "join orders and clicks", 16, 6.0, shuffle_read_mb=60, shuffle_write_mb=12, hot=1, hot_factor=9.0, spill=30
)
_SAVE = StagePlan("save daily_revenue", 8, 2.0, shuffle_read_mb=24, output_mb=48)
SPARK_FINISHED: tuple[tuple[AppPlan, float], ...] = (
    (
        AppPlan("daily revenue", "cleo", "etl", ((_SCAN, _JOIN, _SAVE),), executors=6, table="shop.orders", memory_mb=12288,
                heap_mb=5200, conf={"spark.sql.adaptive.enabled": "false"}),
        7.3,
    ),
    (
        AppPlan("score customers", "fay", "ml",
                tuple((StagePlan(f"iteration {k}", 12, 1.5, input_mb=10, gc_share=0.16),) for k in range(4)),
                executors=3, cores=4, heap_mb=3700, driver_s=9),
        3.9,
    ),
)  # fmt: skip
"""Finished Spark applications of the static sample, with the hours before the end at which they started."""

SPARK_LIVE: tuple[AppPlan, ...] = (
    AppPlan("sessions to parquet", "ana", "etl",
            ((StagePlan("scan events", 40, 4.0, input_mb=110, shuffle_write_mb=30, failing=0.05),
              StagePlan("sessionize", 24, 5.0, shuffle_read_mb=50, output_mb=64, hot=1, hot_factor=6.0, spill=20)),
             (StagePlan("count sessions", 12, 2.0, input_mb=40),)),
            executors=4, cores=2, table="web.events", files=900),
    AppPlan("refresh features", "fay", "ml",
            tuple((StagePlan(f"features {k}", 10, 2.5, input_mb=30, gc_share=0.09),) for k in range(5)), executors=8, driver_s=5),
)  # fmt: skip
"""Spark applications that the played cluster runs one after the other."""

_SCATTER, _BROADCAST = "SCATTER_GATHER", "BROADCAST"
TEZ_LIVE: tuple[DagPlan, ...] = (
    DagPlan("revenue by region", (
        VertexPlan("Map 3", "map", 2, 5, 8), VertexPlan("Map 4", "map", 1, 4, 2),
        VertexPlan("Map 1", "map", 30, 9, 180, (("Map 3", _BROADCAST), ("Map 4", _BROADCAST))),
        VertexPlan("Reducer 2", "reduce", 8, 6, 40, (("Map 1", _SCATTER),), hot=1),
        VertexPlan("Reducer 5", "reduce", 1, 5, 2, (("Reducer 2", _SCATTER),)),
    )),
    DagPlan("orders without customer", (
        VertexPlan("Map 1", "map", 24, 8, 200), VertexPlan("Map 3", "map", 6, 8, 60),
        VertexPlan("Reducer 2", "reduce", 12, 7, 90, (("Map 1", _SCATTER), ("Map 3", _SCATTER)), spilled=2.6),
    )),
)  # fmt: skip
"""DAGs of the session of Hive on Tez that runs."""
