"""What the operator chose for each table: sort and columns are remembered between runs, filters within one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tui.widgets.table.window import Choice

if TYPE_CHECKING:
    from engine.settings import State


class TableChoices:
    """The choices of all tables, by table name (``view/table``)."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._filters: dict[str, str] = {}

    def get(self, table: str) -> Choice:
        """Return the choice for ``table``; the declared order and columns if there is none."""
        saved = self._state.get("tables", table, default=None)
        text = self._filters.get(table, "")
        if not isinstance(saved, dict):
            return Choice(filter=text)
        columns = saved.get("columns")
        return Choice(
            sort=str(saved.get("sort", "")),
            descending=bool(saved.get("descending", False)),
            filter=text,
            columns=tuple(str(c) for c in columns) if isinstance(columns, list) and columns else None,
        )

    def set(self, table: str, choice: Choice) -> None:
        """Remember ``choice``; its filter only within this run, since a next run would hide rows without a word."""
        self._filters[table] = choice.filter
        value: dict[str, Any] = {"sort": choice.sort, "descending": choice.descending}
        if choice.columns is not None:
            value["columns"] = list(choice.columns)
        self._state.set("tables", table, value=value if choice != Choice(filter=choice.filter) else None)
