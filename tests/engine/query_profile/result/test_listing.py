"""Classes as the screen lists them."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.query_profile.result import detail
from engine.query_profile.workloads.workload import ClassInfo
from tests.engine.query_profile.builders import compute, folder

SAMPLE = Path(__file__).parents[4] / "sample_data/query_profile/files"


def test_labels_of_equal_statements_differ_and_classes_without_text_keep_their_name() -> None:
    infos = [
        ClassInfo("12 (ann)", "12", "SELECT 1", "ann"),
        ClassInfo("12 (bob)", "12", "SELECT 1", "bob"),
        ClassInfo("-77123456", "-77123456", "SELECT 2"),
        ClassInfo("q.0a", "", ""),
    ]
    assert detail.labels(infos) == {
        "12 (ann)": "[ann] SELECT 1", "12 (bob)": "[bob] SELECT 1", "-77123456": "SELECT 2", "q.0a": "q.0a",
    }  # fmt: skip


def test_sparklines_of_groups_and_others_add_up_to_those_of_the_classes() -> None:
    files = folder(SAMPLE)
    whole = sum(sum(trend) for trend in compute(files).detail.listing["trend"])
    for choices in ({"group": "verb"}, {"top": 2}, {"group": "verb", "top": 1}, {"group": "user"}):
        trends = compute(files, **choices).detail.listing["trend"]
        assert all(len(trend) == 40 for trend in trends)
        assert sum(sum(trend) for trend in trends) == pytest.approx(whole)
    chosen = compute(files, group="verb", filter="select").detail.listing
    assert chosen["name"].to_list() == ["SELECT"]
    assert sum(chosen["trend"][0]) < whole
