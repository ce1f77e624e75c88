"""What the command says before, or without, Spark."""

from __future__ import annotations

import builtins
import sys
from typing import Any

import pytest

from engine.job_heuristics.fleet.run.session import in_words
from tui.__main__ import main


def error_of(capfd: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    code = main(["fleet", "job-heuristics", "/data", "--out", "/out", *words])
    return code, capfd.readouterr().err


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("--day", "yesterday"), "--day yesterday: wanted YYYY-MM-DD"),
        (("--partitions", "-1"), "--partitions cannot be negative"),
        (("-o", "job=job_1_1"), "options job and compare are for one job"),
        (("-o", "nonsense=1"), "nonsense"),
        (("-o", "mode"), "wanted KEY=VALUE"),
    ],
)
def test_wrong_usage(words: tuple[str, ...], reason: str, capfd: pytest.CaptureFixture[str]) -> None:
    code, text = error_of(capfd, *words)
    assert code == 2 and reason in text


@pytest.mark.parametrize("missing", ["pyspark.sql", "pyarrow"])
def test_missing_data_are_named(
    missing: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = builtins.__import__

    def refuse(name: str, *more: Any, **named: Any) -> Any:
        if (name.startswith("pyspark") and missing.startswith("pyspark")) or name == missing:
            raise ImportError(f"No module named {name!r}", name=name)
        return real(name, *more, **named)

    for name in list(sys.modules):
        if name.startswith("pyspark"):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(builtins, "__import__", refuse)
    code, text = error_of(capfd)
    assert code == 2 and "pip install 'loadlens[spark]' 'pyspark>=3.5'" in text


@pytest.mark.parametrize(
    ("raised", "said"),
    [
        (
            "Job aborted\n  fleet.run.batches.OtherVersion: loadlens is 2 on the driver and 1 on a worker\n",
            "loadlens is 2",
        ),
        ("ModuleNotFoundError: No module named 'engine'", "loadlens is not installed for the Python that workers run"),
        ("[PYTHON_VERSION_MISMATCH] 3.11 3.12", "driver and workers run different versions of Python"),
        ("java.lang.OutOfMemoryError: Java heap space", "an executor ran out of memory"),
        ("something else\nat x.y.z", "something else"),
    ],
)
def test_failures_in_one_sentence(raised: str, said: str) -> None:
    assert in_words(RuntimeError(raised)).startswith(said)
    assert "\n" not in in_words(RuntimeError(raised))
