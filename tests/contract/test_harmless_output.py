"""Nothing that a file, a file's name or a shell puts in reaches an output as a control character."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from engine.core.reading import clean
from tests.engine.ring_placement.cases import table
from tests.engine.run_comparison.jobs import api_file, write_run
from tui.__main__ import main

EVIL = "e\x1b]0;t\x07\u202e\x9b2J=\x7f"
CONTROL = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]")


@pytest.fixture(autouse=True)
def own_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for variable in ("XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(variable, str(tmp_path / variable))
    monkeypatch.delenv("LOADLENS_CONFIG", raising=False)


@pytest.fixture
def ring(tmp_path: Path) -> Path:
    folder = tmp_path / f"ring{EVIL}"
    folder.mkdir()
    shards = [
        {"id": f"w-{i}{EVIL}", "state": "ACTIVE", "zone": EVIL, "address": EVIL, "tokens": [1, 2]} for i in range(3)
    ]
    shards.append({"id": EVIL, "state": EVIL, "tokens": EVIL})
    (folder / f"r{EVIL}.json").write_text(json.dumps({"shards": shards, "now": "2026-11-20T23:32:00Z"}))
    (folder / f"l{EVIL}.csv").write_bytes(table([(f"t{EVIL}", f"=1+1{EVIL}", 5), (EVIL, "b", EVIL)]))
    (folder / f"o{EVIL}.yaml").write_text(json.dumps({"overrides": {EVIL: {EVIL: 1}, "t": EVIL}}))
    return folder


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    folder = tmp_path / f"runs{EVIL}"
    for job in (f"left{EVIL}", f"right{EVIL}"):
        for number in range(1, 5):
            value = 100.0 * number * (3 if job[0] == "l" else 1)
            files: dict[str, str | bytes] = {
                f"APIResponsiveness_load{EVIL}_T.json": api_file(value, Resource=EVIL, Verb=f"=1{EVIL}"),
                f"PodStartupLatency_a_b{EVIL}_T.json": f'{{"{EVIL}'.encode(),
            }
            write_run(folder, job, number, files, result=f"FAILURE{EVIL}" if number == 4 else "SUCCESS")
    return folder


def output(capfdbinary: pytest.CaptureFixture[bytes], *words: object) -> str:
    """Everything that the program writes to both streams."""
    try:
        main([str(word) for word in words])
    except SystemExit:  # of argparse
        pass
    out, err = capfdbinary.readouterr()
    return (out + err).decode()


@pytest.mark.parametrize("view", ["ring-placement", "run-comparison"])
def test_files(view: str, ring: Path, runs: Path, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    folder = ring if view == "ring-placement" else runs
    options = [[], ["-o", "left=left*", "-o", "right=right*", "-o", "draws=20"]][view == "run-comparison"]
    if view == "ring-placement":
        options = ["-o", f"fail={clean(f'w-0{EVIL}')}", "-o", "sweep=zones"]
    for form in ("json", "csv", "markdown", "text"):
        printed = output(capfdbinary, "report", view, folder, "--format", form, *options)
        assert len(printed) > 500
        assert not CONTROL.search(printed), (form, CONTROL.search(printed))
    if view == "run-comparison":
        printed = output(capfdbinary, "report", view, folder, "--format", "upstream", *options, "-o", "mode=upstream")
        assert "AvgL/R" in printed
        assert not CONTROL.search(printed)
    report = tmp_path / "junit.xml"
    assert not CONTROL.search(
        output(capfdbinary, "check", view, folder, "--junit", report, "--fail-on", "low", *options)
    )
    assert ET.parse(report).getroot().tag == "testsuite"
    assert not CONTROL.search(report.read_text("utf-8"))


@pytest.mark.parametrize(
    "words",
    [
        ["report", "ring-placement", f"no{EVIL}"], ["report", "ring-placement", ".", "-o", f"{EVIL}=1"],
        ["report", "ring-placement", ".", "-o", f"capacity={EVIL}"], ["report", EVIL, "."],
        ["report", "ring-placement", ".", f"--{EVIL}"],
        ["report", "run-comparison", ".", "-o", f"left={EVIL}"], ["report", "ring-placement", ".", "--at", EVIL],
        ["check", "ring-placement", ".", "--config", EVIL], [f"--{EVIL}"],
        ["report", "ring-placement", ".", "--table", EVIL],
    ],
)  # fmt: skip
def test_what_a_shell_puts_in(words: list[str], tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    printed = output(capfdbinary, *[str(tmp_path) if word == "." else word for word in words])
    assert printed
    assert not CONTROL.search(printed)


def test_settings_in_json_are_what_was_typed(ring: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    main(["report", "ring-placement", str(ring), "-o", f"ring=r{EVIL}"])
    out = capfdbinary.readouterr().out.decode()
    assert json.loads(out)["settings"]["ring"] == f"r{EVIL}"
    assert not CONTROL.search(out)
