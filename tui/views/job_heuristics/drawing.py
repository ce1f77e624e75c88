"""One job as lines: pure functions from the engine's detail to fragments. No arithmetic on data beyond layout."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from engine.core import units
from engine.job_heuristics.tables import SEVERITIES
from tui.glyphs import Glyphs
from tui.widgets.drawing.bars import Bar, Lane, Span, bars, lanes
from tui.widgets.drawing.fragments import Fragment, Line, cut, fit, harmless, join, width_of, wrap
from tui.widgets.drawing.plot import Mark, histogram, spark
from tui.widgets.facts import fact_lines

if TYPE_CHECKING:
    import polars as pl

    from engine.core.view import Result
    from engine.job_heuristics.dr_elephant import decision
    from engine.job_heuristics.mapreduce.result import Chart, InTask, JobDetail, SideDetail

DR_ELEPHANT = "Dr. Elephant"
LETTERS = {".": "ok", "L": "low", "M": "moderate", "S": "severe", "C": "critical"}
"""Letter of a severity strip to the level whose style it takes."""


def strip_line(strip: str) -> list[Fragment]:
    """A severity strip: one letter per heuristic in its level's style."""
    return join((letter, LETTERS.get(letter, "dim") if letter != "." else "dim") for letter in strip)


LEGEND = ". none  L low  M moderate  S severe  C critical"  # what the letters of a severity strip mean


def heading(text: str) -> Line:
    """A heading line."""
    return [(text, "title")]


def paragraph(text: str, width: int, style: str = "", indent: int = 0) -> list[Line]:
    """Wrapped text."""
    return [[(" " * indent + part, style)] for part in wrap(text, max(width - indent, 1)) if part or not text]


def paragraphs(texts: Iterable[str], width: int, style: str = "") -> list[Line]:
    """Several wrapped texts."""
    return [line for text in texts for line in paragraph(text, width, style)]


def part(title: str, lines: list[Line]) -> list[Line]:
    """A blank line, a heading and what is below it; nothing without lines."""
    return [[], heading(title), *lines] if lines else []


def facts(rows: Iterable[tuple[str, str, str]], width: int) -> list[Line]:
    """Label, value, style; values wrap beside their labels. Rows without a value are left out."""
    return fact_lines([row for row in rows if row[1]], width)


def job_line(row: dict[str, Any], state: str, glyphs: Glyphs) -> Line:
    """Draw the first line of an open job, given its row of the list: name, severity, state, letters of all verdicts."""
    severity = row.get("severity") or ""
    return [
        (f"{row.get('name') or '(no name)'}  ", "title"),
        (f"{glyphs.severity[units.level_of(severity)]} {severity or 'not judged'}", units.level_of(severity)),
        (f"  {state}  ", "title" if state == "RUNNING" else ""),
        *strip_line(str(row.get("strip") or "")),
    ]


# --- one verdict -----------------------------------------------------------------------------------------------------


def verdict(found: decision.VerdictDetail, width: int, height: int, glyphs: Glyphs) -> list[Line]:
    """Draw everything about one verdict: advice, outlook, why and how far, the limits, Dr. Elephant's details."""
    style = units.level_of(found.severity)
    out: list[Line] = [
        [(f"{found.heuristic} ", "title"), (f"{glyphs.severity[style]} {found.severity}", style),
         (f"  score {found.score:,}" if found.score else "", "dim")]
    ]  # fmt: skip
    if found.predicted is not None:
        word = SEVERITIES[found.predicted]
        out.append(
            [("under the scenario ", "dim"), (f"{glyphs.severity[units.level_of(word)]} {word}", units.level_of(word))]
        )
    out += paragraph(found.advice, width)
    out += _outlook(found.outlook, width, glyphs) if found.outlook is not None else []
    if found.why is not None and found.why.branches:
        out += part("why", paragraph(found.why.reason, width))
        for mark, text, style in ((glyphs.up, found.why.worse, "moderate"), (glyphs.down, found.why.better, "ok")):
            if text and not text.startswith("already"):
                out += paragraph(f"{mark} {text}", width, style)
        limits = [(limit, "and " if n else "") for branch in found.why.branches for n, limit in enumerate(branch)]
        out += part("limits", [line for limit, joint in limits for line in _scale(limit, width, glyphs, joint)])
    return out + part("as Dr. Elephant shows it", facts(((label, value, "") for label, value in found.details), width))


