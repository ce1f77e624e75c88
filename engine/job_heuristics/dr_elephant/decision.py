"""Explain a verdict in words: which limits decide it, how far the next level is, how it may end, and what to change.

A kind of job calls ``verdicts_in_full`` with what it can say about each verdict of an open job, and ``tables_of`` with an
``OpenJob`` that says where its facts come from. Only what is particular to the kind (stages, phases, attempts) is left to it.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence

import msgspec
import numpy as np
import polars as pl

from engine.core.view import Context
from engine.job_heuristics.dr_elephant import history
from engine.job_heuristics.dr_elephant.display import labels
from engine.job_heuristics.dr_elephant.errors import Told, errors_frame
from engine.job_heuristics.dr_elephant.gates import Gate, Reading, Tree, amount
from engine.job_heuristics.dr_elephant.judged import JudgedJobs
from engine.job_heuristics.tables import CONF_CHANGES, ERRORS, EXPLAINED, HISTORY, SEVERITIES, WHAT_IF, of_rows

ALL_TASKS = "number of tasks"  # label of a gate whose value is the number of tasks


class Limit(msgspec.Struct, frozen=True):
    """One gate of a verdict: its value and limits, the ``level`` it would give alone, and whether it ``decides`` the
    verdict."""

    reading: Reading
    level: int
    decides: bool

    @property
    def gate(self) -> Gate:
        """What is compared."""
        return self.reading.gate

    @property
    def value_text(self) -> str:
        """The value in the words of its unit."""
        return amount(self.reading.value, self.gate.unit)

    @property
    def limits_text(self) -> str:
        """The four limits, LOW to CRITICAL."""
        sign = ">=" if self.gate.rising else "<="
        return f"{sign} {', '.join(amount(limit, self.gate.unit) for limit in self.reading.scale)}"

    @property
    def phrase(self) -> str:
        """The value with its label: ``160 tasks``, ``0.3 min average run time``, ``factor ... 3``."""
        label, unit = self.gate.label, self.gate.unit
        if unit == "tasks":
            return self.value_text if label == ALL_TASKS else f"{self.value_text} {label.removeprefix('tasks ')}"
        return f"{label} {self.value_text}" if unit in ("", "10000") else f"{self.value_text} {label}"


Branches = tuple[tuple[Limit, ...], ...]


class Why(msgspec.Struct, frozen=True):
    """One verdict explained: ``level`` 0-4, its limits by branch, the deciding reason, and what it takes to get one
    level worse or better. ``margin``: smallest relative change that alters the verdict, infinite if no single change
    can."""

    heuristic: str
    side: str
    level: int
    branches: Branches
    reason: str
    worse: str
    better: str
    margin: float


def _move(reading: Reading, level: int, worse: bool) -> tuple[float, str] | None:
    """Return what brings a gate to ``level`` (``worse``) or below it: the relative change, and in words. None if no finite
    change suffices."""
    value, limit = reading.value, reading.scale[level - 1]
    if not np.isfinite(value):
        return None
    gap = max(0.0, limit - value if reading.gate.rising == worse else value - limit)
    scale = max(abs(limit), abs(value))
    return gap / scale if scale > 0 else 0.0, _words(reading.gate, gap, worse)


def _words(gate: Gate, gap: float, worse: bool) -> str:
    """Describe a change of a gate's value by ``gap``."""
    grows = gate.rising == worse
    if gate.unit == "tasks":
        # Below a limit means one less than it.
        count = int(np.ceil(gap)) if worse else int(np.floor(gap)) + 1
        where = f" ({gate.label})" if gate.label != ALL_TASKS else ""
        return f"{count:,} {'more' if grows else 'fewer'} task{'' if count == 1 else 's'}{where}"
    if gap == 0:
        return f"any {'rise' if grows else 'fall'} of {gate.label} below its limit" if not worse else gate.label
    if gate.unit in ("", "10000"):
        return f"{gate.label} {amount(gap, gate.unit)} {'higher' if grows else 'lower'}"
    return f"{amount(gap, gate.unit)} {'more' if grows else 'less'} {gate.label}"


def explain_tree(name: str, side: str, tree: Tree, level: int, *, explained: bool = True) -> Why:
    """Return the explanation of a verdict from the readings of its gates; ``explained`` False: nothing to judge."""
    levels = [[int(reading.levels()[0]) for reading in branch] for branch in tree.branches]
    deciding_level = max(map(min, levels))
    branches = tuple(
        tuple(
            Limit(reading, alone, explained and alone == min(beside) == deciding_level)
            for reading, alone in zip(branch, beside, strict=True)
        )
        for branch, beside in zip(tree.branches, levels, strict=True)
    )
    if not explained:
        return Why(name, side, 0, branches, f"No {side} task to judge.", "", "", float("inf"))
    deciding = [limit for branch in branches for limit in branch if limit.decides]
    (up_margin, up), (down_margin, down) = _worse(branches, level), _better(branches, level)
    return Why(name, side, level, branches, _reason(level, deciding), up, down, min(up_margin, down_margin))


