from __future__ import annotations

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from engine.core import units
from engine.core.view import LEVELS, Finding, Headline, Result
from engine.findings import events
from engine.findings.events import Event, Feed, changes

ROW = ("jobs", ("job_1",))


def result(*findings: Finding, headline: tuple[Headline, ...] = ()) -> Result:
    return Result("job-heuristics", {}, {}, headline, findings)


def brief(found: tuple[Event, ...]) -> list[tuple[str, str, str]]:
    return [(event.change, event.level, event.subject) for event in found]


def test_new_worse_better_and_gone() -> None:
    before = result(
        Finding("moderate", "job_1 Mapper GC", "a"),
        Finding("severe", "job_2 Speed", "b"),
        Finding("low", "job_3 Time", "c"),
    )
    after = result(
        Finding("critical", "job_1 Mapper GC", "a2", ROW),
        Finding("low", "job_2 Speed", "b2"),
        Finding("severe", "job_4", "d"),
    )
    found = changes(before, after, 7)
    assert brief(found) == [
        ("worse", "critical", "job_1 Mapper GC"),
        ("new", "severe", "job_4"),
        ("better", "low", "job_2 Speed"),
        ("gone", "low", "job_3 Time"),
    ]
    assert found[0].text == "became CRITICAL, was moderate: a2" and found[0].row == ROW and found[0].time_ms == 7
    assert [event.bad for event in found] == [True, True, False, False]


def test_the_worst_finding_of_a_subject_counts_and_what_is_fine_does_not() -> None:
    before = result(Finding("ok", "writes", "fine"))
    after = result(Finding("low", "writes", "a"), Finding("critical", "writes", "b"), Finding("", "reads", "c"))
    assert brief(changes(before, after, 0)) == [("new", "critical", "writes")]


def test_another_text_or_order_is_no_event() -> None:
    before = result(Finding("low", "a", "1 over"), Finding("low", "b", "2 over"))
    after = result(Finding("low", "b", "3 over"), Finding("low", "a", "4 over"))
    assert changes(before, after, 0) == ()


def test_many_that_changed_alike_are_one_event() -> None:
    after = result(*(Finding("severe", f"metric {n}", "x") for n in range(40)))
    (event,) = changes(result(), after, 0)
    assert event.subject == "40 findings" and event.text == "metric 0, metric 1, metric 2 and 37 more"


def test_what_came_last_is_named() -> None:
    def run(number: int, *metrics: int) -> Result:
        findings = [Finding("severe", f"metric {n}", "twice", ("metrics", (n,))) for n in metrics]
        return Result("run-comparison", {}, {}, (), findings, latest=f"run {number}")

    (event,) = changes(run(131), run(132, 1, 2, 3), 0)
    assert (event.subject, event.text) == ("run 132: 3 metrics worse", "metric 1, metric 2, metric 3")
    (event,) = changes(run(132, 1, 2), run(133), 0)
    assert event.subject == "run 133: 2 metrics better"
    (event,) = changes(run(131), run(132, 1), 0)
    assert (event.subject, event.text) == ("metric 1", "run 132: twice")
    (event,) = changes(run(132), run(132, 1), 0)
    assert event.text == "twice", "another reason than the run"


def test_what_a_cut_list_leaves_out_is_neither_new_nor_gone() -> None:
    before = result(Finding("severe", "a", ""), Finding("severe", "more", "", rest=3), Finding("critical", "z", ""))
    after = result(Finding("severe", "b", ""), Finding("severe", "more", "", rest=5), Finding("critical", "y", ""))
    assert brief(changes(before, after, 0)) == [
        ("new", "critical", "y"),
        ("worse", "severe", "findings"),
        ("gone", "critical", "z"),
    ]
    same = result(Finding("severe", "c", ""), Finding("severe", "more", "", rest=3), Finding("critical", "z", ""))
    assert changes(before, same, 0) == ()


def test_levels_of_headline_numbers() -> None:
    before = result(headline=(Headline("brokers", "6/6 alive", level="ok"), Headline("CPU", "20%"), Headline("x", "1")))
    after = result(headline=(Headline("brokers", "5/6 alive", level="severe"), Headline("CPU", "25%", level="ok")))
    (event,) = changes(before, after, 0)
    assert (event.change, event.level, event.subject, event.text) == (
        "worse",
        "severe",
        "brokers",
        "5/6 alive, was 6/6 alive",
    )
    (back,) = changes(after, before, 0)
    assert (back.change, back.level) == ("better", "ok")


