"""The line of an error text that a person looks for: what was raised at the bottom of a trace, and errors grouped by it."""

from __future__ import annotations

import re
from collections.abc import Iterable

from engine.core.reading import clean
from engine.job_heuristics.dr_elephant.history import stem

MOST_CAUSE = 300
"""Most characters of the line that names the cause."""
_TRACEBACK, _CAUSED = "Traceback (most recent call last)", "Caused by: "
_BRIDGE = "py4j.protocol.Py4J"
"""Python's error that only passes on one of Java."""
_WORKER_GONE = "Python worker exited unexpectedly"
_FRAMES = ("at ", "... ", "File ")
_RAISED = re.compile(r"[\s|+-]*([A-Za-z_][\w.]{0,200}(?:Error|Exception|Exit|Interrupt)\b.*)")
"""A line that names what was raised, also inside a group of exceptions or an indented trace."""
_PREFIXES = re.compile(
    r"^(?:Job aborted due to stage failure: |Task \S+ in stage \S+ failed \d+ times, most recent failure: |"
    r"Lost task \S+ in stage \S+ \(TID \d+\) ?\([^)]{0,300}\): |Lost task \S+ in stage \S+ \(TID \d+, [^)]{0,300}\): |"
    r".{0,200}has failed the maximum allowable number of times: \d+\. Most recent failure reason:\s*|"
    r"Task serialization failed: (?=\S)|User class threw exception: |Exception in thread \"[^\"]{0,200}\" |"
    r"FetchFailed\(.{0,500}message=\s*|(?=(?:Vertex|Task|TaskAttempt \d+) failed, ).{0,2000}?info=\[|"
    r"(?:Error: )?(?:Error|Failure) while running task ?(?:\( ?\w+ ?\) ?)?: ?(?:attempt_\w+:)?|"
    r"Error: (?=\S+(?:Exception|Error)))"
)
"""What Hadoop, Spark and Tez write before the error of a task."""


def lines_of(text: str) -> list[str]:
    """Return the lines of an error text, also of one that was cleaned and holds ``·`` for line ends and tabs."""
    return text.splitlines() if "\n" in text else text.split("·")


def root_cause(text: str) -> str:
    """Return the line that names the cause: the last line of Python's last traceback, else Java's deepest cause, else the
    first line without the scheduler's words; cleaned and cut."""
    lines = lines_of(text)
    begun = [k for k, line in enumerate(lines) if _TRACEBACK in line]
    trace = lines[begun[-1] + 1 :] if begun else []
    raised = next((line for line in trace if line and not line[0].isspace()), "")
    if raised and not raised.startswith((_BRIDGE, ": ", *_FRAMES)):
        return clean(raised.strip(), MOST_CAUSE)
    if raised:
        lines = [line.removeprefix(": ") for line in trace if not line.startswith((" ", _BRIDGE))]
    elif begun:
        lines = [found[1] for line in reversed(trace) if (found := _RAISED.match(line))] or lines
    causes = [line.removeprefix(_CAUSED) for line in lines if line.startswith(_CAUSED)]
    lost = next((line.removeprefix(_CAUSED) for line in lines if _WORKER_GONE in line), "")
    first = lost or (causes[-1] if causes else next((line for line in lines if line.strip()), ""))
    found = _PREFIXES.match(first)
    while found:
        rest = first[found.end() :]
        first = rest or next((line for line in lines[1:] if line.strip()), first)
        found = _PREFIXES.match(first) if rest else None
    return clean(first.strip(), MOST_CAUSE)


def with_cause(text: str, most: int) -> str:
    """Return an error in one line, cleaned and cut: the cause first, then the whole text if it says more."""
    cause, whole = root_cause(text), clean(text.strip(), most)
    return whole if whole.startswith(cause) else clean(f"{cause} · {whole}", most)


def grouped(errors: Iterable[tuple[str, int]], most: int = 20) -> tuple[tuple[str, int, str], ...]:
    """Add up errors, each with its number, by their cause, whatever ids and numbers that names. Return the cause as it was
    first seen, the number, and the first error in full; the most frequent first."""
    counts: dict[str, int] = {}
    shown: dict[str, tuple[str, str]] = {}
    for error, number in errors:
        cause = root_cause(error)
        key = stem(cause)
        shown.setdefault(key, (cause, error))
        counts[key] = counts.get(key, 0) + number
    order = sorted(counts, key=lambda key: (-counts[key], shown[key]))
    return tuple((shown[key][0], counts[key], shown[key][1]) for key in order[:most])
