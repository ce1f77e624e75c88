"""Drawings of rings with replicas: zones with their nodes, and the matrix of pairs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.core import units
from tui.widgets.drawing.canvas import Canvas
from tui.widgets.drawing.fragments import Fragment, Line, cells, cut, cut_left, harmless

if TYPE_CHECKING:
    from engine.ring_placement.result.detail import NodeBar, ShardMapView

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
"""Sign and style of a node by its fate, the worst last; without a sign of its own it has that of the table."""
SIGNS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
"""One sign per node, in ring order, as in the table of nodes."""

SHADES = ((0.2, "critical"), (0.05, "severe"), (0.01, "moderate"), (0.0, "low"))
"""Least share of all keys that a pair loses, and its style."""
DIGITS = ".123456789#"
"""Signs of a pair by what it loses, relative to the worst pair; the first one stands for nothing."""


def zone_lines(map_view: ShardMapView, width: int, height: int, ellipsis: str) -> list[Line]:
    """Draw a line of nodes for each zone, as many zones as there is room for; the worst zones first where not all fit."""
    zones: dict[str, list[tuple[int, NodeBar]]] = {}
    for number, node in enumerate(map_view.nodes):
        zones.setdefault(node.zone, []).append((number, node))
    names = sorted(zones)
    if not names:
        return [[("no members", "dim")]]
    if len(names) > height:
        hurt = sorted(names, key=lambda z: (-sum(is_bad(n) for _, n in zones[z]), z))
        names = sorted(hurt[: max(height - 1, 1)])
    label = min(max(cells(harmless(name or "no zone")) for name in names), max(width // 4, 8))
    lines = []
    for name in names:
        nodes = zones[name]
        bad = sum(is_bad(node) for _, node in nodes)
        tail = f" {len(nodes) - bad} of {len(nodes)} up"
        room = max(width - label - 1 - cells(tail), 1)
        text = cut(harmless(name or "no zone"), label, ellipsis)
        line: Line = [(f"{text:<{label}} ", "severe" if bad == len(nodes) else "")]
        line += _signs(nodes, room)
        line.append((tail, "severe" if bad else "dim"))
        lines.append(line)
    if len(zones) > len(names):
        lines.append([(f"and {len(zones) - len(names)} more zones", "dim")])
    return lines


def is_bad(node: NodeBar) -> bool:
    """Whether a node is not up."""
    return bool(FATES[node.fate][0])


def _signs(nodes: list[tuple[int, NodeBar]], room: int) -> list[Fragment]:
    """Return a sign for each node; where they do not fit, one stands for several and shows the worst."""
    count = min(len(nodes), room)
    out: list[Fragment] = []
    order = list(FATES)
    for k in range(count):
        group = nodes[k * len(nodes) // count : max((k + 1) * len(nodes) // count, k * len(nodes) // count + 1)]
        number, node = max(group, key=lambda each: order.index(each[1].fate))
        sign, style = FATES[node.fate]
        out.append((sign or SIGNS[number % len(SIGNS)], style))
    return out


class PairMatrix(Canvas, can_focus=True):
    """What each pair of nodes loses together, nodes by zone: digits relative to the worst pair, the diagonal a node alone."""

    SCOPED_CSS = False
    DEFAULT_CSS = "PairMatrix { height: 1fr; padding: 0 1; }"

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._map_view: ShardMapView | None = None

    def show(self, map_view: ShardMapView) -> None:
        """Draw the matrix of another result."""
        self._map_view = map_view
        self.repaint()

    def paint(self, width: int, height: int) -> list[Line]:
        """A legend, and a line per node or group of nodes."""
        view = self._map_view
        if view is None or not view.matrix:
            return [[("no pairs: the ring has fewer than two nodes", "dim")]]
        peak = max(max(row) for row in view.matrix)
        size = len(view.matrix)
        label = min(max(cells(harmless(name)) for name in view.matrix_nodes), max(width // 3, 10))
        step = max(-(-size // max(height - 2, 1)), -(-size // max(width - label - 1, 1)), 1)
        starts = range(0, size, step)
        worst = units.share(peak)
        each = len(view.nodes) / size * step
        group = f"; a cell stands for {each:.1f} nodes and shows the worst pair" if each > 1 else ""
        legend = (
            f"share of all keys that cannot be written when both nodes fail: # is {worst}, 5 half of it, . none{group}"
        )
        lines: list[Line] = [[(cut(legend, width, self.glyphs.ellipsis), "dim")]]
        if peak <= 0:
            return [*lines, [("no pair of nodes loses any key", "ok")]]
        for top in starts:
            name = cut_left(harmless(view.matrix_nodes[top]), label, self.glyphs.ellipsis)
            line: Line = [(f"{name:<{label}} ", "")]
            for left in starts:
                value = max(max(row[left : left + step]) for row in view.matrix[top : top + step])
                style = "dim" if value <= 0 else next(s for least, s in SHADES if value >= least)
                line.append((_digit(value, peak), style))
            lines.append(line)
        return lines[:height]


def _digit(value: float, peak: float) -> str:
    return DIGITS[0] if value <= 0 else DIGITS[max(1, min(round(value / peak * 10), 10))]
