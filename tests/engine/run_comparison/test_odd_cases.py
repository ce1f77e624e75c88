"""Which runs count: the benchmark tool's answers to odd metadata, and random jobs against the rule written plainly."""

from __future__ import annotations

import gzip
import json
import random
import tarfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from engine.core.view import NoInput
from engine.run_comparison.parameters import ComparisonParameters
from engine.run_comparison.view import VIEW
from tests.chance import more
from tests.engine.run_comparison import plain_go
from tests.engine.run_comparison.folder import compute
from tests.engine.run_comparison.jobs import api_file, write_run
from tests.reference import reference

NAME = "APIResponsiveness_load_T.json"


def _case_options(job: dict[str, Any]) -> dict[str, Any]:
    return {
        "left": (job["Left"],), "right": (job["Right"],), "mode": "upstream", "min_count": job["MinCount"],
        "scheme": {"Avg-Test": "avg", "KS-Test": "ks"}[job["Scheme"]], "threshold": job["T"],
        "min_average": job["MinAvg"], "select": f"{job['Select']}:{job['N']}",
    }  # fmt: skip


def test_odd_ways_to_write_the_metadata(tmp_path: Path) -> None:
    folder = reference("run-comparison") / "odd"
    with tarfile.open(folder / "trees.tar.xz") as trees:
        trees.extractall(tmp_path, filter="data")
    for case in json.loads(gzip.decompress((folder / "expected.json.gz").read_bytes())):
        options = _case_options(case["job"])
        result = compute(tmp_path / case["tree"], now_ms=case["job"]["Now"] * 1000, **options)
        assert [run.number for run in result.detail.left] == case["left"]
        assert [run.number for run in result.detail.right] == case["right"]
        names = ("test", "verb", "resource", "subresource", "scope", "bucket")
        values = ("n_left", "n_right", "mean_left", "mean_right", "ratio", "matched")
        rows = {row[:6]: row[6:] for row in result.tables["metrics"].select(*names, *values).iter_rows()}
        assert rows == {
            tuple(m["key"]): (m["n1"], m["n2"], m["avgl"], m["avgr"], m["ratio"], m["matched"]) for m in case["metrics"]
        }
        printed = VIEW.upstream(result, ComparisonParameters(**options))
        assert printed is not None
        lines = [line.rstrip() for line in printed.splitlines() if line.startswith("load")]
        wanted = [line.rstrip() for table in case["tables"] for line in table.splitlines() if line.startswith("load")]
        assert [line.split() for line in lines] == [line.split() for line in wanted]


FOLDERS = ("7", "007", "+7", "8", "08", "0", "-0", "-3", "9", "12", "1000000000000000000000000000000000012"[-19:])
NOW_S = 1_790_000_000


def _random_job(rng: random.Random, root: Path, job: str) -> None:
    for name in rng.sample(FOLDERS, rng.randrange(1, len(FOLDERS))):
        run = write_run(root, job, name, {NAME: api_file(float(rng.randrange(1, 1000)))})
        age = rng.choice((0, 0, 0, 60, 3600, 3600 * 5 - 1, 3600 * 5, -60, NOW_S - 5, NOW_S - 2**64 + 1))
        stamp = rng.choice((str(NOW_S - age),) * 4 + (f"{NOW_S - age}.0", "null", f'"{NOW_S}"', "1e9"))
        extra = rng.choice(("", "", "", ', "version": 3', ', "Timestamp": 5', ', "jenkins-node": "n"')) + rng.choice(
            ("}", "} x")
        )
        (run / "started.json").write_text(f'{{"timestamp": {stamp}{extra}')
        result = rng.choice(('"SUCCESS"', '"SUCCESS"', '"SUCCESS"', '"FAILURE"', "1", "null"))
        stamp = rng.choice(("1", "1", "1", "1", "1.5", '"1"', "null"))
        (run / "finished.json").write_text(
            f'{{"timestamp": {stamp}, "{rng.choice(("result", "RESULT", "reſult"))}": {result}}}'
        )
        for mark in ("started.json", "finished.json"):
            if rng.random() < 0.1:
                (run / mark).unlink()


