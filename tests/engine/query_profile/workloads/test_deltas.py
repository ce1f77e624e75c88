"""Counters to work: resets, evictions, restarts, vanished classes."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.chance import tries
from tests.engine.query_profile.builders import HEADER, STEADY, capture, compute, folder, kinds, snapshot
from tests.reference import reference


def totals(files: dict[str, bytes]) -> tuple[dict[str, float], list[bool], list[str]]:
    result = compute(files, method="ratio", draws="0")
    rows = {row["class"]: row["x_total"] / 1000 for row in result.tables["classes"].iter_rows(named=True)}
    intervals = result.tables["intervals"]
    return rows, intervals["used"].to_list(), intervals["reason"].to_list()


def test_plain_growth() -> None:
    found, used, _ = totals(
        capture(
            snapshot(*STEADY),
            snapshot((1, 11, 130), (2, 20, 200), (3, 6, 55)),
            snapshot((1, 12, 131), (2, 21, 205), (3, 6, 55)),
        )
    )
    assert found == {"1": 31, "2": 5, "3": 5}
    assert used == [True, True]


def test_a_new_class_counts_in_full_when_nothing_was_evicted() -> None:
    found, used, _ = totals(capture(snapshot(*STEADY), snapshot(*STEADY, (4, 2, 7)), snapshot(*STEADY, (4, 3, 9))))
    assert found["4"] == 9
    assert used == [True, True]


def test_a_new_class_is_doubtful_when_something_was_evicted() -> None:
    after = [*STEADY[:2], (4, 1000, 7000)]
    found, used, reasons = totals(
        capture(snapshot(*STEADY), snapshot(*after), snapshot((1, 11, 110), (2, 20, 200), (4, 1001, 7001)))
    )
    assert used == [False, True]
    assert "appeared" in reasons[0]
    assert "vanished" in reasons[0]
    assert found["4"] == 1
    info = [(0, "2026-01-01"), (0, "2026-01-01"), (0, "2026-01-01")]
    _, used, reasons = totals(
        capture(snapshot(*STEADY), snapshot(*STEADY, (4, 9, 9)), snapshot(*STEADY, (4, 9, 9)), info=info)
    )
    assert used == [True, True]
    info[1] = info[2] = (3, "2026-01-01")
    _, used, reasons = totals(
        capture(snapshot(*STEADY), snapshot(*STEADY, (4, 9, 9)), snapshot(*STEADY, (4, 9, 9)), info=info)
    )
    assert used == [False, True]


def test_stats_since_proves_that_a_class_is_new() -> None:
    def with_since(since: str, *rows: tuple[int, float, float]) -> bytes:
        lines = snapshot(*rows).decode().strip().split("\n")
        return "\n".join([lines[0] + ",stats_since", *(f"{line},{since}" for line in lines[1:]), ""]).encode()

    first = with_since("2025-12-31 00:00:00+00", *STEADY)
    second = with_since("2025-12-31 00:00:00+00", *STEADY)
    proven = with_since("2026-01-01 00:01:30+00", (9, 4, 44)).split(b"\n", 1)[1]
    info = [(0, "2026-01-01"), (0, "2026-01-01"), (5, "2026-01-01")]
    found, used, _ = totals(capture(first, second, second + proven, info=info))
    assert used == [True, True]
    assert found["9"] == 44


def test_one_class_that_fell_is_flagged_and_its_new_value_counts() -> None:
    files = capture(
        snapshot(*STEADY),
        snapshot((1, 2, 20), (2, 21, 210), (3, 6, 60)),
        snapshot((1, 3, 30), (2, 22, 220), (3, 7, 70)),
    )
    found, used, reasons = totals(files)
    assert used == [False, True]
    assert "1 class fell" in reasons[0]
    assert found["1"] == 10
    whole = compute(files, method="ratio").tables["intervals"]
    assert whole["x"].to_list() == [(20 + 10 + 10) * 1000, 30_000]


def test_a_time_that_fell_though_calls_grew_is_seen() -> None:
    _, used, reasons = totals(
        capture(
            snapshot(*STEADY),
            snapshot((1, 11, 90), (2, 21, 210), (3, 6, 60)),
            snapshot((1, 12, 91), (2, 22, 211), (3, 7, 61)),
        )
    )
    assert used == [False, True]
    assert "fell" in reasons[0]


def test_a_global_reset_is_not_used() -> None:
    _, used, reasons = totals(
        capture(snapshot(*STEADY), snapshot((1, 1, 1), (2, 2, 2), (3, 1, 1)), snapshot((1, 2, 2), (2, 3, 3), (3, 2, 2)))
    )
    assert used == [False, True]
    assert reasons[0] == "the statistics were reset"
    info = [(0, "2026-01-01"), (0, "2026-01-02"), (0, "2026-01-02")]
    _, used, reasons = totals(
        capture(
            snapshot(*STEADY), snapshot((1, 30, 300), (2, 40, 400), (3, 50, 500)),
            snapshot((1, 31, 301), (2, 40, 400), (3, 50, 500)), info=info,
        )
    )  # fmt: skip
    assert used == [False, True]


def test_after_a_known_reset_the_new_values_are_the_work() -> None:
    info = [(0, "2026-01-01"), (0, "2026-01-02"), (0, "2026-01-02")]
    files = capture(
        snapshot(*STEADY), snapshot((1, 30, 300), (2, 40, 400)), snapshot((1, 31, 301), (2, 40, 400)), info=info
    )
    assert compute(files, method="ratio", draws="0").tables["intervals"]["x"].to_list() == [700_000, 1_000]


def test_a_class_that_is_counted_from_a_later_moment_started_again() -> None:
    """Evicted and back with more calls than before: no counter fell, only ``stats_since`` (or FIRST_SEEN) tells."""

    def one(calls: int, since: str) -> bytes:
        others = "".join(f"10,5,t,{q},SELECT {q},7,70,7,2025-12-01 00:00:00+00\n" for q in (8, 9))
        return (HEADER + f",stats_since\n10,5,t,1,SELECT 1,{calls},{calls},1,{since}\n" + others).encode()

    old, new = "2025-12-01 00:00:00+00", "2026-01-01 00:01:30+00"
    found, used, reasons = totals(capture(one(2, old), one(3, old), one(50, new), one(51, new)))
    assert used == [True, False, True]
    assert "fell or restarted from zero (reset)" in reasons[1]
    assert found["1"] == 2


@pytest.mark.parametrize(
    "other",
    [
        pytest.param([(1, 9000, 90_000), (2, 9000, 90_000), (3, 9000, 90_000)], id="always ahead"),
        pytest.param([(1, 9000, 90_000), (2, 1, 1), (3, 9000, 1)], id="ahead in some"),
        pytest.param([(7, 10, 10), (8, 10, 10), (9, 10, 10)], id="other classes"),
    ],
)
def test_two_servers_that_take_turns_under_one_name_are_refused(other: list[tuple[int, float, float]]) -> None:
    def later(rows: list[tuple[int, float, float]], t: int) -> bytes:
        return snapshot(*((q, calls + t, ms + 3 * t) for q, calls, ms in rows))

    files = capture(*(later(rows, t) for t in range(4) for rows in (STEADY, other)))
    result = compute(files, draws="0")
    assert "several-hosts" in kinds(result)
    assert not result.tables["intervals"]["used"].any()
    assert result.summary["y_measured"] is None
    assert result.tables["classes"]["x_total"].sum() == 0
    # one after another each of them is sound
    alone = compute(capture(*(later(STEADY, t) for t in range(4)), *(later(other, t) for t in range(4))), draws="0")
    assert "several-hosts" not in kinds(alone)


def test_a_restart_of_the_cpu_counter_is_not_used() -> None:
    _, used, reasons = totals(
        capture(
            snapshot(*STEADY), snapshot((1, 11, 130), (2, 20, 200), (3, 5, 50)), snapshot((1, 12, 131), (2, 20, 200), (3, 5, 50)),
            cpu=[5000, 100, 200],
        )
    )  # fmt: skip
    assert used == [False, True]
    assert "CPU counter fell" in reasons[0]


def test_one_snapshot_is_a_profile_since_the_reset() -> None:
    result = compute({"pgss-20260101T000000Z.csv": snapshot(*STEADY)})
    assert result.tables["classes"]["x_total"].to_list() == [200_000, 100_000, 50_000]
    assert result.tables["intervals"]["used"].to_list() == [False]
    assert any("one snapshot" in note for note in result.notes)


def test_postgres_checkups_own_deltas() -> None:
    """The same classes with the same differences, and its measure of error."""
    root = reference("query-profile") / "real/postgres-checkup"
    files = {k: v for k, v in folder(root).items() if "K000" not in k}
    wanted = next(iter(json.loads((root / "K000_query_analysis.json").read_text())["results"].values()))["data"]
    result = compute(files)
    frame = result.tables["classes"].filter(result.tables["classes"]["calls"] > 0)
    moved = [q for q in wanted["queries"].values() if q["diff_calls"]]
    assert sorted(round(t / 1000, 4) for t in frame["x_total"]) == sorted(round(q["diff_total_time"], 4) for q in moved)
    assert sorted(frame["calls"]) == sorted(q["diff_calls"] for q in moved)
    reason = result.tables["intervals"]["reason"][0]
    assert "6 classes appeared" in reason
    assert "6 classes vanished" in reason
    assert f"{wanted['relative_error_total_time']:.3g}%" in reason
    assert "rounded-queryid" in kinds(result)


def test_same_queryid_of_other_users_stays_apart() -> None:
    rows = b"10,5,t,7,S,1,1,1\n11,5,t,7,S,1,2,1\n10,5,f,7,S,1,3,1\n"
    more = b"10,5,t,7,S,2,11,1\n11,5,t,7,S,2,22,1\n10,5,f,7,S,2,33,1\n"
    head = HEADER.encode() + b"\n"
    result = compute(capture(head + rows, head + more))
    frame = result.tables["classes"]
    assert sorted(frame["x_total"].to_list()) == [10_000, 20_000]  # the nested one is inside its caller
    assert set(frame["queryid"]) == {"7"}
    assert frame["class"].n_unique() == 2
    assert any(note.startswith("1 nested statement ran inside others") for note in result.notes)


@tries(12)
@given(st.integers(0, 1000))
def test_deltas_of_growing_counters_add_up_to_last_less_first(seed: int) -> None:
    rng = np.random.default_rng(seed)
    calls = np.cumsum(rng.integers(0, 5, (5, 3)), axis=0) + 1
    times = np.cumsum(rng.random((5, 3)) * 10, axis=0) + 1
    texts = [
        snapshot(*((q + 1, int(calls[t, q]), float(np.round(times[t, q], 4))) for q in range(3))) for t in range(5)
    ]
    found, used, _ = totals(capture(*texts))
    assert all(used)
    for q in range(3):
        assert found[str(q + 1)] == pytest.approx(round(times[4, q], 4) - round(times[0, q], 4), abs=2e-3)
