"""The drawings of the run comparison: columns and cells of its tables, samples in one line, plots of a metric; short names."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from engine.run_comparison.words import change_text, p_text, ratio_text
from tui.glyphs import Glyphs
from tui.views.shared.cells import interval, number, share
from tui.views.shared.cells import named as named_words
from tui.widgets.drawing.axes import place
from tui.widgets.drawing.fragments import Fragment, Line, cut_left, join
from tui.widgets.drawing.plot import Draw, Mark, Series, ecdf, histogram, plot
from tui.widgets.table.window import Cell, Renderer

if TYPE_CHECKING:
    import polars as pl

    from engine.core.tables import Kind, Table
    from engine.run_comparison.result.detail import Detail

VERDICT_STYLE = {"different": "moderate", "equivalent": "ok", "undecided": "dim", "missing": "low"}
_PERCENTILE = re.compile(r"Perc([0-9.]+)")


def effect_style(row: Mapping[str, Any]) -> str:
    """Return the style of a metric by its change: red for worse, green for better."""
    if row.get("verdict") != "different" or row.get("muted"):
        return ""
    return {"better": "ok", "worse": "severe"}.get(row.get("effect") or "", "moderate")


def means_cell(cell: Cell) -> Sequence[Fragment]:
    """Draw what the ratio compares, medians or else means of both sides, with their unit: ``195 → 405 ms``."""
    statistical = cell.row.get("median_left") is not None and cell.row.get("median_right") is not None
    left, right = (cell.row.get(f"{'median' if statistical else 'mean'}_{side}") for side in ("left", "right"))
    if left is None or right is None:
        return [("", "")]
    text = change_text(left, right, str(cell.row.get("unit") or ""), cell.glyphs.arrow)
    # Without room, leave out "per operation".
    return [((text if len(text) <= cell.width else text.partition("/")[0]).rjust(cell.width), "")]


INFLUENCE = number(
    lambda share: f"{100 * share:+.2f} pp" if round(100 * share, 2) else "0",
    lambda cell: "" if round(100 * cell.value, 2) else "dim",
    none="",
)
"""The change of the matched share in percentage points, with its sign."""


def verdict_cell(cell: Cell) -> Sequence[Fragment]:
    """Draw the verdict with a mark for its level: worse or better where it is different."""
    if cell.row.get("muted"):
        return [("  muted", "dim")]
    word = str(cell.value or "")
    style = VERDICT_STYLE.get(word, "")
    if word == "different":
        style = effect_style(cell.row)
        word = str(cell.row.get("effect") or word)
    sign = cell.glyphs.severity.get(style if style != "dim" else "", " ")
    return [(f"{sign} ", style), (word, style)]


def bucket_cell(cell: Cell) -> Sequence[Fragment]:
    """Draw ``p99`` for Perc99, any other bucket by its name."""
    text = str(cell.value or "")
    found = _PERCENTILE.fullmatch(text)
    return [(f"p{found[1]}" if found else text, "")]


RATIO = number(ratio_text, lambda cell: effect_style(cell.row))
METRIC_CELLS: Mapping[str, Renderer] = {
    "means": means_cell, "ratio": RATIO, "interval": interval("ratio_low", "ratio_high", ratio_text), "verdict": verdict_cell,
    "q_value": number(p_text), "p_value": number(p_text),
}  # fmt: skip
GROUP_CELLS: Mapping[str, Renderer] = {
    "group": named_words({"(none)": "dim"}, none="(none)"), "ratio": RATIO, "share": share("{:.1f}%"),
}  # fmt: skip
CHANGE_CELLS: Mapping[str, Renderer] = {"change": share("{:+.1f}%"), "p_value": number(p_text)}
RUN_CELLS: Mapping[str, Renderer] = {"influence": INFLUENCE, "outliers": share("{:.1f}%")}


def naming(tests: Iterable[str]) -> dict[str, Renderer]:
    """Return the renderers of cells that name a metric; ``tests``: names of all tests."""
    # The shortest end of each name, in pieces between _, that no other name ends with: simple_load for
    # APIResponsivenessPrometheus_simple_load where there is a load as well.
    ends = {name: ["_".join(name.split("_")[at:]) for at in range(name.count("_"), -1, -1)] for name in set(tests)}
    holders = Counter(end for each in ends.values() for end in each)
    shorts = {
        name: next((end for end in each if holders[end] == 1 and end.strip("_")), name) for name, each in ends.items()
    }

    def test(cell: Cell) -> Sequence[Fragment]:
        """Draw the shortest end of a test's name that differs from the others."""
        text = str(cell.value or "")
        return [(cut_left(shorts.get(text, text), cell.width, cell.glyphs.ellipsis), "")]

    return {"bucket": bucket_cell, "test": test}


