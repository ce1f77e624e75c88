"""Completions and man page made from the parser; version and commit."""

from __future__ import annotations

import argparse
import importlib.util
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from engine.core.parameters import options
from engine.views import VIEWS
from tui.cli import build
from tui.cli.arguments import COMMANDS, parser

ROOT = Path(__file__).parents[2]
COMPLETIONS = (
    "bash-completion/completions/loadlens", "zsh/site-functions/_loadlens", "fish/vendor_completions.d/loadlens.fish",
)  # fmt: skip


@pytest.mark.parametrize("name", ["man/man1/loadlens.1", *COMPLETIONS])
def test_every_command_and_option_is_there(name: str) -> None:
    text = (ROOT / "share" / name).read_text(encoding="utf-8").replace("\\-", "-")
    for command in ("", *COMMANDS):
        assert command in text
        for action in parser(command)._actions:
            for option in action.option_strings:
                if option.startswith("--") and action.help is not argparse.SUPPRESS and option != "--help":
                    shown = option if not name.endswith(".fish") else f"-l {option[2:]}"
                    assert shown in text, f"{command} {option} (run: uv run python docs/make_share.py)"


def test_what_is_shipped_is_what_is_there() -> None:
    shipped = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["data-files"]
    files = {path for paths in shipped.values() for path in paths}
    assert files == {str(path.relative_to(ROOT)) for path in (ROOT / "share").rglob("*") if path.is_file()}


@pytest.mark.parametrize(("line", "offered"), [
    ("loadlens rep", "replay report"),
    ("loadlens report broker-load /tmp -o mode=u", "upstream"),
    ("loadlens report broker-load --option mod", "mode=corrected mode=regression mode=upstream"),
    ("loadlens check ring-placement -o capac", "capacity="),
    ("loadlens report query-profile -o top=3 --table cla", "classes"),
    ("loadlens report query-profile -o top=3 --form", "--format"),
    ("loadlens report -o nothing.yet", ""),
])  # fmt: skip
def test_bash_takes_the_completion(line: str, offered: str) -> None:
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("there is no bash here")
    path = ROOT / "share" / COMPLETIONS[0]
    script = f'. "{path}"; COMP_LINE="{line}" COMP_POINT={len(line)}; _loadlens; echo "${{COMPREPLY[*]}}"'
    done = subprocess.run([bash, "-c", script], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == offered, done.stderr


@pytest.mark.parametrize("name", COMPLETIONS)
def test_options_and_tables_of_every_view_are_offered(name: str) -> None:
    text = (ROOT / "share" / name).read_text(encoding="utf-8")
    for entry in VIEWS:
        view = entry.load()
        for option in options(view.parameters):
            for value in option.choices or ("",):
                assert f"{option.key}={value}" in text, "run: uv run python docs/make_share.py"
        assert all(table.name in text for table in view.tables)


def test_the_pages_are_made_of_the_parser() -> None:
    if importlib.util.find_spec("shtab") is None:
        pytest.skip("shtab is not installed (it is part of the extra dev)")
    spec = importlib.util.spec_from_file_location("make_share", ROOT / "docs" / "make_share.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    made = module.pages()
    assert len(made) == 4
    for path in made:
        assert path.is_file()


def test_the_build_finds_the_commit_where_no_package_can_be_imported(tmp_path: Path) -> None:
    """As pip builds: in a process that has neither the checkout nor what is installed on its path."""
    commit = "0123456789abcdef" * 2
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git/HEAD").write_text(commit + "\n")
    code = (
        "import importlib.util, pathlib, sys; spec = importlib.util.spec_from_file_location('build', sys.argv[1]); "
        "module = importlib.util.module_from_spec(spec); spec.loader.exec_module(module); "
        "print(module.checked_out(pathlib.Path(sys.argv[2])))"
    )
    words = [sys.executable, "-I", "-S", "-c", code, str(ROOT / "tui/cli/build.py"), str(tmp_path)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == commit, done.stderr


def test_the_version_names_the_commit_that_is_checked_out(tmp_path: Path) -> None:
    commit, other = "0123456789abcdef" * 2, "f" * 40
    git = tmp_path / "a" / ".git"
    (git / "refs/heads").mkdir(parents=True)
    (git / "HEAD").write_text("ref: refs/heads/main\n")
    (git / "refs/heads/main").write_text(commit + "\n")
    assert build.checked_out(tmp_path / "a") == commit
    (git / "refs/heads/main").unlink()
    (git / "packed-refs").write_text(f"# pack-refs\n{other} refs/heads/main\n{commit} refs/heads/more\n")
    assert build.checked_out(tmp_path / "a") == other
    tree = git / "worktrees" / "b"
    tree.mkdir(parents=True)
    (tree / "HEAD").write_text("ref: refs/heads/more\n")
    (tree / "commondir").write_text("../..\n")
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / ".git").write_text(f"gitdir: {tree}\n")
    assert build.checked_out(tmp_path / "b") == commit
    (git / "HEAD").write_text("\x1b[2J\n")
    assert build.checked_out(tmp_path / "a") == ""
    assert build.version().startswith("loadlens ")
