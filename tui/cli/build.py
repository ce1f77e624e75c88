"""The version of the program and the commit it was built from."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path

_COMMIT = re.compile(r"[0-9a-f]{7,64}")


def version() -> str:
    """Return the program's name, version and, where it is known, the commit it was built from."""
    from engine import __version__  # not above: setup.py loads this file where no package of ours can be imported

    commit = _commit()
    return f"loadlens {__version__}" + (f" ({commit[:12]})" if commit else "")


def _commit() -> str:
    """Return the commit that the build has noted, else that of the checkout the program runs in; "" without either."""
    here = Path(__file__).resolve().parent
    with contextlib.suppress(OSError, ValueError):
        noted = (here / "commit.txt").read_text(encoding="ascii").strip()
        return noted if _COMMIT.fullmatch(noted) else ""
    with contextlib.suppress(OSError, ValueError):
        return checked_out(here.parents[1])
    return ""


def checked_out(root: Path) -> str:
    """Return the commit that is checked out at ``root``, "" if that is no checkout. Raises OSError, ValueError."""
    git = root / ".git"
    if git.is_file():  # a worktree: the file names the folder with its own HEAD
        git = (root / git.read_text(encoding="utf-8").removeprefix("gitdir:").strip()).resolve()
    head = (git / "HEAD").read_text(encoding="utf-8").strip()
    if not head.startswith("ref:"):
        return head if _COMMIT.fullmatch(head) else ""
    name = head.removeprefix("ref:").strip()
    common = git
    if (git / "commondir").exists():
        common = (git / (git / "commondir").read_text(encoding="utf-8").strip()).resolve()
    loose = common / name
    if loose.exists():
        commit = loose.read_text(encoding="ascii").strip()
        return commit if _COMMIT.fullmatch(commit) else ""
    for line in (common / "packed-refs").read_text(encoding="utf-8").splitlines():
        if line.endswith(f" {name}") and _COMMIT.fullmatch(line.split()[0]):
            return line.split()[0]
    return ""
