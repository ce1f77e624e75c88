"""Ranges of groups, where what one class has too much another has too little, and of classes that never change."""

from __future__ import annotations

import numpy as np
import pytest

from tests.engine.query_profile.builders import compute

RATE = {"a": 0.8, "b": 0.3, "c": 0.5}


def _files(seed: int) -> dict[str, bytes]:
    """A log in which one text runs in two databases, mostly together, beside another text, and the CPU of it all: ``RATE`` of
    its time."""
    random = np.random.default_rng(seed)
    slow, cpu, used = [], ["captured_at,cpu_us", "2026-01-01T00:00:00Z,0"], 0.0
    for minute in range(60):
        together, alone = random.integers(1, 9, 2)
        for database, text, times in (("a", "SELECT name FROM shelf", together), ("b", "SELECT name FROM shelf", together),
                                      ("c", "SELECT total FROM bills", alone)):  # fmt: skip
            for second in range(times):
                seconds = random.lognormal(-0.5, 0.3)
                used += seconds * RATE[database] * random.normal(1, 0.05) * 1e6
                slow.append(
                    f"# Time: 2026-01-01T00:{minute:02d}:{second + 30}Z\n# User@Host: s[s] @ w []\n# Schema: {database}\n"
                    f"# Query_time: {seconds:.6f}  Lock_time: 0 Rows_sent: 1  Rows_examined: 1\n{text} WHERE id = {minute};\n"
                )
        cpu.append(f"2026-01-01T{(minute + 1) // 60:02d}:{(minute + 1) % 60:02d}:00Z,{used:.0f}")
    return {"slow.log": "".join(slow).encode(), "cpu.csv": "\n".join(cpu).encode()}


@pytest.mark.parametrize("seed", [3, 4])
def test_a_group_is_known_better_than_its_classes(seed: int) -> None:
    files = _files(seed)
    rows = compute(files, draws="40").tables["classes"]
    shelf = rows.filter(rows["query"].str.contains("shelf"))
    group = compute(files, draws="40", group="query").tables["classes"]
    group = group.filter(group["class"].str.contains("shelf"))
    low, high = group["y_low"][0], group["y_high"][0]
    assert group["y_total"][0] == pytest.approx(shelf["y_total"].sum())
    truth = sum(time * RATE[database] for time, database in shelf.select("x_total", "database").rows())
    assert low <= group["y_total"][0] <= high and low <= truth <= high
    assert high - low < 0.4 * (shelf["y_high"] - shelf["y_low"]).sum()
    others = compute(files, draws="40", top="1").tables["classes"][-1]
    assert others["y_low"][0] <= others["y_total"][0] <= others["y_high"][0]


def test_nothing_is_known_of_a_class_that_never_changes() -> None:
    header = "queryid,query,calls,total_exec_time"
    files = {
        f"pgss-{1767225600 + 60 * i}.csv": f"{header}\n1,SELECT 1,{i},{500 * i}\n2,SELECT 2,{i},{250 * i}\n".encode()
        for i in range(9)
    }
    files["cpu.csv"] = b"captured_at,cpu_us\n" + b"".join(
        b"%d,%d\n" % (1767225600 + 60 * i, 10**6 * i) for i in range(9)
    )
    for group in ("class", "verb"):
        result = compute(files, draws="40", group=group)
        assert set(result.tables["classes"].select("y_low", "y_high").rows()) == {(0.0, result.summary["y_measured"])}
