"""Loads of log directories."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from tests.engine.broker_load.clusters import MB, simple
from tests.engine.broker_load.inputs import compute, read


def test_directories_of_jbod(tmp_path: Path) -> None:
    """Each directory has its own load; an offline one and one that nothing lists have none, which is not 0."""
    made = simple(tmp_path).write()
    (made / "capacity.json").write_text(
        '{"brokerCapacities": [{"brokerId": "1", "capacity": {"DISK": {"/d1": "100", "/d3": "50"}, "CPU": "100",'
        ' "NW_IN": "1000", "NW_OUT": "1000"}}]}'
    )
    part = '{"partition": "%s-0", "size": %d, "offsetLag": 0, "isFuture": false}'
    found = (
        '{{"logDir": "/d1", "error": null, "partitions": [{}, {}]}}, {{"logDir": "/d0", "error": null, "partitions": []}},'
        ' {{"logDir": "/d2", "error": "KafkaStorageException", "partitions": []}}'
    ).format(part % ("t", 10 * MB), part % ("u", 15 * MB))
    (made / "log-dirs.txt").write_text(f'{{"version": 1, "brokers": [{{"broker": 1, "logDirs": [{found}]}}]}}\n')
    rows = compute(read(made)).tables["directories"].filter(pl.col("broker") == 1)
    assert rows.select("log_dir", "replicas", "disk_mb", "capacity_mb", "disk_pct").rows() == [
        ("/d0", 0, 0.0, None, None), ("/d1", 2, 25.0, 100.0, 25.0), ("/d2", 0, None, None, None),
        ("/d3", None, None, 50.0, None),
    ]  # fmt: skip
    assert rows["error"].null_count() == 3