def _scale(limit: Any, width: int, glyphs: Glyphs, joint: str) -> list[Line]:
    """One limit: its value and which level it would give alone, the four limits below."""
    word = SEVERITIES[limit.level]
    mark, style = (f"{glyphs.arrow} ", "title") if limit.decides else ("  ", "")
    line = [(mark, "key"), (joint, ""), (limit.phrase, style), ("  alone ", "dim"), (word, units.level_of(word))]
    return [line, *paragraph(f"limits {limit.limits_text}", width, "dim", 4)]


def _outlook(seen: decision.Outlook, width: int, glyphs: Glyphs) -> list[Line]:
    out: list[Line] = [[], [("while it runs ", "dim"), (seen.status, "title")]]
    if seen.floor == seen.ceiling:
        return out
    rows = [
        Bar(SEVERITIES[k], chance, units.percent(100 * chance), units.level_of(SEVERITIES[k]))
        for k, chance in enumerate(seen.chance)
        if chance > 0
    ]
    return out + bars(rows, min(width, 60), glyphs, 1.0)


# --- cost ------------------------------------------------------------------------------------------------------------


def cost(rows: list[dict[str, Any]], shown: JobDetail, width: int, glyphs: Glyphs) -> list[Line]:
    """The four metrics, and the cost of all attempts by cause."""
    m, row = shown.before, shown.facts.job.row
    out = [heading("metrics as Dr. Elephant counts them")]
    out += facts(
        [
            ("used", units.text("mb_s", m.used_mb_s), ""),
            ("wasted", units.text("mb_s", m.wasted_mb_s), ""),
            ("wait", units.text("ms", m.wait_ms), ""),
            ("run time", units.text("ms", m.runtime_ms), ""),
            ("map container", f"{row['map_memory_mb']:,} MB" if row["map_memory_mb"] else "", ""),
            ("reduce container", f"{row['reduce_memory_mb']:,} MB" if row["reduce_memory_mb"] else "", ""),
        ],
        width,
    )
    out += [[], heading("true cost of all attempts by cause")]
    styles = {"useful": "ok", "application master": "bar", "running": "bar", "over-sizing": "moderate"}
    out += bars(
        [
            Bar(r["cause"], r["mb_s"], f"{units.percent(r['share'])} {units.text('mb_s', r['mb_s'])}", style)
            for r in rows
            for style in [styles.get(r["cause"], "severe")]
        ],
        width,
        glyphs,
    )
    cores = [Bar(r["cause"], r["vcore_s"], f"{units.number(r['vcore_s'])} vcore s") for r in rows if r["vcore_s"]]
    out += part("cores over time by cause", bars(cores, width, glyphs))
    priced = [Bar(r["cause"], r["price"], units.number(r["price"])) for r in rows if r["price"] is not None]
    return out + part("price by cause", bars(priced, width, glyphs))


# --- distributions ---------------------------------------------------------------------------------------------------


