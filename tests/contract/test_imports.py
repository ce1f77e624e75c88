"""What may import what, and what a cheap command must not load."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def loaded_after(statement: str) -> set[str]:
    return set(run(f"import sys\n{statement}\nprint(*sys.modules)").split())


def test_cheap_commands_load_nothing_heavy() -> None:
    code = (
        "import contextlib, io, sys\nfrom tui.__main__ import main\n"
        "for words in ('--version', '--help', 'report --help', 'check --help', 'paths'):\n"
        "    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.suppress(SystemExit):\n"
        "        main(words.split())\n"
        "    assert out.getvalue(), words\n"
        "    print(words, *{'polars', 'textual', 'rich', 'numpy', 'scipy', 'watchfiles'} & set(sys.modules))"
    )
    assert run(code).splitlines() == ["--version", "--help", "report --help", "check --help", "paths"]


def test_version_imports_not_even_argparse() -> None:
    code = "import sys\nfrom tui.__main__ import main\nmain(['--version'])\nprint(*sys.modules)"
    assert "argparse" not in run(code).split()


def test_the_list_of_views_and_settings_are_cheap() -> None:
    assert not loaded_after("import engine.views, engine.own_files.settings") & {"polars", "numpy", "textual", "scipy"}


def test_the_dashboard_module_does_not_load_polars() -> None:
    assert not loaded_after("import tui.app") & {"polars", "numpy", "scipy"}


def test_no_view_loads_scipy_or_a_terminal_when_imported() -> None:
    code = "import sys\nfrom engine.views import VIEWS\n[entry.load() for entry in VIEWS]\nprint(*sys.modules)"
    modules = set(run(code).split())
    assert not {m for m in modules if m.split(".")[0] in {"scipy", "textual", "rich", "tui"}}


def test_import_contracts_hold() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "from importlinter.cli import lint_imports_command; lint_imports_command()"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stdout