def named(frame: pl.DataFrame) -> pl.DataFrame:
    """Add a column ``name``: verb, resource/subresource, scope (unless it is ``resource``) and further labels.

    Left out are labels that repeat verb or resource, and labels or verbs that all metrics of a test share: they distinguish
    nothing and would cut off what does.
    """
    import polars as pl

    def unless_empty(text: pl.Expr) -> pl.Expr:
        return pl.when(text != "").then(text)

    verb, resource, part = pl.col("verb"), pl.col("resource"), pl.col("subresource")
    scope, labels = pl.col("scope"), pl.col("metric")
    whole = pl.concat_str(resource, pl.when(part != "").then(pl.lit("/") + part).otherwise(pl.lit("")))
    several = pl.len().over("test") > 1
    shared = several & (labels.n_unique().over("test") == 1) & ((verb != "") | (whole != ""))
    spare = (labels == resource) | (labels == verb) | shared
    pieces = [
        unless_empty(pl.when(~(several & (verb.n_unique().over("test") == 1) & (whole != ""))).then(verb)),
        unless_empty(whole),
        pl.when(scope != "resource").then(unless_empty(scope)),
        pl.when(~spare).then(unless_empty(labels)),
    ]
    return frame.with_columns(pl.concat_str(pieces, separator=" ", ignore_nulls=True).alias("name"))


# -- both samples in one line: the upper half of each cell is the left sample, the lower the right one ----------------------

UNICODE = {
    (0, 0): " ", (1, 0): "▘", (0, 1): "▖", (1, 1): "▌",
    (2, 0): "▀", (0, 2): "▄", (2, 1): "▛", (1, 2): "▙", (2, 2): "█",
}  # fmt: skip
"""Characters by the content of a cell, of the left and the right sample: 0 nothing, 1 values, 2 the median."""
ASCII = {
    (0, 0): " ", (1, 0): "'", (0, 1): ".", (1, 1): ":",
    (2, 0): "^", (0, 2): "v", (2, 1): "^", (1, 2): "v", (2, 2): "#",
}  # fmt: skip


def legend(glyphs: Glyphs, names: tuple[str, str]) -> str:
    """Say what the characters of a strip mean; ``names``: of both sides."""
    table = ASCII if glyphs.ascii else UNICODE
    above, below = f"{names[0]} above {table[1, 0]} (median {table[2, 0]})", f"{names[1]} below {table[0, 1]}"
    return f"{above}, {below} (median {table[0, 2]}), lowest to highest"


def sides(names: tuple[str, str]) -> Renderer:
    """Return a renderer of a side by its name."""
    named_sides = dict(zip(("left", "right"), names, strict=True))

    def side(cell: Cell) -> Sequence[Fragment]:
        word = named_sides.get(str(cell.value), str(cell.value or ""))
        return [(cut_left(word, cell.width, cell.glyphs.ellipsis), "")]

    return side