def distributions(shown: JobDetail, width: int, height: int, glyphs: Glyphs) -> list[Line]:
    """Both sides: run times and bytes with Dr. Elephant's split and the natural break, and what makes long tasks long."""
    out: list[Line] = []
    for side in shown.facts.sides:
        if out:
            out.append([])
        out.append(heading(f"{side.tasks:,} {'maps' if side.name == 'map' else 'reducers'}"))
        out += paragraph(side.causes.words, width)
        rows = max(min(height // 2, 9), 5)
        pair = width >= 110
        half = (width - 2) // 2 if pair else width
        times = _distribution("run time", side.times, side.time_points, side.time_split, side.time_natural, "ms", half,
                              rows, glyphs)  # fmt: skip
        sizes = _distribution("input" if side.name == "map" else "shuffled", side.sizes, side.size_points,
                              side.size_split, side.size_natural, "bytes", half, rows, glyphs)  # fmt: skip
        both = zip_longest(times, sizes, fillvalue=list[Fragment]())
        out += (
            [[*left, (" " * max(half - width_of(left), 0), ""), ("  ", ""), *right] for left, right in both]
            if pair
            else [*times, [], *sizes]
        )
        k, share = side.top
        out += facts(
            [
                ("Gini of bytes", f"{side.gini:.2f} (0 all alike, 1 one task has all)", ""),
                (
                    "largest",
                    f"{k:,} task{'s hold' if k != 1 else ' holds'} {units.percent(100 * share)} of the bytes",
                    "",
                ),
                ("time on bytes", _line_words(side), ""),
            ],
            width,
        )
        out += [
            [("slow ", "moderate"), (f"{outlier.name} ", "title"),
             (f"{units.plural(outlier.tasks, 'task')} took {outlier.ratio:.1f} times what their bytes explain, "
              f"{units.text('ms', outlier.lost_ms)} lost", "")]
            for outlier in (*side.causes.nodes[:5], *side.causes.racks[:3])
        ]  # fmt: skip
        out += _inside(side.inside, glyphs) if side.inside is not None else []
    return out or [[("no task with times yet", "dim")]]


def _line_words(side: SideDetail) -> str:
    line = side.causes.line
    if line.slope <= 0 or line.explained < 0.05:
        return "run times do not follow the bytes"
    per_gb = units.text("ms", line.slope * 2**30)
    start = units.text("ms", max(line.intercept, 0.0))
    return f"{start} to start + {per_gb} per GB explain {units.percent(100 * line.explained)}"


def _distribution(
    title: str, bins: Any, points: tuple[float, ...], split: Any, natural: Any, kind: Any, width: int, rows: int,
    glyphs: Glyphs,
) -> list[Line]:  # fmt: skip
    low, middle, high, most = (units.text(kind, p) for p in points)
    marks = [Mark(split.at, DR_ELEPHANT, "mark")] if split.low_n and split.high_n else []
    marks += [Mark(natural.at, "natural", "key")] if natural.low_n else []
    out: list[Line] = [[(f"{title} ", "title"), (f"median {middle}, 5-95% {low} to {high}, largest {most}", "dim")]]
    out += histogram(bins.edges, bins.counts, width, rows, glyphs, kind=kind, marks=marks)
    for name, two in ((DR_ELEPHANT, split), ("natural", natural)):
        text = (
            f"{two.low_n:,} @ {units.text(kind, two.low_mean)} | {two.high_n:,} @ {units.text(kind, two.high_mean)}"
            f" (explains {units.percent(100 * two.fit)})"
            if two.low_n and two.high_n
            else "one group"
        )
        out.append([(fit(name, 13), "mark" if name == DR_ELEPHANT else "key"), (text, "")])
    return out


def _inside(seen: InTask, glyphs: Glyphs) -> list[Line]:
    out: list[Line] = [[("inside the tasks ", "title"), (seen.words, "dim")]]
    peak = max(seen.memory_mb, default=0.0)
    if peak > 0:
        out.append([("memory ", "dim"), (spark(seen.memory_mb, 24, glyphs, 0.0), "bar"), (f"  to {peak:,.0f} MB", "")])
    out.append([("CPU    ", "dim"), (spark(seen.cpu_share, 24, glyphs, 0.0, 1.0), "bar"),
                (f"  {units.percent(100 * min(seen.cpu_share))} to {units.percent(100 * max(seen.cpu_share))}", "")])  # fmt: skip
    return out


# --- time ------------------------------------------------------------------------------------------------------------


def timeline(shown: JobDetail, width: int, height: int, glyphs: Glyphs) -> list[Line]:
    """Waterfall, slots in use, attempts on lanes, container waits, critical path."""
    held = shown.facts
    chart = held.chart
    begin = float(chart.begin_ms)
    span = (0.0, float(chart.end_ms) - begin)
    out: list[Line] = [heading("phases: each waits for the one before")]
    out += lanes(
        [
            Lane(p.name, [Span(p.start_ms - begin, p.end_ms - begin, "bar" if k % 2 == 0 else "bar2")],
                 units.text("ms", p.ms))
            for k, p in enumerate(held.waterfall)
        ],
        width, glyphs, span=span, kind="ms",
    )  # fmt: skip
    if shown.arrival.low is not None or shown.facts.job.running:
        out += _arrival(shown, width)
    inner = max(width - 24, 8)
    out += [[], heading("containers in use")]
    for name, series in (("maps", chart.map_slots), ("reducers", chart.reduce_slots)):
        if len(series) and int(series.max()) > 0:
            out.append([(fit(name, 10), "dim"), (spark(series.tolist(), inner, glyphs, 0.0), "bar"),
                        (f"  up to {int(series.max()) / 1000:,.0f}", "")])  # fmt: skip
    low, middle, high = (units.text("ms", wait) for wait in chart.waits)
    if chart.waited:
        out.append([("wait for a container ", "dim"),
                    (f"median {middle}, 5-95% {low} to {high} over {units.plural(chart.waited, 'task')}", "")])  # fmt: skip
    rows = max(min(chart.lanes, max(height - 8, 12)), 1)
    waves = [
        f"{n} wave{'s' if n != 1 else ''} of {word}"
        for n, word in ((chart.map_waves, "maps"), (chart.reduce_waves, "reducers"))
        if n
    ]
    more = f", {rows} of {chart.lanes:,} lanes shown" if chart.lanes > rows else ""
    out += [[], [("attempts ", "title"), (f"{' and '.join(waves)}{more}", "dim")]]
    out += lanes(_attempt_lanes(chart, rows, glyphs), width, glyphs, span=span, kind="ms")
    signs = _signs(glyphs)
    legend = f"{signs['map']} maps  {signs['reduce']} reducers  {signs['failed']} failed  {signs['killed']} killed  > running"
    out.append([(legend, "dim"), ("  critical path", "moderate")])
    out += [[], heading("critical path: what the end waited for")]
    for step in held.path:
        label = _label(held.job.attempts, step.attempt) if step.attempt >= 0 else ""
        out.append(
            [(fit(units.text("ms", step.end_ms - step.start_ms), 9, "right") + " ", "title" if label else "moderate"),
             (f"{step.text} ", ""), (label, "dim")]
        )  # fmt: skip
    return out


def _label(attempts: Any, number: int) -> str:
    name, host = (of[number] if number < len(of) else "" for of in (attempts.label, attempts.host))
    return f"{name.removeprefix('attempt_')} {host}".strip()


def _signs(glyphs: Glyphs) -> dict[str, str]:
    """Characters of attempts; neighbours on a lane alternate, so that they differ without colour."""
    maps, reduces = ("#%", "=~") if glyphs.ascii else ("█▓", "▒░")
    return {"map": maps, "reduce": reduces, "failed": "x", "killed": "-"}


def _attempt_lanes(chart: Chart, rows: int, glyphs: Glyphs) -> list[Lane]:
    signs = _signs(glyphs)
    seen = chart.lane < rows
    spans: list[list[Span]] = [[] for _ in range(rows)]
    begin = chart.begin_ms
    for start, end, lane, is_map, outcome, critical in zip(
        chart.start[seen].tolist(), chart.finish[seen].tolist(), chart.lane[seen].tolist(), chart.is_map[seen].tolist(),
        chart.outcome[seen].tolist(), chart.critical[seen].tolist(), strict=True,
    ):  # fmt: skip
        pair = signs["map" if is_map else "reduce"]
        sign = signs["failed"] if outcome == 1 else signs["killed"] if outcome == 2 else pair[len(spans[lane]) % 2]
        style = "moderate" if critical else "bar" if is_map else "mark"
        style = {1: "severe", 2: "dim"}.get(outcome, style)
        spans[lane].append(Span(start - begin, None if outcome == 3 else end - begin, style, sign))
    return [Lane("", found) for found in spans]


def _arrival(shown: JobDetail, width: int) -> list[Line]:
    seen = shown.arrival
    if seen.middle is not None and seen.low is not None and seen.high is not None:
        text = (
            f"ends about {units.moment(seen.middle)} (90% between {units.moment(seen.low)} and {units.moment(seen.high)}): "
            f"{seen.words}"
        )
    elif seen.low is not None:
        text = f"not before about {units.moment(seen.low)}: {seen.words}"
    else:
        text = f"end unknown: {seen.words}"
    return [[], *paragraph(text, width, "title")]


METRICS = {"used_mb_s": ("used", " MB·s"), "wasted_mb_s": ("wasted", " MB·s"), "wait_ms": ("wait", " ms")}
"""Name on screen and unit of each metric in table differences."""


def _exact(text: str) -> str:
    """A whole number with thousands separators; other text as it is. Nothing is rounded: differences may be small."""
    return f"{int(text):,}" if text.removeprefix("-").isdecimal() else text


# --- notes -----------------------------------------------------------------------------------------------------------


def notes_of_job(result: Result, job_id: str, middle: list[Line], width: int) -> list[Line]:
    """Draw what was assumed, ``middle``, problems of the job's files, and why Dr. Elephant would show nothing."""
    found = result.detail.rows("jobs", job_id)
    row = found.row(0, named=True) if found.height else {}
    mine = (problem for problem in result.problems if job_id in problem.path)
    problems = [f"{p.path}{f':{p.line}' if p.line else ''} {p.kind}: {p.reason}" for p in mine][:50]
    silent = paragraph(row.get("upstream_says") or "", width, "dim") if row.get("upstream_says") else []
    return [
        heading("assumptions"),
        *paragraph(row.get("notes") or "none", width),
        *middle,
        *part("problems of its files", paragraphs(problems, width, "moderate")),
        *part("Dr. Elephant would show nothing because", silent),
    ]


def notes(result: Result, job_id: str, shown: JobDetail, mode: str, width: int) -> list[Line]:
    """Draw the notes of a MapReduce job: also where the published description differs."""
    out: list[Line] = []
    if shown.prediction is not None:
        assumed = shown.prediction.assumptions or ("other limits only: nothing about the tasks changes",)
        out += part("the scenario's model", paragraphs(assumed, width))
        out += paragraphs(shown.prediction.warnings, width, "severe")
    differences: list[Line] = []
    for row in shown.differences:
        name, unit = METRICS.get(row["what"], (row["what"], ""))
        values = f"code {_exact(row['upstream'])}{unit}, published {_exact(row['published'])}{unit}"
        differences += [[(f"{name}  ", "title"), (values, "")], *paragraph(row["reason"], width, "dim", 2)]
    out += part(
        f"Dr. Elephant's code and its published description (shown: {mode}, key m)",
        differences or paragraph("both give the same numbers for this job", width, "dim"),
    )
    return notes_of_job(result, job_id, out, width)


def error(row: dict[str, Any], width: int, height: int, glyphs: Glyphs) -> list[Line]:
    """Draw one error in full, given its row of table errors."""
    times = f"{row['attempts']:,} x " if row["attempts"] else ""
    place = f"first in {row['place']}" if row["attempts"] else f"said by {row['place']}"
    text = paragraphs(str(row["text"]).splitlines(), width)
    return [*paragraph(f"{times}{row['cause']}", width, "severe"), [(place, "dim")], [], *text]


def tasks_by_time(
    tasks: pl.DataFrame, text: Callable[[dict[str, Any]], tuple[str, str]], width: int, height: int, glyphs: Glyphs
) -> list[Line]:
    """Draw tasks (columns ``took``, ms, and ``host``): all times sorted, the slowest hosts, and the longest with what ``text``
    says of each (and its style)."""
    import polars as pl

    ordered = tasks["took"].sort().to_list()  # drawn thinned to the width
    out: list[Line] = [
        [("times, sorted  ", "dim"), (spark([float(t) for t in ordered], max(10, width - 16), glyphs, low=0), "mark")]
    ]
    for host, count, median, longest in (
        tasks.group_by("host").agg(pl.len(), pl.col("took").median().alias("m"), pl.col("took").max().alias("x"))
        .sort("m", "host", descending=[True, False]).head(4).iter_rows()
    ):  # fmt: skip
        words = f"{units.plural(count, 'task')}, median {units.duration(median)}, longest {units.duration(longest)}"
        out.append([(f"{cut(harmless(host or '(host unknown)'), 24, glyphs.ellipsis)}  ", ""), (words, "dim")])
    longest_tasks = tasks.sort("took", descending=True, maintain_order=True).head(max(3, height - len(out) - 2))
    out += [[], heading("longest tasks")]
    for one in longest_tasks.iter_rows(named=True):
        words, style = text(one)
        out.append([(cut(f"{units.duration(one['took']):>9}  {harmless(words)}", width, glyphs.ellipsis), style)])
    return out
