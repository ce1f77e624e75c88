"""Build loadlens as one folder that needs neither Python nor a network: ``python packaging/one_folder.py [FOLDER]``.

Needs PyInstaller (``pip install .[build]``). The folder runs on machines whose C library is at least as new as the builder's:
build on the oldest system that it is for.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

PACKAGES = ("engine", "tui", "sample_data")
"""Packages whose modules are imported by name, which the builder cannot see."""


def main() -> int:
    """Build below the folder given, else below ``dist``; return the exit code."""
    try:
        import PyInstaller.__main__ as builder
    except ImportError:
        print("PyInstaller is not installed: pip install .[build]", file=sys.stderr)
        return 2
    from tui.cli.build import checked_out

    target = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "dist").resolve()
    work = target / "build"
    words = ["--name=loadlens", "--noconfirm", "--clean", "--log-level=WARN", f"--distpath={target}", f"--workpath={work}",
             f"--specpath={work}", f"--paths={ROOT}", "--collect-all=textual", "--collect-data=tui",
             "--collect-data=sample_data"]  # fmt: skip
    words += [f"--collect-submodules={name}" for name in PACKAGES]
    builder.run([*words, str(ROOT / "packaging/entry.py")])
    folder = target / "loadlens"
    try:
        note = folder / "_internal/tui/cli/commit.txt"
        note.parent.mkdir(parents=True, exist_ok=True)
        note.write_text(checked_out(ROOT) + "\n", encoding="ascii")
    except (OSError, ValueError):
        note.unlink(missing_ok=True)
    if (ROOT / "share").is_dir():
        shutil.copytree(ROOT / "share", folder / "share", dirs_exist_ok=True)
    shutil.rmtree(work, ignore_errors=True)
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    print(f"{folder}: {size / 1e6:.0f} MB; try {folder / 'loadlens'} demo")
    return subprocess.run([folder / "loadlens", "--version"], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
