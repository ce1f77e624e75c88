"""The drawings of the ring placement tab: the time axis, the shard map, zones with their nodes, the matrix of pairs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, ClassVar, TypeVar

from textual import events, on

from engine.core import units
from tui.widgets.drawing.canvas import Canvas
from tui.widgets.drawing.fragments import Fragment, Line, cells, cut, cut_left, cut_middle, harmless, join, wrap

if TYPE_CHECKING:
    from engine.ring_placement.result.detail import NodeBar, RegimeTotals, ShardMapView
    from tui.glyphs import Glyphs

T = TypeVar("T")
COLOURS = 7
REJECTED, NOWHERE = "!", "-"
LOST_NAMES, LOST_SIGNS = 2, 12  # most failed nodes that the legend names, and most whose signs it shows


def sign(index: int) -> str:
    """Return the sign of node number ``index``."""
    return SIGNS[index % len(SIGNS)] if index >= 0 else REJECTED


def flow_rate(map_view: ShardMapView, load: float) -> str:
    """Return a load that moves in the unit of the largest change of a node, as the table of nodes does."""
    changes: Counter[int] = Counter()
    for lost, taker, moved in map_view.flows:
        changes.update({lost: -moved, taker: moved})
    return units.aligned("bytes_per_s", load, max(map(abs, changes.values()), default=0.0)) or units.text(
        "bytes_per_s", load, 11
    )


def owner_style(index: int) -> str:
    """Return the colour of node number ``index``."""
    return f"owner-{index % COLOURS}"


def cells_of(map_view: ShardMapView) -> list[tuple[str, str]]:
    """Return sign and style of each shard, those that no longer exist last.

    A shard that is stored where it was is in its owner's colour; one that is stored elsewhere shows the sign of its taker,
    reversed; one that is rejected is critical; one without load whose owner is out is struck; one that is gone is a dash.
    """
    out: list[tuple[str, str]] = []
    for place, taker in enumerate(map_view.stored_by):
        before = map_view.owner_before[place] if place < len(map_view.owner_before) else -1
        if taker == -2:
            out.append((sign(map_view.owner_after[place]), "struck"))
        elif taker < 0:
            out.append((REJECTED, "critical"))
        elif taker != before and before >= 0:
            out.append((sign(taker), f"away-{taker % COLOURS}"))
        else:
            out.append((sign(taker), owner_style(taker)))
    out += [(NOWHERE, "dim")] * (len(map_view.owner_before) - len(map_view.stored_by))
    return out


def squeeze(parts: list[tuple[str, str]], room: int) -> list[tuple[str, str]]:
    """Shorten ``parts`` to ``room`` cells: each stands for several shards and shows the worst of them."""
    if len(parts) <= room or room <= 0:
        return parts[: max(room, 0)]

    def badness(part: tuple[str, str]) -> int:
        return {"critical": 3, "dim": 1, "struck": 1}.get(part[1], 2 * part[1].startswith("away"))

    return [max(group, key=badness) for group in grouped(parts, room)]


def grouped(items: Sequence[T], room: int) -> Iterator[Sequence[T]]:
    """Yield ``items`` in ``room`` groups of about equal size, none of which is empty."""
    for k in range(room):
        start = k * len(items) // room
        yield items[start : max((k + 1) * len(items) // room, start + 1)]


def arranged(total: int, width: int, rows: int) -> list[tuple[int, int, bool]]:
    """Arrange ``total`` shards in ``rows`` lines of ``width`` cells.

    Returns for each line its first shard (0-based), their number, and whether each is shown with its ID.
    """
    digits = len(str(total))
    per = max(width // (digits + 2), 1)
    numbered = total <= per * rows
    if not numbered:
        per = max(width, 1)
        if total > per:
            # Each line begins with an ID; if that is not enough, a cell stands for several shards.
            per = max(width - digits - 1, -(-total // rows), 1)
    return [(start, min(per, total - start), numbered) for start in range(0, total, per)]


class ShardMap(Canvas):
    """All shards, and below the legend of the nodes that matter. A grid with shard IDs if that fits, else a strip of signs in
    one line or several (each begins with an ID). As tall as needed, within what the screen can spare."""

    SCOPED_CSS = False

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        *(f"ll--owner-{n}" for n in range(COLOURS)),
        *(f"ll--away-{n}" for n in range(COLOURS)),
        "ll--struck",
    }
    DEFAULT_CSS = """
    ShardMap { height: 2; padding: 0 1; }
    .-tiny ShardMap { height: 1; }
    ShardMap > .ll--owner-0 { color: $text-primary; }
    ShardMap > .ll--owner-1 { color: $text-success; }
    ShardMap > .ll--owner-2 { color: $text-accent; }
    ShardMap > .ll--owner-3 { color: $foreground; }
    ShardMap > .ll--owner-4 { color: $text-secondary; }
    ShardMap > .ll--owner-5 { color: $text-warning; }
    ShardMap > .ll--owner-6 { color: $text-muted; }
    ShardMap > .ll--away-0 { color: $text-primary; text-style: bold reverse; }
    ShardMap > .ll--away-1 { color: $text-success; text-style: bold reverse; }
    ShardMap > .ll--away-2 { color: $text-accent; text-style: bold reverse; }
    ShardMap > .ll--away-3 { color: $foreground; text-style: bold reverse; }
    ShardMap > .ll--away-4 { color: $text-secondary; text-style: bold reverse; }
    ShardMap > .ll--away-5 { color: $text-warning; text-style: bold reverse; }
    ShardMap > .ll--away-6 { color: $text-muted; text-style: bold reverse; }
    ShardMap > .ll--struck { color: $text-error; text-style: strike; }
    """

    shown: ShardMapView | None = None

    def repaint(self) -> None:
        """Draw the shards again, in the lines that they need."""
        self._fit()
        super().repaint()

    @on(events.Resize)
    def _fit(self) -> None:
        """Take the height that the shards need and the screen spares; another one is a new layout."""
        if self.shown is None or not self.is_attached or self.screen.has_class("-tiny"):
            return
        width = self.size.width or self.app.size.width - 2
        if self.shown.kind == "segment-writer":
            height = (
                len(arranged(max(len(self.shown.stored_by), len(self.shown.owner_before)), width, self._spare())) + 1
            )
        else:
            height = max(min(len({node.zone for node in self.shown.nodes}), self._spare() + 1), 1)
        self.styles.height = height

    def _spare(self) -> int:
        """Lines of shards that the screen can spare."""
        return (8 if self.screen.has_class("-wide") else 5) if self.screen.has_class("-tall") else 2

    def paint(self, width: int, height: int) -> list[Line]:
        """The shards, and the legend in the last line where there is room for it."""
        map_view = self.shown
        if map_view is None:
            return []
        if map_view.kind != "segment-writer":
            return zone_lines(map_view, width, height, self.glyphs.ellipsis)
        parts = cells_of(map_view)
        if not parts:
            no_token = ("no shards: no healthy member has tokens", "critical")
            return [[no_token if map_view.has_ring else ("no ring among the files", "dim")]]
        places = arranged(len(parts), width, max(height - 1, 1))
        digits = len(str(len(parts)))
        lines: list[Line] = []
        shown = 0
        for start, count, numbered in places:
            line: Line = [(f"{start + 1:>{digits}} ", "dim")] if len(places) > 1 and not numbered else []
            room = width - (digits + 1 if line else 0)
            if numbered:
                for place in range(start, start + count):
                    line += [(f"{place + 1:>{digits}}", "dim"), parts[place], (" ", "")]
            else:
                line += join(squeeze(parts[start : start + count], room))
            shown += count if numbered else min(count, room)
            lines.append(line)
        if height > len(lines):
            lines.append(self._legend(map_view, len(parts), shown, width))
        return lines

    def _node_name(self, node: str) -> str:
        return cut_middle(harmless(node), 24, self.glyphs.ellipsis)

    def _legend(self, map_view: ShardMapView, total: int, shown: int, width: int) -> Line:
        each = "" if shown == total else f" (a cell stands for {total / shown:.1f})"
        line: Line = [(f"{units.plural(total, 'shard')}{each}  ", "dim")]
        takers: dict[int, float] = {}
        for _, taker, load in map_view.flows:
            takers[taker] = takers.get(taker, 0.0) + load
        lost = [index for index, node in enumerate(map_view.nodes) if node.fate in ("down", "gone", "leaving")]
        for index in lost[:LOST_SIGNS]:
            line.append((sign(index), owner_style(index)))
            if len(lost) <= LOST_NAMES:
                line += [(" ", ""), (self._node_name(map_view.nodes[index].id), "struck")]
            line.append(("  " if len(lost) <= LOST_NAMES else " ", ""))
        if len(lost) > LOST_SIGNS:
            line.append((f"and {len(lost) - LOST_SIGNS} more ", "dim"))
        if takers:
            line.append((f"{self.glyphs.arrow} ", "dim"))
        for taker, load in sorted(takers.items(), key=lambda entry: (entry[0] >= 0, -entry[1], entry[0])):
            rate = flow_rate(map_view, load)
            if taker < 0:
                line += [(REJECTED, "critical"), (f" rejected {rate}  ", "severe")]
            else:
                name = f" {self._node_name(map_view.nodes[taker].id)}" if width >= 100 else ""
                line += [(sign(taker), owner_style(taker)), (f"{name} +{rate}  ", "")]
        if len(line) == 1:
            line.append((f"{'a sign' if self.glyphs.ascii else 'sign and colour'} per owner, as in the table", "dim"))
        return line


# -- rings with replicas ------------------------------------------------------------------------------------------------

FATES = {
    "": ("", "ok"),
    "new": ("", "key"),
    "back": ("", "key"),
    "over": ("", "critical"),
    "leaving": ("v", "moderate"),
    "unhealthy": ("!", "severe"),
    "gone": ("x", "severe"),
    "down": ("x", "critical"),
}
"""Sign and style of a node by its fate, the worst last; an empty sign means its sign in the table."""
SIGNS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
"""One sign per node, in ring order, as in the table of nodes."""

SHADES = ((0.2, "critical"), (0.05, "severe"), (0.01, "moderate"), (0.0, "low"))
"""Least share of all keys that a pair loses, and its style."""
DIGITS = ".123456789#"
"""Signs for the loss of a pair, relative to the worst pair; the first sign means no loss."""


def zone_lines(map_view: ShardMapView, width: int, height: int, ellipsis: str) -> list[Line]:
    """Draw a line of nodes for each zone, as many zones as there is room for; the worst zones first where not all fit."""
    zones: dict[str, list[tuple[int, NodeBar]]] = {}
    for number, node in enumerate(map_view.nodes):
        zones.setdefault(node.zone, []).append((number, node))
    names = sorted(zones)
    if not names:
        return [[("no members", "dim")]]
    if len(names) > height:
        names = sorted(sorted(names, key=lambda z: (-sum(is_bad(n) for _, n in zones[z]), z))[: max(height - 1, 1)])
    label = min(max(cells(harmless(name or "no zone")) for name in names), max(width // 4, 8))
    lines = []
    for name in names:
        nodes = zones[name]
        bad = sum(is_bad(node) for _, node in nodes)
        tail = f" {len(nodes) - bad} of {len(nodes)} up"
        room = max(width - label - 1 - cells(tail), 1)
        text = cut(harmless(name or "no zone"), label, ellipsis)
        start = (f"{text:<{label}} ", "severe" if bad == len(nodes) else "")
        lines.append([start, *_signs(nodes, room), (tail, "severe" if bad else "dim")])
    if len(zones) > len(names):
        lines.append([(f"and {units.plural(len(zones) - len(names), 'more zone')}", "dim")])
    return lines


def is_bad(node: NodeBar) -> bool:
    """Whether a node is not up."""
    return bool(FATES[node.fate][0])


def _signs(nodes: list[tuple[int, NodeBar]], room: int) -> list[Fragment]:
    """Return a sign for each node; where they do not fit, one stands for several and shows the worst."""
    order = list(FATES)
    worst = (max(group, key=lambda each: order.index(each[1].fate)) for group in grouped(nodes, min(len(nodes), room)))
    return [(FATES[node.fate][0] or sign(number), FATES[node.fate][1]) for number, node in worst]


def pair_lines(view: ShardMapView, width: int, height: int, glyphs: Glyphs) -> list[Line]:
    """Draw what each pair of nodes loses together, nodes by zone: digits relative to the worst pair, the diagonal a node alone.

    A legend, then a line per node or group of nodes.
    """
    if not view.matrix:
        return [[("no pairs: the ring has fewer than two nodes", "dim")]]
    peak = max(max(row) for row in view.matrix)
    size = len(view.matrix)
    label = min(max(cells(harmless(name)) for name in view.matrix_nodes), max(width // 3, 10))
    step = max(-(-size // max(height - 2, 1)), -(-size // max(width - label - 1, 1)), 1)
    starts = range(0, size, step)
    each = len(view.nodes) / size * step
    group = f"; a cell stands for {each:.1f} nodes and shows the worst pair" if each > 1 else ""
    legend = (
        "share of all keys that cannot be written when both nodes fail: "
        f"# is {units.share(peak)}, 5 half of it, . none{group}"
    )
    lines: list[Line] = [[(cut(legend, width, glyphs.ellipsis), "dim")]]
    if peak <= 0:
        return [*lines, [("no pair of nodes loses any key", "ok")]]
    for top in starts:
        name = cut_left(harmless(view.matrix_nodes[top]), label, glyphs.ellipsis)
        line: Line = [(f"{name:<{label}} ", "")]
        for left in starts:
            value = max(max(row[left : left + step]) for row in view.matrix[top : top + step])
            style = "dim" if value <= 0 else next(s for least, s in SHADES if value >= least)
            line.append(((DIGITS[0] if value <= 0 else DIGITS[max(1, min(round(value / peak * 10), 10))]), style))
        lines.append(line)
    return lines


# -- the time axis ------------------------------------------------------------------------------------------------------

MOMENTS = (
    ("transient", "A", "not noticed yet, <60 s"),
    ("left", "B", "gone, shards reassigned"),
    ("returned", "C", "back"),
)
RING_MOMENTS = (
    ("transient", "A", "errors, <60 s"),
    ("unhealthy", "U", "unhealthy, registered"),
    ("left", "B", "gone or forgotten"),
    ("returned", "C", "back"),
)
"""Moments for segment writers and for rings with replicas: regime, letter, situation."""


def _replica_moment(moment: RegimeTotals, width: int) -> str:
    """Describe what a moment costs on a ring with replicas; in few words where four moments have little room."""
    lost = f"{units.share(moment.write_lost_share)}{' keys' * (width >= 110)} lost"
    writes = lost if moment.write_lost_share or moment.tenants_write_lost else "writes ok"
    tenants = moment.tenants_read_lost
    if not tenants and moment.reads_ok:
        return "ok" if width < 110 and writes == "writes ok" else f"{writes}, reads ok"
    if width < 140:
        return f"{writes}, reads fail"
    plural = "s" if tenants > 1 else ""
    return f"{writes}, " + (f"{tenants} tenant{plural} no reads" if tenants else "reads without a shard fail")


def _segment_moment(moment: RegimeTotals, width: int) -> str:
    text = f"{units.text('ratio', moment.max_over_mean, 6)} max/mean"
    if moment.rejected_bytes:
        return f"{text}, {units.text('bytes_per_s', moment.rejected_bytes, 10)} rejected"
    return (
        text + f", {units.text('bytes_per_s', moment.moved_bytes, 10)} moved"
        if moment.moved_bytes and width >= 100
        else text
    )


def time_lines(
    map_view: ShardMapView, steps: tuple[str, ...], undo: str, width: int, height: int, glyphs: Glyphs
) -> list[Line]:
    """Draw the moments A, B and C of the failure with what each costs; below them the ``steps`` of the scenario and how they
    are undone."""
    if map_view.kind == "":
        return [[("this ring is not placed: its notes say why", "severe")]]
    if not map_view.has_ring:
        told = "without a ring nothing can be placed: save the answer of curl http://…/ring here, or a memberlist key"
        return [[(part, "moderate")] for part in wrap(told, width)]
    segments = map_view.kind == "segment-writer"
    describe = _segment_moment if segments else _replica_moment
    totals = {m.regime: m for m in map_view.timeline}
    line: Line = []
    for regime, letter, when in MOMENTS if segments else RING_MOMENTS:
        text = describe(totals[regime], width) if regime in totals else when
        style = "cursor" if regime == map_view.regime else "dim" if not map_view.down else ""
        line += [(f" {letter} {text} ", style), ("  " if glyphs.ascii else glyphs.line * 2, "dim")]
    if not steps:
        return [line[:-1], [("nothing fails: Space lets the node under the cursor fail, Z its zone", "dim")]]
    text = cut(f" {glyphs.separator} ".join(steps), width - cells(undo), glyphs.ellipsis)
    return [line[:-1], [(text, "moderate"), (undo, "dim")]]
