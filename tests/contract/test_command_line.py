"""The command line as scripts see it, on a sixth view that goes through the same list as the five."""

from __future__ import annotations

import json
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from engine import views
from tui.__main__ import main

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def fake_view(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    sixth = views.Entry("fake-view", "Fake view", "tests.contract.fake_view", "lines of name and number")
    monkeypatch.setattr(views, "VIEWS", (*views.VIEWS, sixth))
    for variable in ("XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(variable, str(tmp_path / variable))
    monkeypatch.delenv("LOADLENS_CONFIG", raising=False)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "a.num").write_text("x 1\ny 2\n=z 4\n")
    (folder / "b.num").write_text("x 10\nbroken\n")
    return folder


def report(capfdbinary: pytest.CaptureFixture[bytes], *words: object) -> tuple[int, bytes, str]:
    code = main(["report", "fake-view", *map(str, words)])
    out, err = capfdbinary.readouterr()
    return code, out, err.decode()


def test_json_envelope(capfdbinary: pytest.CaptureFixture[bytes], data: Path) -> None:
    code, out, _ = report(capfdbinary, data, "--at", "2024-05-01T10:00:00Z", "-o", "scale=2")
    assert code == 0
    document = json.loads(out)
    assert list(document) == ["loadlens", "view", "at", "settings", "summary", "notes", "tables", "problems"]
    assert document["view"] == "fake-view"
    assert document["at"] == "2024-05-01T10:00:00.000Z"
    assert document["settings"] == {"scale": 2.0, "mode": "plain", "limit": None, "only": [], "note": None}
    assert document["summary"] == {"total": 34.0, "infinite": None}
    assert [row["name"] for row in document["tables"]["sums"]] == ["x", "=z", "y"]
    assert document["tables"]["sums"][0]["parts"] == [2.0, 20.0]
    (problem,) = document["problems"]
    assert problem["path"].endswith("b.num") and problem["line"] == 2 and problem["count"] == 1


def test_one_table_keeps_the_envelope(capfdbinary: pytest.CaptureFixture[bytes], data: Path) -> None:
    _, out, _ = report(capfdbinary, data, "--table", "sums")
    assert list(json.loads(out)["tables"]) == ["sums"]
    code, out, err = report(capfdbinary, data, "--table", "nonsense")
    assert (code, out) == (2, b"") and "sums" in err


def test_other_formats(capfdbinary: pytest.CaptureFixture[bytes], data: Path) -> None:
    assert report(capfdbinary, data, "--format", "csv")[1].decode().splitlines()[:2] == [
        "name,total,share,parts",
        'x,11.0,0.6470588235294118,"[1.0,10.0]"',
    ]
    assert b"| x | 11 | 0.647059 |" in report(capfdbinary, data, "--format", "markdown")[1]
    text = report(capfdbinary, data, "--format", "text")[1].decode()
    assert "total: 17 kg (4 numbers)" in text and "total (kg)" in text and "b.num:2: bad-line" in text
    assert report(capfdbinary, data, "--format", "upstream")[1] == b"TOTAL\n"
    assert report(capfdbinary, data, "--format", "upstream", "-o", "mode=absolute")[0] == 2


@pytest.mark.parametrize(
    ("option", "wanted"),
    [
        ("scale=-1", "not within"),
        ("scale=abc", "scale"),
        ("mode=odd", "plain, absolute"),
        ("scal=1", "did you mean 'scale'"),
        ("scale", "KEY=VALUE"),
        ("note=/nonexistent/file", "No such file"),
    ],
)
def test_wrong_options_are_usage_errors(
    capfdbinary: pytest.CaptureFixture[bytes], data: Path, option: str, wanted: str
) -> None:
    code, out, err = report(capfdbinary, data, "-o", option)
    assert (code, out) == (2, b"")
    assert wanted in err


def test_options_are_listed_on_request(capfdbinary: pytest.CaptureFixture[bytes], data: Path) -> None:
    code, out, _ = report(capfdbinary, data, "-o", "help")
    assert code == 0 and b"scale [1]: Multiplies every number (default 1.0)" in out


def test_attachments_lists_and_settings(capfdbinary: pytest.CaptureFixture[bytes], data: Path, tmp_path: Path) -> None:
    (tmp_path / "note.txt").write_text("hello\x1b[2J")
    config = tmp_path / "c.toml"
    config.write_text('[fake-view]\nscale = 3\nwrong = 1\n[ui]\nglyphs = "ascii"\n')
    words = (data, "-o", f"note={tmp_path / 'note.txt'}", "-o", "only=x,y", "--config", config)
    code, out, err = report(capfdbinary, *words)
    document = json.loads(out)
    assert code == 0
    assert document["notes"] == ["hello·[2J"]
    assert document["summary"]["total"] == 39
    assert "wrong" in err


def test_no_input_exits_3_and_says_what_would_do(capfdbinary: pytest.CaptureFixture[bytes], tmp_path: Path) -> None:
    code, out, err = report(capfdbinary, tmp_path)
    assert (code, out) == (3, b"") and "lines of name and number" in err
    code, out, err = report(capfdbinary, tmp_path / "missing")
    assert (code, out) == (3, b"") and "missing" in err


def test_check_says_each_finding_and_exits_1(
    capfdbinary: pytest.CaptureFixture[bytes], data: Path, tmp_path: Path
) -> None:
    junit = tmp_path / "out.xml"
    code = main(["check", "fake-view", str(data), "-o", "limit=3", "--junit", str(junit)])
    out, _ = capfdbinary.readouterr()
    assert code == 1
    assert out.decode().splitlines() == ["SEVERE x: total 11 kg is above 3 kg", "SEVERE =z: total 4 kg is above 3 kg"]
    suite = ET.fromstring(junit.read_text())
    assert suite.attrib["failures"] == "2" and len(suite) == 2
    assert main(["check", "fake-view", str(data), "-o", "limit=3", "--fail-on", "critical"]) == 0
    assert main(["check", "fake-view", str(data)]) == 0


def test_usage_errors_exit_2(capfd: pytest.CaptureFixture[str]) -> None:
    for words in (
        ["report"],
        ["report", "no-such-view", "."],
        ["--nonsense"],
        ["report", "fake-view", ".", "--at", "x"],
    ):
        try:
            code: object = main(words)
        except SystemExit as error:
            code = error.code
        assert code == 2, words


def test_without_a_terminal_the_dashboard_refuses() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tui"], cwd=ROOT, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=60
    )
    assert done.returncode == 2 and "loadlens report" in done.stderr and done.stdout == ""


def test_a_closed_pipe_is_not_an_error(data: Path) -> None:
    script = (
        "from engine import views\n"
        "views.VIEWS += (views.Entry('fake-view', 'Fake', 'tests.contract.fake_view', 'x'),)\n"
        "import sys\nfrom tui.__main__ import main\n"
        f"sys.exit(main(['report', 'fake-view', {str(data)!r}, '--format', 'text']))"
    )
    done = subprocess.run(
        ["sh", "-c", '"$0" -c "$1" | head -c 1', sys.executable, script], cwd=ROOT, capture_output=True, timeout=60
    )
    assert done.stderr == b"" and len(done.stdout) == 1
