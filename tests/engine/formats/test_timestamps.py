"""Timestamps in texts and file names."""

from __future__ import annotations

import pytest

from engine.formats.timestamps import instant_ms, name_instant_ms, name_stem


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("2026-11-20 23:38:03.365582+00", 1795217883366),
        ("20261120T233803.381Z", 1795217883381),
        ("1795217883.382", 1795217883382),
        ("1795217883382", 1795217883382),
        ("2026-11-20T23:38:03Z", 1795217883000),
        ("2026-11-21 01:08:03 +01:30", 1795217883000),
        ("2026-11-20", 1795132800000),
        ("0000-00-00 00:00:00.000000", None),
        ("yesterday", None),
        ("", None),
    ],
)
def test_instants(text: str, ms: int | None) -> None:
    assert instant_ms(text) == ms


def test_timestamps_in_names() -> None:
    assert name_instant_ms("pgss-20261120T233803.381Z.csv") == 1795217883381
    assert name_instant_ms("stat.1795217883") == 1795217883000
    assert name_instant_ms("pgss-2026-11-20_23-38-03.csv") == 1795217883000
    assert name_instant_ms("001.csv") is None
    assert name_stem("db1-pgss-20261120T233803.381Z.csv") == "db1-pgss"
