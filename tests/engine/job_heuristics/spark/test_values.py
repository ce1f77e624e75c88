"""Values as Dr. Elephant's Spark side reads and writes them."""

from __future__ import annotations

import pytest

from engine.job_heuristics.spark.rules.metrics import Unreadable, bytes_of, distribution, flag, rate, size, whole


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("0", 0), ("2048", 2048), ("2048b", 2048), ("1k", 1024), ("1 KB", 1024), ("1.5g", 1.5 * 2**30), ("3Mb", 3 * 2**20),
        ("2t", 2 * 2**40), ("1,5 GB", 15 * 2**30), ("1e3", 1000), (".5k", 512), ("+1", 1), ("0.9", 0), ("-0", 0),
        ("9223372036854775807", 2**63 - 1), ("9e18", 9 * 10**18), ("1e19", 2**63 - 1), ("0" * 400, 0),
    ],
)  # fmt: skip
def test_sizes_are_read(text: str, wanted: float) -> None:
    assert bytes_of(text) == wanted


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "does not match"), ("1p", "does not match"), ("five", "does not match"), ("1.", "does not match"),
        ("0" * 401, "does not match"), ("-1g", "cannot be less than zero: [-1.0]"), ("1|b", "'s unit part [|B] does not match"),
    ],
)  # fmt: skip
def test_sizes_that_cannot_be_read(text: str, reason: str) -> None:
    with pytest.raises(Unreadable) as raised:
        bytes_of(text)
    assert reason in str(raised.value)


def test_sizes_are_written_with_at_most_two_decimals() -> None:
    assert [size(value) for value in (-1, 0, 999, 1023, 1024, 1536, 2**20 - 1, 2**20, 3 * 2**29, 2**40, 2000 * 2**40)] == [
        "-1 B", "0 B", "999 B", "1,023 B", "1 KB", "1.5 KB", "1,024 KB", "1 MB", "1.5 GB", "1 TB", "2,000 TB",
    ]  # fmt: skip
    # 1.125 and 1.375 lie exactly between two texts: to the even one
    assert [size(1024 + 128), size(1024 + 384)] == ["1.12 KB", "1.38 KB"]


def test_rates_are_written_with_three_decimals() -> None:
    assert [rate(value) for value in (0.0, 0.0005, 0.00049, 2.0, float("nan"), float("inf"), float("-inf"))] == [
        "0.000", "0.001", "0.000", "2.000", "NaN", "Infinity", "-Infinity",
    ]  # fmt: skip


def test_whole_numbers_are_those_of_32_bits() -> None:
    texts = ("12", "+7", "-3", "2147483647", "-2147483648", "2147483648", "-2147483649", "1.0", " 1", "", "12345678901")
    assert [whole(text) for text in texts] == [12, 7, -3, 2**31 - 1, -(2**31), *[None] * 6]
    assert whole(None) is None


def test_flags() -> None:
    assert [flag(text) for text in ("true", "TRUE", "False", None)] == [True, True, False, False]
    with pytest.raises(Unreadable, match='For input string: "yes"'):
        flag("yes")


@pytest.mark.parametrize(
    ("values", "wanted"),
    [
        ([5], (5, 5, 5, 5, 5)),
        ([9, 2], (2, 2, 5, 9, 9)),
        ([3, 1, 2], (1, 1, 2, 3, 3)),
        ([4, 8, 1, 3], (1, 1, 3, 4, 8)),
        ([1, 2, 3, 4, 5], (1, 2, 3, 4, 5)),
        ([8, 7, 6, 5, 4, 3, 2, 1], (1, 2, 4, 6, 8)),
        ([-4, -1], (-4, -4, -2, -1, -1)),
    ],
)
def test_distributions(values: list[int], wanted: tuple[int, ...]) -> None:
    found = distribution(values)
    assert tuple(found.values()) == wanted and list(found) == ["min", "p25", "median", "p75", "max"]