def strip(left: Sequence[float], right: Sequence[float], width: int, glyphs: Glyphs) -> Line:
    """Draw a strip of exactly ``width`` cells over the common range; an empty sample leaves its half empty."""
    values = [*left, *right]
    if not values or width <= 0:
        return [(" " * max(width, 0), "")]
    low, high = min(values), max(values)
    if low == high:
        low, high = low - 1.0, high + 1.0
    halves = []
    for sample in (left, right):
        ordered = [place(value, (low, high), width) for value in sorted(sample)]
        middle = ordered[(len(ordered) - 1) // 2] if ordered else None
        halves.append([2 if at == middle else int(at in ordered) for at in range(width)])
    table = ASCII if glyphs.ascii else UNICODE
    styles = {(0, 0): "dim", (1, 0): "bar", (0, 1): "bar2", (1, 1): "mark"}
    return join(
        (table[one, two] if one or two else glyphs.gap, styles[min(one, 1), min(two, 1)])
        for one, two in zip(*halves, strict=True)
    )


def samples(detail: Detail) -> Renderer:
    """Return the renderer of the samples of a metric."""

    def render(cell: Cell) -> Sequence[Fragment]:
        left, right = detail.sample(cell.row["row"])
        return strip(left.tolist(), right.tolist(), cell.width, cell.glyphs)

    return render


# -- plots of a metric --------------------------------------------------------------------------------------------------

KINDS: Mapping[str, Kind] = {
    "ms": "ms", "s": "s", "sec": "s", "bytes": "bytes", "B": "bytes", "B/s": "bytes_per_s", "bytes/s": "bytes_per_s",
    "%": "percent",
}  # fmt: skip
"""How values of a unit are formatted."""


def kind_of(row: Mapping[str, Any]) -> Kind:
    """Return how values of a metric are formatted, be they of one operation or not."""
    unit = str(row["unit"])
    return KINDS.get(unit) or KINDS.get(unit.partition("/")[0]) or "number"


def distribution(detail: Detail, row: Mapping[str, Any], bars: bool) -> Draw | None:
    """Return what draws both samples of a metric: as distribution functions, with ``bars`` as a histogram; None without
    values."""
    kind = kind_of(row)
    if bars:
        return partial(_histogram, detail, row["row"], kind)
    left, right = detail.sample(row["row"])
    samples = [(detail.names[0], left.tolist(), "bar"), (detail.names[1], right.tolist(), "bar2")]
    drawn = [sample for sample in samples if sample[1]]
    return partial(ecdf, drawn, kind=kind) if drawn else None


def _histogram(detail: Any, row: int, kind: Kind, width: int, height: int, glyphs: Glyphs) -> list[Line]:
    edges, left, right = detail.histogram(row, max(min(width // 3, 40), 4))
    return histogram(edges.tolist(), left.tolist(), width, height, glyphs, kind=kind, other=right.tolist())


def over_runs(detail: Detail, row: Mapping[str, Any]) -> Draw:
    """Return what draws the values of a metric over the runs, with its change points."""
    places, values, sides = (part.tolist() for part in detail.series(row["row"]))
    changes = detail.change_points(row["row"])
    marks = [Mark(float(at), "change") for at in (changes.positions if changes is not None else ())]
    drawn = []
    for side, name, style, shape in zip((0, 1), detail.names, ("bar", "bar2"), "ox", strict=True):
        xs, ys = ([each for each, of in zip(all_, sides, strict=True) if of == side] for all_ in (places, values))
        if xs:
            drawn.append(Series(xs, ys, name, style, points=True, shape=shape))
    return partial(plot, drawn, x_kind="count", y_kind=kind_of(row), marks=marks, zero=False)


Shape = Mapping[str, tuple[int, int, int]]  # width, priority and growth of columns on screen

METRICS = (
    "name", "bucket", "test", "verdict", "means", "ratio", "samples", "interval", "matched", "q_value", "p_value",
    "similarity", "runs_needed", "disagree", "n_left", "n_right", "mean_left", "mean_right", "median_left", "median_right",
    "unit", "upstream_matched", "changed", "evidence", "kind", "effect",
)  # fmt: skip
"""Columns of the metrics table on screen, in order; others can be switched on."""
SHAPE: Shape = {
    "name": (18, 0, 40), "bucket": (6, 0, 9), "test": (11, 0, 22), "samples": (6, 2, 20), "ratio": (10, 0, 0),
    "interval": (13, 3, 0), "verdict": (12, 0, 0),
    "means": (14, 1, 12), "matched": (5, 4, 0), "effect": (6, 3, 0), "q_value": (8, 3, 0),
    "p_value": (8, 4, 0), "similarity": (6, 4, 0), "runs_needed": (6, 4, 0), "disagree": (6, 4, 0), "n_left": (6, 5, 0),
    "n_right": (6, 5, 0), "mean_left": (9, 4, 0), "mean_right": (9, 4, 0), "median_left": (11, 5, 0),
    "median_right": (12, 5, 0), "unit": (5, 4, 0), "evidence": (8, 6, 0),
    "changed": (7, 6, 0), "upstream_matched": (8, 5, 0), "kind": (12, 6, 0),
}  # fmt: skip
"""Width, priority and growth of columns on screen."""
MISSING = ("name", "bucket", "test", "side", "n", "unit", "kind")
CHANGES = ("name", "bucket", "test", "change", "along", "run", "inside", "mean_before", "mean_after", "unit", "p_value", "job",
           "time_ms", "index")  # fmt: skip
CHANGES_SHAPE: Shape = {
    "name": (19, 0, 40), "bucket": (6, 0, 9), "test": (9, 0, 22), "change": (8, 0, 0), "along": (18, 0, 40), "run": (19, 1, 0),
    "inside": (7, 3, 0), "mean_before": (9, 2, 0), "mean_after": (9, 2, 0), "unit": (5, 2, 0), "p_value": (8, 3, 0),
    "job": (18, 4, 30), "time_ms": (14, 4, 0), "index": (5, 5, 0),
}  # fmt: skip
RUNS = ("job", "run", "side", "result", "time_ms", "files", "problems", "influence", "badness", "bad", "outliers")
RUNS_SHAPE: Shape = {
    "job": (15, 0, 40), "run": (19, 0, 0), "side": (10, 0, 0), "result": (10, 0, 0), "time_ms": (14, 1, 0),
    "problems": (8, 2, 0), "influence": (9, 2, 0), "badness": (7, 2, 0), "bad": (3, 3, 0),
    "files": (5, 1, 0), "outliers": (8, 5, 0),
}  # fmt: skip
GROUPS = ("group", "metrics", "different", "worse", "equivalent", "undecided", "missing", "share", "ratio", "by")
GROUPS_SHAPE: Shape = {
    "group": (16, 0, 40), "metrics": (7, 1, 0), "different": (9, 0, 0), "worse": (5, 0, 0), "equivalent": (10, 1, 0),
    "undecided": (9, 1, 0), "missing": (7, 2, 0), "share": (7, 1, 0), "ratio": (6, 1, 0), "by": (8, 4, 0),
}  # fmt: skip
SECTIONS: Mapping[str, tuple[Sequence[str], Shape]] = {
    "metrics": (METRICS, SHAPE), "missing": (MISSING, SHAPE), "change_points": (CHANGES, CHANGES_SHAPE),
    "runs": (RUNS, RUNS_SHAPE), "groups": (GROUPS, GROUPS_SHAPE),
}  # fmt: skip
"""Columns and shape of each table on screen."""


def screen_table(declared: Table, mode: str, names: tuple[str, str]) -> Table:
    """Return a declared table as the screen shows it: with a name in one column and samples in the row. Titles name the two
    sides, and which is divided by which: that depends on the ``mode``.

    Columns that the section does not name can be switched on.
    """
    import polars as pl

    from engine.core.tables import Column

    middle = "median" if mode == "statistical" else "mean"
    extra = [Column("name", pl.String, "verb, resource, scope and further labels", priority=0)]
    if declared.name == "metrics":
        title = f"{middle}s: {' to '.join(names)}"
        title = title if len(title) <= SHAPE["means"][0] else f"{middle}s"
        meaning = f"{middle} of {names[0]}, then of {names[1]}, with the unit"
        values = f"values of both sides: {names[0]} above, {names[1]} below"
        extra += [
            Column("means", pl.String, meaning, title=title, kind="number"),
            Column("samples", pl.String, values, title="values"),
            Column("interval", pl.String, "interval of the ratio"),
        ]
    elif all(column.name != "test" for column in declared.columns):
        extra = []
    order, shape = SECTIONS[declared.name]
    by_name = {column.name: column for column in (*declared.columns, *extra)}
    columns = []
    for name in (*order, *(other for other in by_name if other not in order)):
        column = by_name[name]
        width, priority, grow = shape.get(name, (column.width, column.priority, column.grow))
        hidden = column.hidden or name not in order
        if name == "ratio" and declared.name == "metrics":
            turn = -1 if mode == "statistical" else 1
            over, sides = ("/".join(each[::turn]) for each in (names, ("left", "right")))
            how = "median of all pairwise ratios (Hodges-Lehmann)" if turn < 0 else "ratio of the means"
            column = replace(column, title=over if len(over) <= width else sides, meaning=f"{over}: {how}")
        if name in ("mean_before", "mean_after"):
            column = replace(column, title=name.removeprefix("mean_"))
        columns.append(replace(column, width=width, priority=priority, grow=grow, hidden=hidden))
    return replace(declared, columns=tuple(columns))


def screen_frame(name: str, frame: pl.DataFrame) -> pl.DataFrame:
    """Return the rows of a table with the columns that only the screen has; cells draw samples and intervals.

    Metrics that became worse come first, then other differences; within each the strongest evidence or, without enough runs,
    the largest change.
    """
    import polars as pl

    if "test" not in frame.columns:
        return frame
    if name == "metrics":
        different, effect = pl.col("verdict") == "different", pl.col("effect")
        place = pl.when(~different | pl.col("muted")).then(2).when(effect == "worse").then(0).otherwise(1)
        change = pl.col("ratio").log().abs()
        by = (place, pl.coalesce("evidence", change), change)
        frame = frame.sort(by, descending=[False, True, True], nulls_last=True, maintain_order=True)
        frame = frame.with_columns(pl.lit(" ").alias(name) for name in ("means", "samples", "interval"))
    return named(frame)