level = st.sampled_from(LEVELS)
results = st.lists(st.builds(Finding, level, st.sampled_from("abcdef"), st.text(max_size=2)), max_size=12).map(
    lambda findings: result(*findings)
)


@given(results, results)
def test_events_are_the_differences_of_worst_levels(before: Result, after: Result) -> None:
    def worst(one: Result) -> dict[str, int]:
        ranks: dict[str, int] = {}
        for finding in one.findings:
            ranks[finding.subject] = max(ranks.get(finding.subject, 0), LEVELS.index(finding.level))
        return {subject: rank for subject, rank in ranks.items() if rank >= 2}

    was, now = worst(before), worst(after)
    found = changes(before, after, 0)
    differing = [subject for subject in {*was, *now} if was.get(subject) != now.get(subject)]
    counted = sum(int(event.subject.split()[0]) if " findings" in event.subject else 1 for event in found)
    assert counted == len(differing)
    for event in found:
        if " findings" not in event.subject:
            expected = (
                "new" if event.subject not in was else "gone" if event.subject not in now
                else "worse" if now[event.subject] > was[event.subject] else "better"
            )  # fmt: skip
            assert event.change == expected and event.subject in differing
    assert changes(before, before, 0) == ()
    assert {event.bad for event in found[: sum(event.bad for event in found)]} <= {True}, "what became worse is first"


def an_event(time_ms: int, subject: str, change: events.Change = "new") -> Event:
    return Event(time_ms, "v", change, "severe", subject, "text")


def test_a_feed_is_newest_first_counts_what_flaps_and_is_bounded() -> None:
    feed = Feed().extended([an_event(0, "a")]).extended([an_event(1, "b"), an_event(1, "c")])
    assert [event.subject for event in feed.events] == ["b", "c", "a"]
    feed = feed.extended([an_event(5, "a")]).extended([an_event(6, "a")])
    assert [(event.subject, event.count) for event in feed.events] == [("a", 3), ("b", 1), ("c", 1)]
    later = feed.extended([an_event(6 + events.FLAPPING_MS + 1, "a")])
    assert [event.subject for event in later.events] == ["a", "a", "b", "c"]
    assert feed.extended([]) is feed
    for n in range(events.KEPT + 50):
        feed = feed.extended([an_event(n, f"s{n}")])
    assert len(feed.events) == events.KEPT and feed.events[0].subject == f"s{events.KEPT + 49}"


def test_findings_of_all_views_worst_first_as_tables() -> None:
    results = {
        "one": result(Finding("low", "a", "x"), Finding("severe", "b", "y", ROW)),
        "two": result(Finding("critical", "c", "z"), Finding("ok", "d", "")),
    }
    found = events.worst_first(results)
    assert [(view, finding.subject) for view, finding in found] == [("two", "c"), ("one", "b"), ("one", "a")]
    frame = events.findings_frame(found, {"one": "First view"})
    assert frame["view"].to_list() == ["two", "First view", "First view"]
    assert frame["level"].to_list() == ["critical", "severe", "low"]
    rows = events.events_frame(Feed((an_event(3, "a"),)), {})
    assert rows.schema == events.EVENTS.schema and rows["count"].to_list() == [None]
    assert rows.select(pl.col("subject")).item() == "a"
    assert events.number_of([Finding("severe", "", "", rest=9), Finding("low", "", "")], units.rank("severe")) == 9


def test_findings_of_one_cause_are_one_line_and_one_event() -> None:
    dead = [
        Finding("critical", "broker 7", "dead", ("brokers", (7,)), cause="dead brokers"),
        *(Finding("severe", goal, "broken", ("goals", (goal,)), cause="dead brokers") for goal in ("A", "B", "C", "D")),
    ]
    job = [Finding("critical", f"etl {what}", "x", ROW) for what in ("memory", "skew")]
    after = result(*dead, *job, Finding("severe", "alone", "y"))
    found = [(finding.subject, finding.count) for _, finding in events.worst_first({"one": after})]
    assert found == [("broker 7", 5), ("etl memory", 2), ("alone", 1)]
    assert [event.subject for event in changes(result(), after, 0)] == [
        "broker 7 and 4 more",
        "etl memory and 1 more",
        "alone",
    ]
    frame = events.findings_frame(events.worst_first({"one": after}), {})
    assert frame["more"].to_list() == ["+4", "+1", ""]
