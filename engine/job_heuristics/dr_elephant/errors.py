"""The line of an error text that a person looks for: what was raised at the bottom of a trace, and errors grouped by it."""

from __future__ import annotations

import re
from collections.abc import Iterable

import polars as pl

from engine.core.reading import clean
from engine.job_heuristics.dr_elephant.history import stem
from engine.job_heuristics.tables import ERRORS, of_rows

MOST_CAUSE = 300  # most characters of the line that names the cause
MOST_ERRORS = 200  # most causes of one job that are listed
_TRACEBACK, _CAUSED = "Traceback (most recent call last)", "Caused by: "
_BRIDGE = "py4j.protocol.Py4J"  # Python's error that only passes on one of Java
_WORKER_GONE = "Python worker exited unexpectedly"
_TRACE = ("at ", "... ", "File ")
_RAISED = re.compile(r"[\s|+-]*([A-Za-z_][\w.]{0,200}(?:Error|Exception|Exit|Interrupt)\b.*)")
"""A line that names what was raised, also inside a group of exceptions or an indented trace."""
_PREFIXES = re.compile(
    r"^(?:(?:org\.apache\.spark\.SparkException: )?Job aborted due to stage failure: |"
    r"Task \S+ in stage \S+ failed \d+ times, most recent failure: |"
    r"Lost task \S+ in stage \S+ \(TID \d+\) ?\([^)]{0,300}\): |Lost task \S+ in stage \S+ \(TID \d+, [^)]{0,300}\): |"
    r".{0,200}has failed the maximum allowable number of times: \d+\. Most recent failure reason:\s*|"
    r"Task serialization failed: (?=\S)|User class threw exception: |Exception in thread \"[^\"]{0,200}\" |"
    r"FetchFailed\(.{0,500}message=\s*|(?=(?:Vertex|Task|TaskAttempt \d+) failed, ).{0,2000}?info=\[|"
    r"(?:Error: )?(?:Error|Failure) while running task ?(?:\( ?\w+ ?\) ?)?: ?(?:attempt_\w+:)?|"
    r"Error: (?=\S+(?:Exception|Error))|AttemptID:\S+ |\[\d{4}-\d\d-\d\d [\d:.,]+\] ?|"
    r"ExecutorLostFailure \([^)]{0,300}\) Reason: |"
    r"Container \S+ finished with diagnostics set to \[(?:Container failed, exitCode=-?\d+\.? ?)?|"
    r"Exception from container-launch\.?\s*|Container id: \S+|"
    r"Application \S+ failed \d+ times.{0,200}?exited with\s+exitCode: -?\d+(?: due to: ?)?|"
    r"(?:Failing this attempt\.)?Diagnostics: )"
)
"""What YARN, Hadoop, Spark and Tez write before the error of a task or master."""


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
    if raised and not raised.startswith((_BRIDGE, ": ", *_TRACE)):
        return clean(raised.strip(), MOST_CAUSE)
    if raised:
        lines = [line.removeprefix(": ") for line in trace if not line.startswith((" ", _BRIDGE))]
    elif begun:
        lines = [found[1] for line in reversed(trace) if (found := _RAISED.match(line))] or lines
    causes = [line.removeprefix(_CAUSED) for line in lines if line.startswith(_CAUSED)]
    lost = next((line.removeprefix(_CAUSED) for line in lines if _WORKER_GONE in line), "")
    first = lost or (causes[-1] if causes else next((line for line in lines if line.strip()), ""))
    found = _PREFIXES.match(first)
    following = (line for line in lines[1:] if line.strip())
    while found:
        rest = first[found.end() :] or next(following, "")
        found = _PREFIXES.match(rest)
        first = rest or first
    return clean(first.strip(), MOST_CAUSE)


def with_cause(text: str, most: int) -> str:
    """Return an error in one line, cleaned and cut: the cause first, then the whole text if it says more."""
    cause, whole = root_cause(text), clean(text.strip(), most)
    return whole if whole.startswith(cause) else clean(f"{cause} · {whole}", most)


Told = tuple[str, int, str]
"""An error in full, the number of attempts that ended with it (0: what is above them failed), and the first place."""


def grouped(errors: Iterable[tuple[str, int, str]], most: int = 20) -> tuple[tuple[str, int, str, str], ...]:
    """Add up errors by their cause, whatever ids and numbers that names. Return the cause as it was first seen, the number of
    attempts, the first place, and the longest of the errors; the most frequent first."""
    counts: dict[str, int] = {}
    shown: dict[str, tuple[str, str, str]] = {}
    for error, number, where in errors:
        cause = root_cause(error)
        key = stem(cause)
        known = shown.setdefault(key, (cause, where, error))
        if len(error) > len(known[2]):
            shown[key] = (*known[:2], error)
        counts[key] = counts.get(key, 0) + number
    order = sorted(counts, key=lambda key: (-counts[key], shown[key]))
    return tuple((shown[key][0], counts[key], *shown[key][1:]) for key in order[:most])


def cause_of(errors: pl.Series) -> str:
    """Return the most frequent cause of the errors of attempts; empty without any."""
    told = errors.drop_nulls().value_counts(sort=True, name="n").sort("n", errors.name, descending=[True, False])
    return next((cause for cause, *_ in grouped(((text, n, "") for text, n in told.iter_rows() if text), 1)), "")


def errors_frame(job_id: str, errors: Iterable[Told]) -> pl.DataFrame:
    """Return ERRORS rows of one job."""
    rows = grouped(((text, number, where) for text, number, where in errors if text), MOST_ERRORS)
    return of_rows(ERRORS, ((job_id, cause, n or None, where, _whole(text, cause)) for cause, n, where, text in rows))


def _whole(text: str, cause: str) -> str:
    """Return the lines of an error without empty ones, and without the cause that ``with_cause`` puts before them."""
    lines = [line.expandtabs(2) for line in lines_of(text) if line.strip()]
    repeated = len(lines) > 1 and lines[0].strip() == cause and any(cause in line for line in lines[1:])
    return "\n".join(lines[repeated:])
