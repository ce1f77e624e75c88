"""Plain English: phrases that a colleague would have to decode do not come back, and subjects of commits stay short."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PHRASES = re.compile(
    r"\b(?:(?i:fact sheet|the sheet|seed mode|anew|for want of|of those which|so many|nothing of|what comes of it"
    r"|somebody|let go)|what is none)\b"
)
"""Lower-case ``what is none``: ``None`` is Python's."""
SINCE = 1_795_735_620
"""Epoch seconds of 2026-11-26 23:27 UTC: subjects are short from then on."""


def pages() -> list[Path]:
    found = [path for part in ("engine", "tui", "sample_data", "tests") for path in (ROOT / part).rglob("*.py")]
    return sorted(
        {*found, *(ROOT / "docs").rglob("*.md"), *(ROOT / "docs").rglob("*.py"), *ROOT.glob("*.md")} - {Path(__file__)}
    )


def test_phrases_that_must_be_decoded_are_not_used() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in pages()
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if PHRASES.search(line)
    ]
    assert not found, "\n".join(found)


def git(*words: str) -> str:
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, timeout=60)
    return done.stdout if done.returncode == 0 else ""


def test_subjects_of_commits_are_short() -> None:
    if not (ROOT / ".git").exists() or git("rev-parse", "--is-shallow-repository").strip() != "false":
        pytest.skip("no history here")
    commits = (line.split(" ", 1) for line in git("log", "--no-merges", "--format=%ct %s").splitlines())
    assert not [subject for seconds, subject in commits if int(seconds) > SINCE and len(subject) > 72]
