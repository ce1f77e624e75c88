"""A tree in lines: nodes with children that open and close. Also right for a stack of what-if steps (all leaves)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from textual.binding import Binding, BindingType

from tui.widgets.fragments import Fragment, Line
from tui.widgets.pick import PickList


@dataclass(frozen=True)
class Node:
    """One line of a tree: a ``key`` that is unique in it, what to show, children."""

    key: Any
    line: Sequence[Fragment]
    children: tuple[Node, ...] = field(default=())


class TreeList(PickList):
    """Nodes with a cursor. Right/l opens, left/h closes (or goes to the parent), Space switches; Enter posts ``Picked``
    (``key_at(index)`` tells the node). What is open survives ``show_tree``."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("right,l", "unfold(1)", show=False),
        Binding("left,h", "unfold(0)", show=False),
        Binding("space", "unfold(2)", show=False),
    ]

    def __init__(self, nodes: Sequence[Node] = (), *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self.nodes: tuple[Node, ...] = tuple(nodes)
        self.open: set[Any] = set()
        self._rows: list[tuple[Node, int]] = []

    def on_mount(self) -> None:
        """Show what was given."""
        self._fill()

    def show_tree(self, nodes: Sequence[Node]) -> None:
        """Show other nodes; the cursor stays on its node if that is still there."""
        key = self.key_at(self.cursor)
        self.nodes = tuple(nodes)
        self._fill()
        for index, (node, _) in enumerate(self._rows):
            if node.key == key:
                self.move(index)
                break

    def key_at(self, index: int) -> Any:
        """The key of the node on line ``index``, None outside."""
        return self._rows[index][0].key if 0 <= index < len(self._rows) else None

    def _fill(self) -> None:
        rows: list[tuple[Node, int]] = []

        def walk(nodes: Sequence[Node], depth: int) -> None:
            for node in nodes:
                rows.append((node, depth))
                if node.key in self.open:
                    walk(node.children, depth + 1)

        walk(self.nodes, 0)
        self._rows = rows
        lines: list[Line] = []
        for node, depth in rows:
            sign = ("- " if node.key in self.open else "+ ") if node.children else "  "
            lines.append([("  " * depth + sign, "dim"), *node.line])
        self.show(lines)

    def action_unfold(self, how: int) -> None:
        """Open (1), close (0) or switch (2) the node under the cursor."""
        if not self._rows:
            return
        node, depth = self._rows[self.cursor]
        if how == 2:
            how = 0 if node.key in self.open else 1
        if how and node.children:
            self.open.add(node.key)
        elif not how and node.key in self.open:
            self.open.discard(node.key)
        elif not how:
            parents = [index for index in range(self.cursor) if self._rows[index][1] == depth - 1]
            if parents:
                self.move(parents[-1])
            return
        self._fill()
