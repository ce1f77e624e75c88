"""The gate that every advice passes, of every kind of job; recommendations and their table.

An engine declares the properties that its advice may name, each a ``Setting``. What its rules would change in one job
goes through ``granted`` together, as ``Wish``es, and only what is granted is shown as ``key=value``:

    answers = granted(wishes, SETTINGS, properties, job)

A wish is refused, with a sentence that says why, if its key is not in force in this job (``Setting.idle``), rests on
tasks that have not ended (``Wish.open``), asks for what is set already or for the other direction than that takes, or if
another wish moves the same key the other way. Values below what the engine accepts are raised (``Setting.least``). The
present value comes from the job's configuration, else from the engine's own default (``Setting.default``), never from
the rule. Rows with a saving are ``Advice``: ``passed`` returns those that are granted, with their present values.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec
import polars as pl

from engine.job_heuristics.tables import INSIGHTS, RECOMMENDATIONS, SEVERITIES, of_rows

STEP_MB = 128  # memory is set in multiples of this many MB
LEAST_MB = 512  # least memory, MB, of a container or heap that is recommended
MORE, LESS = "more", "less"  # values of a wish that knows only the direction


def plain_number(text: str) -> float | None:
    """Parse a number without a unit; None for anything else."""
    try:
        return float(text)
    except ValueError:
        return None


def nothing(job: Any) -> str:
    """Return no text: the default of a property is not known, or it always acts."""
    return ""


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """One property that advice may name.

    ``read`` turns a value into a number that can be compared (None: a word) and ``write`` a number into a value.
    ``default``: what the engine takes in this job while it is not set, empty: unknown. ``idle``: why it changes nothing in
    this job, empty: it acts. ``least``: smallest value that the engine accepts.
    """

    read: Callable[[str], float | None] = plain_number
    write: Callable[[float], str] = "{:.0f}".format
    default: Callable[[Any], str] = nothing
    idle: Callable[[Any], str] = nothing
    least: float = float("-inf")


class Wish(msgspec.Struct, frozen=True):
    """A change that one rule asks for: ``value`` in the property's own spelling, or ``MORE`` or ``LESS``.

    ``because`` names the rule in words, for the sentence about a conflict. ``way``: 1 or -1 if the rule can only mean more
    or less, whatever is set now. ``current``: value observed in the job, where the configuration and the engine's default
    do not tell. ``open``: what has not ended yet and would change the value, empty: nothing.
    """

    key: str
    value: str
    because: str
    way: int = 0
    current: str = ""
    open: str = ""


class Answer(msgspec.Struct, frozen=True):
    """``value`` to set, empty: refused; ``current``: present value, empty: unknown; ``why``: a sentence on what was refused
    or changed, empty: nothing. ``way``: 1 more, -1 less, 0 unknown."""

    value: str = ""
    current: str = ""
    why: str = ""
    way: int = 0


def granted(
    wishes: Sequence[Wish], settings: Mapping[str, Setting], properties: Mapping[str, str | None], job: Any
) -> list[Answer]:
    """Return the answer to each of ``wishes`` of one job. ``properties``: its configuration; ``job``: what the functions of
    ``settings`` take. Wishes without a key, or with one that is not declared, are refused without words."""
    answers = [_alone(wish, settings.get(wish.key), properties, job) for wish in wishes]
    ways: dict[str, dict[int, list[str]]] = defaultdict(dict)
    for wish, answer in zip(wishes, answers, strict=True):
        if answer.value and answer.way:
            ways[wish.key].setdefault(answer.way, []).append(wish.because)
    torn = {
        key: f"{key} stays: {sides[1][0]} asks for more, {sides[-1][0]} for less."
        for key, sides in ways.items()
        if len(sides) == 2
    }
    return [
        Answer(current=answer.current, why=torn[wish.key]) if answer.value and wish.key in torn else answer
        for wish, answer in zip(wishes, answers, strict=True)
    ]


def _alone(wish: Wish, setting: Setting | None, properties: Mapping[str, str | None], job: Any) -> Answer:
    """Answer one wish without regard to the others."""
    if setting is None or not wish.value:
        return Answer()
    key, value, way = wish.key, wish.value, wish.way
    current = (properties.get(key) or "").strip() or setting.default(job) or wish.current
    if idle := setting.idle(job):
        return Answer(current=current, why=f"{key} changes nothing here: {idle}.")
    if wish.open:
        return Answer(current=current, why=f"No value for {key}: {wish.open}.")
    if value in (MORE, LESS):
        return Answer(value, current, "", 1 if value == MORE else -1)
    wanted, now = setting.read(value), setting.read(current)
    why = ""
    if wanted is not None and wanted < setting.least:
        wanted, value = setting.least, setting.write(setting.least)
        why = f"{value} is the least that {key} takes."
    if value.lower() == current.lower():
        return Answer(current=current, why=f"{key} is {current} already.")
    if wanted is not None and now is not None:
        moved = (wanted > now) - (wanted < now)
        if not moved or (way and moved != way):
            return Answer(current=current, why=f"{key} is {current} already.")
        way = moved
    return Answer(value, current, why, way)


class Advice(msgspec.Struct, frozen=True):
    """One recommendation for one job (columns of ``RECOMMENDATIONS``). ``now`` and ``after``: severity 0-4 of the
    heuristic it targets, before and after the change. ``wait_change_ms``: None if unknown."""

    topic: str
    key: str
    value: str
    current: str
    saving_mb_s: float
    wait_change_ms: int | None
    heuristic: str
    now: int
    after: int
    text: str

    @property
    def wish(self) -> Wish:
        """What it asks for."""
        return Wish(self.key, self.value, self.topic, current=self.current)

    def answered(self, answer: Answer) -> Advice:
        """Return it with the present value, and the value that is granted."""
        return msgspec.structs.replace(
            self, value=answer.value, current=answer.current, text=f"{self.text} {answer.why}".strip()
        )


def passed(
    advice: Sequence[Advice], settings: Mapping[str, Setting], properties: Mapping[str, str | None], job: Any
) -> list[Advice]:
    """Return the recommendations of one job that the gate lets pass, see ``granted``."""
    answers = granted([one.wish for one in advice], settings, properties, job)
    return [one.answered(answer) for one, answer in zip(advice, answers, strict=True) if answer.value]


def frame_of(advised: Iterable[tuple[str, float, Sequence[Advice]]]) -> pl.DataFrame:
    """Return RECOMMENDATIONS rows, ranked within each job in the given order. ``advised``: job id, MB s used (0:
    unknown) and recommendations of each job."""
    return of_rows(
        RECOMMENDATIONS,
        (
            (job, rank, one.topic, one.key, one.value, one.current, one.saving_mb_s,
             100 * one.saving_mb_s / used if used else None, one.wait_change_ms, one.heuristic,
             SEVERITIES[one.now], SEVERITIES[one.after], one.text)
            for job, used, found in advised
            for rank, one in enumerate(found, 1)
        ),
    )  # fmt: skip


def savings(advised: pl.DataFrame) -> dict[str, float]:
    """Return by job the total saving (MB s) of its recommendations, RECOMMENDATIONS rows in ``advised``.

    Each saves its share of what the previous ones leave, as memory and time multiply. Jobs without advice are absent.
    """
    used: dict[str, float] = {}
    left: dict[str, float] = {}
    for app_id, saving, percent in advised.select("job_id", "saving_mb_s", "saving_percent").iter_rows():
        if saving > 0 and percent:
            whole = used.setdefault(app_id, 100 * saving / percent)
            left[app_id] = left.get(app_id, whole) * max(0.0, 1 - percent / 100)
    return {app_id: whole - left[app_id] for app_id, whole in used.items()}


# --- Insights --------------------------------------------------------------------------------------------------------


CERTAIN, GROWS, PROVISIONAL = "certain", "can only get worse", "provisional"


class Insight(msgspec.Struct, frozen=True):
    """What was looked at.

    ``subject``: application, stage 3, sql 0, executor 7, host y or query x. ``value`` beside its ``limit`` in words.
    ``level``: 0 (fine) to 4. ``reason``: with the application's numbers. ``key`` and ``setting``: property to change,
    empty if none helps; ``way``, ``current`` and ``open`` as in ``Wish``. ``status``: whether it may change while the
    application runs.
    """

    topic: str
    subject: str
    value: str
    limit: str
    level: int
    reason: str
    key: str = ""
    setting: str = ""
    status: str = CERTAIN
    way: int = 0
    current: str = ""
    open: str = ""

    @property
    def wish(self) -> Wish:
        """What it asks for."""
        because = f"{self.topic} of {'the application' if self.subject == 'application' else self.subject}"
        return Wish(self.key, self.setting, because, self.way, self.current, self.open)

    def wishing(self, wish: Wish, *, helps: bool = True) -> Insight:
        """Return it with another wish, if that ``helps``."""
        return (
            msgspec.structs.replace(
                self, key=wish.key, setting=wish.value, way=wish.way, current=wish.current, open=wish.open
            )
            if helps
            else self
        )

    def answered(self, answer: Answer) -> Insight:
        """Return it with what the gate grants."""
        return msgspec.structs.replace(
            self, key=self.key if answer.value else "", setting=answer.value, current=answer.current,
            reason=f"{self.reason} {answer.why}".rstrip(),
        )  # fmt: skip

    @property
    def severity(self) -> str:
        """The level as a word."""
        return SEVERITIES[self.level]


def level(value: float, *limits: float) -> int:
    """Return how many of ``limits`` (for LOW, MODERATE, SEVERE, CRITICAL) a value reaches."""
    return sum(value >= limit for limit in limits)


def insights_frame(found: Iterable[Insight]) -> pl.DataFrame:
    """Return INSIGHTS rows."""
    return of_rows(
        INSIGHTS,
        (
            (i.topic, i.subject, i.severity, i.value, i.limit, i.key, i.setting, i.current, i.status, i.reason)
            for i in found
        ),
    )
