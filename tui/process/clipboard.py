"""Copy to the operator's clipboard, also over SSH: through tmux or by OSC 52, and always to a file."""

from __future__ import annotations

import base64
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from textual.app import App

OSC52_LIMIT = 74_994  # largest number of encoded bytes that terminals accept


def copy(text: str, app: App[object], environ: Mapping[str, str] | None = None, folder: Path | None = None) -> str:
    """Copy ``text``; return a sentence on what was done. It names the file, since success cannot be known."""
    env = os.environ if environ is None else environ
    text = text.encode(errors="replace").decode()  # a name of a file may hold what UTF-8 cannot
    path = _saved(text, folder)
    where = f"; also in {path}" if path is not None else ""
    lines = text.count("\n") + 1
    what = f"{lines} lines" if lines > 1 else f"{text[:40]!r}"
    if env.get("TMUX") and _tmux(text):
        return f"copied {what} to tmux and the terminal{where}"
    if len(base64.b64encode(text.encode())) <= OSC52_LIMIT:
        app.copy_to_clipboard(text)
        return f"copied {what}{where}"
    return f"too long for the terminal's clipboard{where}"


def _tmux(text: str) -> bool:
    """Copy through tmux, which passes it on to its terminal; return whether it did."""
    try:
        done = subprocess.run(
            ["tmux", "load-buffer", "-w", "-"],
            input=text.encode(),
            timeout=2,
            check=False,
            capture_output=True,
        )
    except (OSError, subprocess.SubprocessError):
        return False
    return done.returncode == 0


def _saved(text: str, folder: Path | None = None) -> Path | None:
    """Write ``text`` to ``copied.txt`` in the cache folder; return its path, or None if it cannot be written."""
    from engine.own_files.private_files import make_folder, replace_file
    from engine.own_files.settings import folders

    path = (folder or folders()["cache"]) / "copied.txt"
    try:
        make_folder(path.parent)
        replace_file(path, text.encode(errors="replace"))
    except OSError:
        return None
    return path
