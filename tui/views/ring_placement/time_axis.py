"""The time axis: the moments of a failure with what each costs, and the steps of the scenario."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.core import units
from tui.widgets.drawing.canvas import Canvas
from tui.widgets.drawing.fragments import Line, cells, cut

if TYPE_CHECKING:
    from engine.ring_placement.result.detail import RegimeTotals, ShardMapView

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
"""Moments of segment writers, and of rings with replicas: regime, letter, and what is so then."""


def moment_text(moment: RegimeTotals, width: int) -> str:
    """Describe what a moment costs on a ring with replicas; in few words where four moments have little room."""
    reads_ok = moment.reads_ok and not moment.tenants_read_lost
    if width < 110 and reads_ok and not moment.write_lost_share and not moment.tenants_write_lost:
        return "ok"
    if moment.write_lost_share or moment.tenants_write_lost:
        lost = units.share(moment.write_lost_share)
        text = f"{lost} keys lost" if width >= 110 else f"{lost} lost"
    else:
        text = "writes ok"
    if moment.tenants_read_lost:
        plural = "s" if moment.tenants_read_lost > 1 else ""
        text += f", {moment.tenants_read_lost} tenant{plural} no reads" if width >= 140 else ", reads fail"
    elif not moment.reads_ok:
        text += ", reads without a shard fail" if width >= 140 else ", reads fail"
    else:
        text += ", reads ok"
    return text


class TimeAxis(Canvas):
    """The moments A, B and C of the failure with what each costs, and the steps of the scenario."""

    DEFAULT_CSS = "TimeAxis { height: 2; padding: 0 1; }"

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._map_view: ShardMapView | None = None
        self._steps: tuple[str, ...] = ()
        self._undo = 0
        self._clears = False

    def show(self, map_view: ShardMapView, steps: tuple[str, ...], undo: int, clears: bool) -> None:
        """Draw another result: ``steps`` of the scenario as text, ``undo`` how many can be taken back, ``clears``
        whether there is anything that clearing takes away."""
        self._map_view, self._steps, self._undo, self._clears = map_view, steps, undo, clears
        self.repaint()

    def paint(self, width: int, height: int) -> list[Line]:
        """Two lines."""
        from engine.core import units

        map_view = self._map_view
        if map_view is None:
            return []
        totals = {m.regime: m for m in map_view.timeline}
        line: Line = []
        if map_view.kind == "":
            return [[("this ring is not placed: its notes say why", "severe")]]
        names = MOMENTS if map_view.kind == "segment-writer" else RING_MOMENTS
        for regime, letter, when in names:
            chosen = regime == map_view.regime
            moment = totals.get(regime)
            text = f" {letter} "
            if moment is None:
                text += f"{when} "
            elif map_view.kind != "segment-writer":
                text += f"{moment_text(moment, width)} "
            else:
                text += f"{units.text('ratio', moment.max_over_mean, 6)} max/mean"
                if moment.rejected_bytes:
                    text += f", {units.text('bytes_per_s', moment.rejected_bytes, 10)} rejected"
                elif moment.moved_bytes and width >= 100:
                    text += f", {units.text('bytes_per_s', moment.moved_bytes, 10)} moved"
                text += " "
            style = "cursor" if chosen else "dim" if not map_view.down else ""
            line += [(text, style), ("  " if self.glyphs.ascii else f"{self.glyphs.line}{self.glyphs.line}", "dim")]
        second: Line = []
        if self._steps:
            clears = "; 9 clears" if self._clears else ""
            undo = f" (u undoes, {self._undo} step{'s' if self._undo != 1 else ''}{clears})" if self._undo else ""
            room = width - cells(undo)
            second = [
                (cut(f" {self.glyphs.separator} ".join(self._steps), room, self.glyphs.ellipsis), "moderate"),
                (undo, "dim"),
            ]
        else:
            second = [("nothing fails: Space lets the node under the cursor fail, Z its zone", "dim")]
        return [line[:-1], second]
