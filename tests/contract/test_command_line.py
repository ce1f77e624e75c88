"""The command line as scripts see it, on a new view that is entered in the list of views and nowhere else."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from engine import views
from engine.core.parameters import bound
from tui.__main__ import main
from tui.cli.arguments import command_of, parser

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
    assert "total: 17 kg (4 numbers)" in text and "total (kg)" in text and "b.num:2: bad-line)" in text
    assert report(capfdbinary, data, "--format", "upstream")[1] == b"TOTAL\n"
    assert report(capfdbinary, data, "--format", "upstream", "-o", "mode=absolute")[0] == 2


@pytest.mark.parametrize(
    ("option", "wanted"),
    [
        ("scale=-1", "not within 0 to ∞"),
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


def test_reasons_come_first_and_speak_to_operators(capfd: pytest.CaptureFixture[str], data: Path) -> None:
    for words, says in (
        (["report", "fake-view", str(data), "-o", "scale=abc"], "loadlens: scale: 'abc' is not a number\n"),
        (
            ["report", "fake-veiw", str(data)],
            "loadlens: argument VIEW: 'fake-veiw' is no view; did you mean fake-view?",
        ),
        (["report", "fake-view"], "loadlens: which files? loadlens report fake-view PATH"),
        (
            ["raport", "fake-view", str(data)],
            "loadlens: no command, file or folder 'raport'; did you mean loadlens report?",
        ),
        (["--theme", "light", "dmo"], "loadlens: no command, file or folder 'dmo'; did you mean loadlens demo?"),
        (["fake-view", str(data)], "loadlens: 'fake-view' is a view"),
        (["demo", "--speed", "fast"], "loadlens: argument --speed: 'fast' is no number"),
        (["report", "fake-view", str(data), "--at", "noon"], "loadlens: --at noon: neither a date and time (ISO 8601)"),
        (["report", "fake-view", str(data), "-o", "only=nobody"], "loadlens: nothing is called nobody\n"),
    ):
        assert main(words) == 2, words
        out, err = capfd.readouterr()
        assert not out and err.startswith(says), (words, err)


def test_a_command_may_stand_behind_options() -> None:
    assert command_of(["--theme", "light", "demo"]) == ("demo", ["--theme", "light"])
    assert parser("report").parse_intermixed_args(["fake-view", "-o", "scale=1", "x", "--no-cache", "y"]).paths == [
        "x",
        "y",
    ]
    assert command_of(["--poll", "report", "fake-view", "x"]) == ("report", ["--poll", "fake-view", "x"])
    assert command_of(["--config", "demo"]) == ("", ["--config", "demo"])
    assert command_of(["./demo", "report"]) == ("", ["./demo", "report"])


def test_a_view_tells_of_itself_without_files(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    for words in (["-o", "help"], ["--help"]):
        code, out, _ = report(capfdbinary, *words)
        assert code == 0 and b"scale [1]: Multiplies every number (default 1.0)" in out and b"tables: sums" in out


def test_no_more_than_ten_problems_are_listed(capfdbinary: pytest.CaptureFixture[bytes], data: Path) -> None:
    for number in range(12):
        (data / f"c{number}.num").write_text("broken\n")
    code, _, err = report(capfdbinary, data, "--format", "csv")
    assert code == 0 and len(err.splitlines()) == 12
    assert err.startswith("13 problems:\n") and err.endswith("  and 3 more; --format json lists all\n")


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


@pytest.mark.parametrize(
    "at",
    ["", "now", "nan", "1e400", "999999999999999", "2024-13-01", "9999-12-31T23:59:59-14:00", "0001-01-01T00:00+14:00"],
)
def test_what_is_no_instant_is_refused(capfdbinary: pytest.CaptureFixture[bytes], data: Path, at: str) -> None:
    code, out, err = report(capfdbinary, data, f"--at={at}")
    assert (code, out) == (2, b"") and err.startswith("loadlens: --at") and err.count("\n") == 1


@pytest.mark.parametrize(
    ("at", "wanted"),
    [
        ("1714557600", "2024-05-01T10:00:00.000Z"),
        ("1714557600000", "2024-05-01T10:00:00.000Z"),
        ("2024-05-01T12:00:00.25+02:00", "2024-05-01T10:00:00.250Z"),
        ("2024-05-01", "2024-05-01T00:00:00.000Z"),
        ("-1", "1969-12-31T23:59:59.000Z"),
        ("2024", "2024-01-01T00:00:00.000Z"),
        (" 2024-05 ", "2024-05-01T00:00:00.000Z"),
        ("20240501", "2024-05-01T00:00:00.000Z"),
        ("202405", "1970-01-03T08:13:25.000Z"),
        ("20241301", "1970-08-23T06:35:01.000Z"),
    ],
)
def test_instants(capfdbinary: pytest.CaptureFixture[bytes], data: Path, at: str, wanted: str) -> None:
    assert json.loads(report(capfdbinary, data, f"--at={at}")[1])["at"] == wanted


def test_paths_of_all_kinds(capfdbinary: pytest.CaptureFixture[bytes], data: Path, tmp_path: Path) -> None:
    def total(*paths: object) -> float:
        code, out, _ = report(capfdbinary, *paths)
        assert code == 0
        return float(json.loads(out)["summary"]["total"])

    assert total(data / "a.num") == 7
    assert total(data / "a.num", data / "a.num", data, f"{data}/.") == 17, "each file once"
    odd = tmp_path / os.fsdecode(b"d\xff\x1b[2J")
    odd.mkdir()
    (odd / "c.num").write_text("x 5\nbroken\n")
    assert total(odd, data / "a.num") == 12
    code, out, _ = report(capfdbinary, odd)
    (problem,) = json.loads(out)["problems"]
    assert "\x1b" not in problem["path"]
    code, out, err = report(capfdbinary, data, tmp_path / "missing")
    assert code == 0 and [p["kind"] for p in json.loads(out)["problems"]].count("missing-root") == 1
    code, out, err = report(capfdbinary, tmp_path / os.fsdecode(b"no\xff"))
    assert (code, out) == (3, b"") and "times" not in err
    code, out, err = report(capfdbinary, "")
    assert (code, out) == (2, b"") and "empty PATH" in err


@pytest.mark.parametrize("content", [None, b"\xff\xfe", b"[ui\n", "folder"])
def test_a_settings_file_that_was_asked_for_must_be_readable(
    capfdbinary: pytest.CaptureFixture[bytes], data: Path, tmp_path: Path, content: bytes | str | None
) -> None:
    config = tmp_path / "c.toml"
    if content == "folder":
        config.mkdir()
    elif isinstance(content, bytes):
        config.write_bytes(content)
    code, out, err = report(capfdbinary, data, "--config", config)
    assert (code, out) == (2, b"") and str(config) in err and err.count("\n") == 1


def test_the_usual_settings_file_does_not_stop_a_report(
    capfdbinary: pytest.CaptureFixture[bytes], data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "c.toml").write_bytes(b"\xff")
    monkeypatch.setenv("LOADLENS_CONFIG", str(tmp_path / "c.toml"))
    code, out, err = report(capfdbinary, data)
    assert code == 0 and json.loads(out) and "c.toml" in err


@pytest.mark.parametrize("junit", ["there-is-no-such-folder/x.xml", "/", ""])
def test_junit_that_cannot_be_written(capfdbinary: pytest.CaptureFixture[bytes], data: Path, junit: str) -> None:
    code = main(["check", "fake-view", str(data), "--junit", junit])
    out, err = capfdbinary.readouterr()
    assert (code, out) == (2, b"") and err.startswith(b"loadlens: --junit") and b"Traceback" not in err


def shell(data: Path, words: list[str], redirect: str) -> subprocess.CompletedProcess[str]:
    script = (
        "from engine import views\n"
        "views.VIEWS += (views.Entry('fake-view', 'Fake', 'tests.contract.fake_view', 'x'),)\n"
        "import sys\nfrom tui.__main__ import main\n"
        f"sys.exit(main([*{words!r}, {str(data)!r}]))"
    )
    return subprocess.run(
        ["sh", "-c", f'"$0" -c "$1" {redirect}', sys.executable, script],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize(("form", "redirect"), [("json", ">/dev/full"), ("csv", ">&-")])
def test_output_that_cannot_be_written_is_reported(data: Path, redirect: str, form: str) -> None:
    done = shell(data, ["report", "fake-view", "--format", form], redirect)
    assert done.returncode == 2 and done.stderr.startswith("loadlens: standard output") and done.stderr.count("\n") == 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("words", [["--help"], ["check", "--help"], ["report", "fake-view", "-o", "help"]])
def test_help_that_cannot_be_written_is_reported(data: Path, words: list[str]) -> None:
    done = shell(data, words, ">/dev/full")
    assert done.returncode == 2 and done.stderr.startswith("loadlens: standard output") and done.stderr.count("\n") == 1


def test_a_folder_that_is_gone_and_a_home_that_is_not(
    capfdbinary: pytest.CaptureFixture[bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    code, out, err = report(capfdbinary, ".")
    assert (code, out) == (2, b"") and "the current folder cannot be used" in err and err.count("\n") == 1
    code, out, err = report(capfdbinary, "~nobody-of-this-name/x")
    assert (code, out) == (2, b""), "a relative path, then"
    monkeypatch.chdir(tmp_path)
    code, out, err = report(capfdbinary, "~nobody-of-this-name/x")
    assert (code, out) == (3, b"") and "there is no such file or folder" in err


def test_messages_that_cannot_be_written_change_nothing(data: Path) -> None:
    done = shell(data, ["report", "fake-view", "--format", "csv"], "2>&-")
    assert done.returncode == 0 and done.stdout.startswith("name,total")


def test_a_check_keeps_its_verdict_when_nobody_reads(data: Path) -> None:
    code = "import os, sys; r, w = os.pipe(); os.close(r); os.dup2(w, 1)\n"
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            code + "from engine import views\n"
            "views.VIEWS += (views.Entry('fake-view', 'Fake', 'tests.contract.fake_view', 'x'),)\n"
            "from tui.__main__ import main\n"
            f"sys.exit(main(['check', 'fake-view', '-o', 'limit=3', {str(data)!r}]))",
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 1 and "Traceback" not in done.stderr


def test_ctrl_c_exits_130(
    capfdbinary: pytest.CaptureFixture[bytes], data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("engine.live.ingest.follower.Follower.visit", interrupted)
    code, out, err = report(capfdbinary, data)
    assert (code, out, err) == (130, b"", "")


def test_bounds_of_options_are_told_with_all_their_digits() -> None:
    assert [bound(number) for number in (2**20, 1.0, 0.05, -3)] == ["1048576", "1", "0.05", "-3"]