def _reason(level: int, deciding: list[Limit]) -> str:
    parts = [f"{limit.phrase} (limits {limit.limits_text})" for limit in deciding[:3]]
    verb = (
        ("keep" if len(parts) > 1 else "keeps") + " it at" if level < 4 else "make it" if len(parts) > 1 else "makes it"
    )
    return f"{'; '.join(parts)} {verb} {SEVERITIES[level]}."


def _worse(branches: Branches, level: int) -> tuple[float, str]:
    """Return the easiest way to the next worse level: one branch of which every gate must reach it."""
    if level >= 4:
        return float("inf"), "already at the worst level"
    moves = [[_move(limit.reading, level + 1, True) for limit in branch if limit.level <= level] for branch in branches]
    ways = [_together(branch, level + 1) for branch in moves if branch]
    return min((way for way in ways if way is not None), default=(float("inf"), ""))


def _better(branches: Branches, level: int) -> tuple[float, str]:
    """Return the easiest way to the next better level: in every branch that holds the level, one gate must drop below
    it."""
    if level == 0:
        return float("inf"), "already at the best level"
    holding = [branch for branch in branches if min(limit.level for limit in branch) >= level]
    moves = [[move for limit in branch if (move := _move(limit.reading, level, False))] for branch in holding]
    return _together([min(branch, default=None) for branch in moves], level - 1) or (float("inf"), "")


def _together(moves: Sequence[tuple[float, str] | None], level: int) -> tuple[float, str] | None:
    """Return the largest change among ``moves``, and all of them in words; None if one of them is not possible."""
    possible = [move for move in moves if move is not None]
    if len(possible) < len(moves):
        return None
    margin = max((margin for margin, _ in possible), default=0.0)
    return margin, f"{SEVERITIES[level]} with {' and '.join(words for _, words in possible)}"


Chances = tuple[float, float, float, float, float]  # probability 0-1 of each of the five severities


class Outlook(msgspec.Struct, frozen=True):
    """How one verdict of a running job may end: ``level`` over the finished tasks, hard bounds ``floor`` and
    ``ceiling`` of the final level if the job succeeds, and ``chance`` 0-1 of each of the five severities (zeros: not
    estimated)."""

    heuristic: str
    level: int
    floor: int
    ceiling: int
    chance: Chances = (0.0, 0.0, 0.0, 0.0, 0.0)

    @property
    def status(self) -> str:
        """``certain`` (cannot change any more), ``can only get worse``, ``at least`` or ``at most`` a severity, or
        ``provisional``."""
        if self.floor == self.ceiling:
            return "certain"
        if self.floor >= max(1, self.level):
            return "can only get worse"
        if self.floor:
            return f"at least {SEVERITIES[self.floor]}"
        return f"at most {SEVERITIES[self.ceiling]}" if self.ceiling < 4 else "provisional"

    @property
    def likely(self) -> int:
        """The most probable final severity."""
        return int(np.argmax(self.chance))


def change(now: float, then: float) -> tuple[float | None, str]:
    """Return the change in percent of a figure where less is better (None if it was 0), and ``better``, ``worse`` or
    ``same``."""
    return (100 * (then / now - 1) if now else None), "same" if now == then else "better" if then < now else "worse"


class VerdictDetail(msgspec.Struct, frozen=True):
    """One verdict: severity, score, Dr. Elephant's labels and values, and what goes beyond them.

    ``predicted`` is the level (0-4) under the what-if scenario, None without one or where it has no numbers.
    """

    heuristic: str
    severity: str
    score: int
    details: tuple[tuple[str, str], ...]
    why: Why | None
    advice: str
    outlook: Outlook | None
    predicted: int | None


def explained(job_id: str, verdicts: Iterable[VerdictDetail]) -> pl.DataFrame:
    """Return EXPLAINED rows of one job."""
    rows = []
    for v in verdicts:
        deciding = [limit for branch in v.why.branches for limit in branch if limit.decides] if v.why else []
        margin = v.why.margin * 100 if v.why and v.why.margin < 1e6 else None
        drawn = v.outlook if v.outlook and any(v.outlook.chance) else None
        rows.append(
            (
                job_id, v.heuristic, v.severity,
                "; ".join(d.phrase for d in deciding), "; ".join(d.limits_text for d in deciding),
                _reason_of(v), v.why.worse if v.why else "", v.why.better if v.why else "", margin,
                v.outlook.status if v.outlook else "", SEVERITIES[drawn.likely] if drawn else None,
                100 * drawn.chance[drawn.likely] if drawn else None,
                SEVERITIES[v.predicted] if v.predicted is not None else None, v.advice,
            )
        )  # fmt: skip
    return of_rows(EXPLAINED, rows)


