"""What changed between successive results of a view, as events: findings that are new, worse, better or gone."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from itertools import groupby
from typing import Literal

import msgspec
import polars as pl

from engine.core import units
from engine.core.tables import Column, Table
from engine.core.view import Finding, Headline, Level, Result

Change = Literal["new", "worse", "better", "gone"]  # how a finding, or the level of a headline number, changed

KEPT = 500  # events that a feed keeps; the oldest go
FOLD = 3  # findings of one result that have an event each; more that changed alike are one event
FLAPPING_MS = 300_000  # milliseconds within which the same event again is counted, not listed again


class Event(msgspec.Struct, frozen=True):
    """One change: at ``time_ms`` (epoch), in ``view``, of ``subject``.

    ``level`` is the level that it has now, or had if it is gone, ``row`` where it stands (``Finding.row``), ``count`` how
    often it happened within ``FLAPPING_MS`` of the last time, ``cause`` what it has in common with others.
    """

    time_ms: int
    view: str
    change: Change
    level: Level
    subject: str
    text: str
    row: tuple[str, tuple[object, ...]] | None = None
    count: int = 1
    cause: Hashable = None

    @property
    def bad(self) -> bool:
        """Whether things became worse."""
        return self.change in ("new", "worse")


def changes(before: Result, after: Result, time_ms: int) -> tuple[Event, ...]:
    """Return what changed from ``before`` to ``after``, two results of one view under the same parameters, worst first.

    Compared are the worst finding of each subject, from level ``low`` on, and the levels of headline numbers. What came last
    (``Result.latest``) is named if that is new. Where a list of findings is cut, only the number of those that it may have cut is
    compared.
    """
    old, new = by_subject(before.findings), by_subject(after.findings)
    cut = max((units.rank(finding.level) for finding in (*before.findings, *after.findings) if finding.rest), default=0)
    events: list[Event] = []
    for subject, finding in new.items():
        known = old.get(subject)
        if known is None:
            if units.rank(finding.level) > cut:
                events.append(_event("new", finding, time_ms, after.view, finding.text))
        elif known.level != finding.level:
            change: Change = "worse" if units.rank(finding.level) > units.rank(known.level) else "better"
            text = f"became {finding.level.upper()}, was {known.level}: {finding.text}"
            events.append(_event(change, finding, time_ms, after.view, text))
    for subject, finding in old.items():
        if subject not in new and units.rank(finding.level) > cut:
            events.append(_event("gone", finding, time_ms, after.view, f"was {finding.level}: {finding.text}"))
    if cut:
        events += _count_event(before, after, cut, time_ms)
    events += _headline_events(before.headline, after.headline, time_ms, after.view)
    return tuple(_folded(events, after.latest if after.latest != before.latest else ""))


def by_subject(findings: Iterable[Finding]) -> dict[str, Finding]:
    """Return the worst finding of each subject, from level ``low`` on; the first among equals."""
    worst: dict[str, Finding] = {}
    for finding in findings:
        known = worst.get(finding.subject)
        if not finding.rest and units.rank(finding.level) > (units.rank(known.level) if known is not None else 1):
            worst[finding.subject] = finding
    return worst


def number_of(findings: Iterable[Finding], level: int = 2) -> int:
    """Return the number of findings from the rank ``level`` on, those that are not listed included."""
    return sum(finding.rest or 1 for finding in findings if units.rank(finding.level) >= level)


def _event(change: Change, finding: Finding, time_ms: int, view: str, text: str) -> Event:
    return Event(time_ms, view, change, finding.level, finding.subject, text, finding.row, cause=_cause(finding))


def _cause(finding: Finding) -> Hashable:
    """Return what the findings of one line of the overview have in common."""
    return finding.cause or finding.row or finding.subject


def _count_event(before: Result, after: Result, rank: int, time_ms: int) -> list[Event]:
    """Return an event for another number of findings up to the rank at which a list is cut."""
    level = next(finding.level for finding in (*after.findings, *before.findings) if units.rank(finding.level) == rank)
    was, now = (number_of(result.findings) - number_of(result.findings, rank + 1) for result in (before, after))
    if was == now:
        return []
    change: Change = "worse" if now > was else "better"
    return [Event(time_ms, after.view, change, level, "findings", f"{now:,} up to {level}, were {was:,}")]


def _headline_events(before: Sequence[Headline], after: Sequence[Headline], time_ms: int, view: str) -> list[Event]:
    """Return an event for each headline number whose level changed to or from one that is not fine."""
    known = {number.label: number for number in before}
    events = []
    for old, number in ((known[number.label], number) for number in after if number.label in known):
        was, now = (max(units.rank(each.level), 1) for each in (old, number))
        if was != now:
            change: Change = "worse" if now > was else "better"
            events.append(
                Event(time_ms, view, change, number.level or "ok", number.label, f"{number.value}, was {old.value}")
            )
    return events


_ORDER: Mapping[Change, int] = {"new": 0, "worse": 0, "better": 1, "gone": 1}


def _folded(events: Iterable[Event], latest: str) -> list[Event]:
    """Sort events, those that became worse first, then by level. Fold more than ``FOLD`` that changed alike into one.

    ``latest``: what brought them (``run 132``), or empty; then all that changed alike are one event, and each names it.
    """

    def alike(event: Event) -> tuple[int, int, str, bool]:
        return _ORDER[event.change], -units.rank(event.level), event.change, bool(latest) and event.row is None

    causes: dict[Hashable, list[Event]] = {}
    for event in sorted(events, key=alike):
        causes.setdefault((event.change, event.cause or event.subject), []).append(event)
    first = [
        msgspec.structs.replace(worst, subject=worst.subject + and_more(len(rest))) for worst, *rest in causes.values()
    ]
    out: list[Event] = []
    for _, group in groupby(sorted(events if latest else first, key=alike), key=alike):
        members = list(group)
        if len(members) <= (1 if latest else FOLD):
            out += [
                msgspec.structs.replace(event, text=f"{latest}: {event.text}") if latest else event for event in members
            ]
            continue
        names = ", ".join(event.subject for event in members[:FOLD])
        rest = f" and {len(members) - FOLD:,} more" if len(members) > FOLD else ""
        out.append(msgspec.structs.replace(members[0], subject=_together(members, latest), text=names + rest))
    return out


def _together(members: Sequence[Event], latest: str) -> str:
    """Name several events that changed alike: ``40 findings``, or what brought them and what they are about."""
    tables = {event.row[0] if event.row is not None else "" for event in members}
    if not latest or tables == {""} or len(tables) > 1:
        return f"{latest}: {units.plural(len(members), 'finding')}" if latest else units.plural(len(members), "finding")
    return f"{latest}: {len(members):,} {tables.pop().replace('_', ' ')} {'worse' if members[0].bad else 'better'}"


class Feed(msgspec.Struct, frozen=True):
    """Events, newest first, at most ``KEPT``."""

    events: tuple[Event, ...] = ()

    def extended(self, events: Sequence[Event]) -> Feed:
        """Return the feed with newer ``events`` (worst first). What happens again within ``FLAPPING_MS`` is counted."""
        if not events:
            return self
        known = {(event.view, event.subject, event.change): event for event in reversed(self.events)}
        fresh: list[Event] = []
        replaced: set[Event] = set()
        for event in events:
            again = known.get((event.view, event.subject, event.change))
            if again is not None and abs(event.time_ms - again.time_ms) <= FLAPPING_MS:
                replaced.add(again)
                event = msgspec.structs.replace(event, count=again.count + 1)
            fresh.append(event)
        return Feed((*fresh, *(event for event in self.events if event not in replaced))[:KEPT])


LISTED = 200  # findings of one view that the list of all findings holds at most


def worst_first(results: Mapping[str, Result]) -> list[tuple[str, Finding]]:
    """Return the findings of several views (by name) from level ``low`` on, one of each cause, worst first, then in the order of
    views."""
    found = [
        (place, name, finding)
        for place, (name, result) in enumerate(results.items())
        for finding in _by_cause(
            sorted(by_subject(result.findings).values(), key=lambda each: -units.rank(each.level))
        )[:LISTED]
    ]
    found.sort(key=lambda each: (-units.rank(each[2].level), each[0]))
    return [(name, finding) for _, name, finding in found]


def _by_cause(findings: Iterable[Finding]) -> list[Finding]:
    """Return the first finding of each cause with the number of all of them."""
    causes: dict[Hashable, list[Finding]] = {}
    for finding in findings:
        causes.setdefault(_cause(finding), []).append(finding)
    return [msgspec.structs.replace(group[0], count=len(group)) for group in causes.values()]


def and_more(count: int) -> str:
    """Return what follows the first of several that belong together; ``count`` of the others."""
    return f" and {count:,} more" if count else ""


_VIEW = Column("view", pl.String, "The view.", priority=1, width=15)
_LEVEL = Column("level", pl.String, "How bad it is.", kind="level", priority=0, width=10)
_SUBJECT = Column("subject", pl.String, "What it is about.", priority=0, width=22, grow=48)
_TEXT = Column("text", pl.String, "What is the matter, with the numbers.", priority=0, width=24, grow=240)

EVENTS = Table(
    "events",
    "What changed since the operator last looked, newest first.",
    (
        Column("time_ms", pl.Int64, "When it was seen.", "ms", "time_ms", "changed", width=8, priority=0),
        Column("change", pl.String, "new, worse, better or gone.", priority=0, width=6),
        _LEVEL,
        _VIEW,
        _SUBJECT,
        _TEXT,
        Column(
            "count",
            pl.Int64,
            "How often within five minutes of the last time.",
            kind="count",
            title="times",
            priority=3,
        ),
    ),
    key=("time_ms", "view", "subject", "change"),
    title="What changed",
)
FINDINGS = Table(
    "findings",
    "Findings of all views, worst first.",
    (
        _LEVEL,
        _VIEW,
        _SUBJECT,
        Column("more", pl.String, "How many more findings have the same cause.", priority=0, width=4),
        _TEXT,
    ),
    ("view", "subject"),
    title="Findings",
)


def events_frame(feed: Feed, titles: Mapping[str, str]) -> pl.DataFrame:
    """Return the rows of ``EVENTS``; ``titles``: of the views, by name."""
    events = feed.events
    columns = {name: [getattr(event, name) for event in events] for name in EVENTS.schema}
    columns["view"] = [titles.get(event.view, event.view) for event in events]
    columns["count"] = [event.count if event.count > 1 else None for event in events]
    return EVENTS.frame(columns)


def findings_frame(found: Sequence[tuple[str, Finding]], titles: Mapping[str, str]) -> pl.DataFrame:
    """Return the rows of ``FINDINGS`` for what ``worst_first`` returned; ``titles``: of the views, by name."""
    columns = {name: [getattr(finding, name) for _, finding in found] for name in ("level", "subject", "text")}
    columns["more"] = [f"+{finding.count - 1}" if finding.count > 1 else "" for _, finding in found]
    return FINDINGS.frame({"view": [titles.get(name, name) for name, _ in found], **columns})