def _expected(folder: Path, scheme: str, n: int) -> list[int]:
    """The numbers of the runs that the tool takes."""

    def mark(number: int, name: str) -> dict[str, Any] | None:
        path = folder / str(number) / name
        return plain_go.run_mark(path.read_bytes(), name) if path.exists() else None

    taken: list[int] = []
    for number in sorted((int(path.name) for path in folder.iterdir()), reverse=True):
        if scheme == "last-n-hours":
            started = mark(number, "started.json")
            if started is None:
                continue
            if (NOW_S - started["timestamp"]) % 2**64 >= 3600 * n:
                break
        elif len(taken) == n:
            break
        finished = mark(number, "finished.json")
        if finished is not None and finished["result"] == "SUCCESS":
            taken.append(number)
    return taken


@pytest.mark.parametrize("seed", range(more(15)))
def test_random_jobs(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    scheme, n = rng.choice(
        (("last-n-runs", 3), ("last-n-runs", 20), ("last-n-hours", 5), ("last-n-hours", 999_999_999))
    )
    _random_job(rng, tmp_path, "one")
    good = write_run(tmp_path, "two", 5, {NAME: api_file(60.0)})
    (good / "started.json").write_text(f'{{"timestamp": {NOW_S - 60}}}')
    expected = [_expected(tmp_path / job, scheme, n) for job in ("one", "two")]
    options: dict[str, Any] = {"left": ("one",), "right": ("two",), "mode": "upstream", "select": f"{scheme}:{n}"}
    if not all(expected):
        with pytest.raises(NoInput):
            compute(tmp_path, now_ms=NOW_S * 1000, **options)
        return
    result = compute(tmp_path, now_ms=NOW_S * 1000, **options)
    assert [run.number for run in result.detail.left] == expected[0]
    assert [run.number for run in result.detail.right] == expected[1]
    samples = [
        [json.loads((tmp_path / job / str(number) / "artifacts" / NAME).read_text()) for number in numbers]
        for job, numbers in zip(("one", "two"), expected, strict=True)
    ]
    means = [sum(file["dataItems"][0]["data"]["Perc50"] for file in side) / len(side) for side in samples]
    row = result.tables["metrics"].filter(result.tables["metrics"]["bucket"] == "Perc50")
    assert (row["mean_left"][0], row["mean_right"][0]) == tuple(means)


def test_a_folder_that_does_not_print_back_is_named(tmp_path: Path) -> None:
    for name in ("7", "007", "+9"):
        write_run(tmp_path, "left-job", name, {NAME: api_file(60.0)})
    write_run(tmp_path, "right-job", 1, {NAME: api_file(60.0)})
    options: dict[str, Any] = {"left": ("left-job",), "right": ("right-job",)}
    result = compute(tmp_path, mode="upstream", **options)
    assert [run.name for run in result.detail.left] == ["7", "7"]  # the tool reads it once for each folder
    assert {p.path: p.kind for p in result.problems} == {
        "left-job/007": "bad-run-name", "left-job/+9": "bad-run-name",
    }  # fmt: skip
    assert Counter(run.name for run in compute(tmp_path, draws=20, **options).detail.left) == Counter(
        ("7", "007", "+9")
    )


def test_other_modes_take_what_only_the_tool_cannot_read(tmp_path: Path) -> None:
    for job in ("left-job", "right-job"):
        for number in (1, 2, 3):
            run = write_run(tmp_path, job, number, {NAME: api_file(60.0)})
            if number == 3:
                (run / "finished.json").write_text('{"timestamp": 1784000000.25, "result": "SUCCESS"}')
    options: dict[str, Any] = {"left": ("left-job",), "right": ("right-job",)}
    result = compute(tmp_path, draws=20, **options)
    assert [run.number for run in result.detail.left] == [3, 2, 1]
    assert result.problems == ()
    strict = compute(tmp_path, mode="upstream", **options)
    assert [run.number for run in strict.detail.left] == [2, 1]
    assert [(p.path, p.kind) for p in strict.problems] == [
        (f"{job}/3/finished.json", "refused-file") for job in ("left-job", "right-job")
    ]
    assert "1784000000.25" in strict.problems[0].reason
