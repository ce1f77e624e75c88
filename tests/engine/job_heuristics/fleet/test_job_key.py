"""Which files belong together, by their names and by what they mention."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.job_heuristics.fleet.run.run import PATTERN, ROLLING, components


def job_key(path: str) -> str:
    """The job of a path, as Spark finds it: ``run._key`` (tests/spark compares both)."""
    folders, _, name = path.rpartition("/")
    match = re.search(PATTERN, name) or re.search(PATTERN, folders) or re.search(ROLLING, f"{folders}/")
    return match[1] if match else path


@pytest.mark.parametrize(
    ("path", "key"),
    [
        ("/done/job_1_0002-1700-ann-name-1800.jhist", "job_1_0002"),
        ("/done/job_1_0002_conf.xml", "job_1_0002"),
        ("/done/job_local7_0001.jhist.gz", "job_local7_0001"),
        ("/saved/job_1_2/tasks/task_1_2_m_0/attempts.json", "job_1_2"),
        ("/staging/application_1_2/job_3_4.jhist", "job_3_4"),
        ("/logs/application_1_2_1.zstd", "application_1_2"),
        ("s3a://bucket/a/traces.json", "s3a://bucket/a/traces.json"),
        ("plain", "plain"),
    ],
)
def test_key_of_a_path(path: str, key: str) -> None:
    assert job_key(path) == key


NAMES = st.sampled_from("abcdefghij")


@given(st.lists(st.tuples(NAMES, NAMES)))
def test_connected_components(links: list[tuple[str, str]]) -> None:
    near: dict[str, set[str]] = {}
    for left, right in links:
        near.setdefault(left, {left}).add(right)
        near.setdefault(right, {right}).add(left)
    for name in near:
        reached, left = {name}, [name]
        while left:
            left += [other for other in near[left.pop()] - reached if not reached.add(other)]  # type: ignore[func-returns-value]
        assert components(links)[name] == min(reached)
    assert components(links).keys() == near.keys()
