"""The shard map and the time axis: pictures of a ``Picture``."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, ClassVar

from tui.widgets.canvas import Canvas
from tui.widgets.fragments import Line, cells, cut, harmless, join

if TYPE_CHECKING:
    from engine.ring_placement.picture import Picture

SIGNS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
"""One sign per node, in ring order; colour only helps."""
COLOURS = 7
REJECTED, NOWHERE = "!", "-"


def sign(index: int) -> str:
    """The sign of node number ``index``."""
    return SIGNS[index % len(SIGNS)] if index >= 0 else REJECTED


def owner_style(index: int) -> str:
    """The colour of node number ``index``."""
    return f"owner-{index % COLOURS}"


def cells_of(picture: Picture) -> list[tuple[str, str]]:
    """Sign and style of each shard, those that no longer exist last.

    A shard that is stored where it was is in its owner's colour; one that is stored elsewhere shows the sign of who takes it
    now, reversed; one that nobody takes is critical; one without load whose owner is out is struck; one that is gone is a dash.
    """
    out: list[tuple[str, str]] = []
    for place, taker in enumerate(picture.stored_by):
        before = picture.owner_before[place] if place < len(picture.owner_before) else -1
        if taker == -2:
            out.append((sign(picture.owner_after[place]), "struck"))
        elif taker < 0:
            out.append((REJECTED, "critical"))
        elif taker != before and before >= 0:
            out.append((sign(taker), f"away-{taker % COLOURS}"))
        else:
            out.append((sign(taker), owner_style(taker)))
    out += [(NOWHERE, "dim")] * (len(picture.owner_before) - len(picture.stored_by))
    return out


def squeeze(parts: list[tuple[str, str]], room: int) -> list[tuple[str, str]]:
    """At most ``room`` cells: each stands for several shards and shows the worst of them."""
    if len(parts) <= room or room <= 0:
        return parts[: max(room, 0)]

    def badness(part: tuple[str, str]) -> int:
        return (
            3
            if part[1] == "critical"
            else 2
            if part[1].startswith("away")
            else 1
            if part[1] in ("dim", "struck")
            else 0
        )

    size = len(parts)
    return [
        max(parts[k * size // room : max((k + 1) * size // room, k * size // room + 1)], key=badness)
        for k in range(room)
    ]


class ShardMap(Canvas):
    """All shards in a strip (several lines where they do not fit one), and below the legend of the nodes that matter."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        *(f"ll--owner-{n}" for n in range(COLOURS)),
        *(f"ll--away-{n}" for n in range(COLOURS)),
        "ll--struck",
    }
    DEFAULT_CSS = """
    ShardMap { height: 3; padding: 0 1; }
    .-tall ShardMap { height: 5; }
    .-wide ShardMap { height: 7; }
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

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._picture: Picture | None = None

    def show(self, picture: Picture) -> None:
        """Draw another picture."""
        self._picture = picture
        self.repaint()

    def paint(self, width: int, height: int) -> list[Line]:
        """The strip, and the legend in the last line where there is room for it."""
        picture = self._picture
        if picture is None:
            return []
        parts = cells_of(picture)
        if not parts:
            return [[("no shards: no healthy member has tokens", "critical")]]
        rows = max(height - 1, 1)
        needed = -(-len(parts) // max(width, 1))
        shown = parts if needed <= rows else squeeze(parts, rows * width)
        lines: list[Line] = [join(shown[start : start + width]) for start in range(0, len(shown), max(width, 1))]
        if height > len(lines):
            lines.append(self._legend(picture, len(parts), len(shown), width))
        return lines

    def _legend(self, picture: Picture, total: int, shown: int, width: int) -> Line:
        each = "" if shown == total else f" (a cell stands for {total / shown:.1f})"
        line: Line = [(f"{total} shards{each}  ", "dim")]
        takers = Counter(
            taker
            for place, taker in enumerate(picture.stored_by)
            if place < len(picture.owner_before) and taker != picture.owner_before[place] and taker != -2
        )
        for index, node in enumerate(picture.nodes):
            if node.fate in ("down", "gone"):
                name = harmless(node.id)
                line += [(f"{sign(index)}", owner_style(index)), (" ", ""), (cut(name, 24), "struck"), ("  ", "")]
        if takers:
            line.append((f"{self.glyphs.arrow} ", "dim"))
        for taker, count in takers.most_common():
            if taker < 0:
                line += [(REJECTED, "critical"), (f" rejected {count}  ", "severe")]
            else:
                name = f" {cut(harmless(picture.nodes[taker].id), 24)}" if width >= 100 else ""
                line += [(sign(taker), owner_style(taker)), (f"{name} +{count}  ", "")]
        if len(line) == 1:
            line.append((f"{'a sign' if self.glyphs.ascii else 'sign and colour'} per owner, as in the table", "dim"))
        return line


class TimeAxis(Canvas):
    """The moments A, B and C of the failure with what each costs, and the steps of the scenario."""

    DEFAULT_CSS = "TimeAxis { height: 2; padding: 0 1; }"

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._picture: Picture | None = None
        self._steps: tuple[str, ...] = ()
        self._undo = 0

    def show(self, picture: Picture, steps: tuple[str, ...], undo: int) -> None:
        """Draw another picture; ``steps`` of the scenario as text, ``undo`` how many can be taken back."""
        self._picture, self._steps, self._undo = picture, steps, undo
        self.repaint()

    def paint(self, width: int, height: int) -> list[Line]:
        """Two lines."""
        from engine import units

        picture = self._picture
        if picture is None:
            return []
        known = {m.regime: m for m in picture.timeline}
        line: Line = []
        names = (
            ("transient", "A", "not noticed yet, <60 s"),
            ("left", "B", "gone, ring laid out anew"),
            ("returned", "C", "back"),
        )
        for regime, letter, when in names:
            chosen = regime == picture.regime
            moment = known.get(regime)
            text = f" {letter} "
            if moment is None:
                text += f"{when} "
            else:
                text += f"{units.text('ratio', moment.max_over_mean, 6)} max/mean"
                if moment.rejected_bytes:
                    text += f", {units.text('bytes_per_s', moment.rejected_bytes, 10)} rejected"
                elif moment.moved_bytes and width >= 100:
                    text += f", {units.text('bytes_per_s', moment.moved_bytes, 10)} moved"
                text += " "
            style = "cursor" if chosen else "dim" if not picture.down else ""
            line += [(text, style), ("  " if self.glyphs.ascii else f"{self.glyphs.line}{self.glyphs.line}", "dim")]
        second: Line = []
        if self._steps:
            undo = f" (u undoes, {self._undo} step{'s' if self._undo != 1 else ''}; 0 clears)" if self._undo else ""
            room = width - cells(undo)
            second = [
                (cut(f" {self.glyphs.separator} ".join(self._steps), room, self.glyphs.ellipsis), "moderate"),
                (undo, "dim"),
            ]
        else:
            second = [("nothing fails: Space lets the node under the cursor fail, z its zone", "dim")]
        return [line[:-1], second]
