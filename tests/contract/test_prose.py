"""Plain English: phrases that a colleague would have to decode do not come back, and subjects of commits stay short."""

from __future__ import annotations

import ast
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PHRASES = re.compile(
    r"(?<![a-zA-Z])(?:(?i:fact sheet|the sheet|seed mode|anew|for want of|of those which|so many|nothing of|what comes of it"
    r"|somebody|let go)|(?:what|that|which) is none)(?![a-zA-Z])".replace(" ", r"(?:_|\s+(?:#:?\s+)?)")
)
"""Lower-case ``is none``: ``None`` is Python's. A phrase may continue in the next line, also of a comment; in names it has
underscores."""
SINCE = 1_795_735_620
"""Epoch seconds of 2026-11-26 23:27 UTC: subjects are short from then on."""


def pages() -> list[Path]:
    found = [path for part in ("engine", "tui", "sample_data", "tests") for path in (ROOT / part).rglob("*.py")]
    found += [*(ROOT / "docs").rglob("*.md"), *(ROOT / "docs").rglob("*.py"), *ROOT.glob("*.md")]
    return sorted({*found, ROOT / "pyproject.toml", *(ROOT / "tests" / "scenarios").glob("*.toml")} - {Path(__file__)})


def test_phrases_that_must_be_decoded_are_not_used() -> None:
    texts = {path: path.read_text(encoding="utf-8") for path in pages()}
    found = [
        f"{path.relative_to(ROOT)}:{text.count(chr(10), 0, match.start()) + 1}: {match[0]}"
        for path, text in texts.items()
        for match in PHRASES.finditer(text)
    ]
    assert not found, "\n".join(found)


def told(text: ast.AST) -> str:
    """Return a literal's text, with a digit for each value in it; nothing for other code."""
    if isinstance(text, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else "0" for part in text.values)
    return text.value if isinstance(text, ast.Constant) and isinstance(text.value, str) else ""


def test_a_percentage_has_one_form() -> None:
    found = []
    for path in [path for part in ("engine", "tui") for path in (ROOT / part).rglob("*.py")]:
        text = path.read_text(encoding="utf-8")
        if not re.search(r"""[\d}"'] %(?!\w)""", text):  # a tenth of all modules: to parse them takes seconds
            continue
        tree = ast.parse(text)
        remarks = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        found += [
            f"{path.relative_to(ROOT)}:{node.lineno}: {told(node)}"
            for node in ast.walk(tree)
            if isinstance(node, (ast.JoinedStr, ast.Constant))
            and id(node) not in remarks
            and re.search(r"(\d|^) %(?!\w)", told(node))
        ]
    assert not found, "written without a space, as 45.3%:\n" + "\n".join(found)


def git(*words: str) -> str:
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, timeout=60)
    return done.stdout if done.returncode == 0 else ""


def test_subjects_of_commits_are_short() -> None:
    if not (ROOT / ".git").exists() or git("rev-parse", "--is-shallow-repository").strip() != "false":
        pytest.skip("no history here")
    commits = (line.split(" ", 1) for line in git("log", "--no-merges", "--format=%ct %s").splitlines())
    assert not [subject for seconds, subject in commits if int(seconds) > SINCE and len(subject) > 72]