def _reason_of(v: VerdictDetail) -> str:
    if v.why is None:
        return ""
    word = SEVERITIES[v.why.level]
    return v.why.reason if word == v.severity else f"By Dr. Elephant's code it would be {word}: {v.why.reason}"


def what_if(
    metrics: Iterable[tuple[str, float | None, float | None, Callable[[float], str]]],
    verdicts: Iterable[VerdictDetail],
) -> pl.DataFrame:
    """Return WHAT_IF rows: each metric (name, now, predicted, how to write it) that has both values, then the verdicts."""
    rows: list[tuple[str, str, str, float | None, str]] = [
        (what, write(a), write(b), *change(a, b)) for what, a, b, write in metrics if a is not None and b is not None
    ]
    rows += [
        (v.heuristic, v.severity, SEVERITIES[v.predicted], None, change(SEVERITIES.index(v.severity), v.predicted)[1])
        for v in verdicts
        if v.predicted is not None and v.severity in SEVERITIES
    ]
    return of_rows(WHAT_IF, rows)


# --- Open jobs: their tables -----------------------------------------------------------------------------------------


Explain = Callable[[str, int], tuple[Why | None, str, Outlook | None]]
"""Says why a verdict (its name, severity 0-4) is so, what to do, and how it may end while the job runs."""
Metric = tuple[str, float | None, float | None, Callable[[float], str]]
"""A metric of the what-if table: name, now, predicted, and how to write it."""


def verdicts_in_full(rows: pl.DataFrame, explain: Explain, predicted: Mapping[str, int]) -> tuple[VerdictDetail, ...]:
    """Return the verdicts of one job (its HEURISTICS rows); ``predicted``: severities 0-4 by name under the scenario."""
    return tuple(
        VerdictDetail(
            name, severity, int(score or 0), labels(details),
            *explain(name, SEVERITIES.index(severity) if severity in SEVERITIES else 0), predicted.get(name),
        )
        for name, severity, score, details in rows.select("heuristic", "severity", "score", "details").iter_rows()
    )  # fmt: skip


class OpenJob(msgspec.Struct, frozen=True):
    """One open job and the others of its kind, ``known`` by id. ``input_bytes`` gives the bytes that jobs read,
    ``configuration`` the properties of a job; ``errors`` are those of the open one."""

    job_id: str
    known: Container[str]
    input_bytes: Callable[[Sequence[str]], Mapping[str, int | None]]
    configuration: Callable[[str], Mapping[str, str | None]]
    errors: Sequence[Told]


def tables_of(
    job: OpenJob,
    judged: JudgedJobs,
    verdicts: Sequence[VerdictDetail],
    metrics: Sequence[Metric] | None,
    compare: str | None,
    context: Context,
) -> dict[str, pl.DataFrame]:
    """Return the tables that every open job has, by name: EXPLAINED, ERRORS, HISTORY, CONF_CHANGES, and WHAT_IF if
    ``metrics`` are predicted. ``compare``: the run whose configuration is compared, None: the run before."""
    runs = context.memo.value(
        "runs like job",
        (job.job_id, "now" if context.at_ms is None else "past", judged.version),
        lambda: _runs(job, judged.jobs),
    )
    other = compare or history.run_before(runs, job.job_id)
    changes = CONF_CHANGES.empty()
    if other and other != job.job_id and other in job.known:
        changes = history.conf_changes(job.configuration(other), job.configuration(job.job_id), other)
    tables = {
        EXPLAINED.name: explained(job.job_id, verdicts),
        ERRORS.name: errors_frame(job.job_id, job.errors),
        HISTORY.name: runs,
        CONF_CHANGES.name: changes,
    }
    if metrics is not None:
        tables[WHAT_IF.name] = what_if(metrics, verdicts)
    return tables


def _runs(job: OpenJob, jobs: pl.DataFrame) -> pl.DataFrame:
    """Return HISTORY rows: earlier and later runs of the same job, by the stem of its name. ``jobs``: JOBS rows."""
    alike = history.runs_like(jobs, job.job_id)
    names = [name for name in alike["job_id"].to_list() if name in job.known]
    sizes = job.input_bytes(names)
    inputs = pl.DataFrame(
        {"job_id": names, "input_bytes": [sizes.get(name) for name in names]},
        {"job_id": pl.String, "input_bytes": pl.Int64},
    )
    return history.history(alike.filter(pl.col("job_id").is_in(names)), inputs, job.job_id)
