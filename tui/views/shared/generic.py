"""The tab of a view that has no pane of its own, and the choice between the two."""

from __future__ import annotations

import importlib
import logging
from typing import TYPE_CHECKING

from textual.app import ComposeResult

from tui.views.shared.pane import ViewPane
from tui.widgets.sections import Sections
from tui.widgets.table.table import LiveTable

if TYPE_CHECKING:
    from engine.core.result import Result
    from engine.views import Entry

log = logging.getLogger("loadlens.pane")


class GenericPane(ViewPane):
    """The tab of a view without a pane of its own: every result table in a section."""

    def compose_view(self) -> ComposeResult:
        """Yield a section per table."""
        tables = self.view.tables if self.view is not None else ()
        sections = Sections(id="tables")
        for table in tables:
            sections.add(
                table.title or table.name.replace("_", " "),
                LiveTable(table, name=f"{self.entry.name}/{table.name}", id=_widget_id(table.name)),
            )
        yield sections

    def show(self, result: Result) -> None:
        """Draw every table; one that the result does not have is empty."""
        for table in self.view.tables if self.view is not None else ():
            self.show_table(f"#{_widget_id(table.name)}", result, table.name)


def _widget_id(table: str) -> str:
    """Return the id of the widget that shows ``table``."""
    return f"table-{table.replace('_', '-')}"


def make_pane(entry: Entry, *, id: str | None = None) -> ViewPane:
    """Return the pane of a view: ``tui.views.<view>.pane:Pane`` if that module exists, else a generic one.

    A pane that cannot be imported is a bug of that view only: it is logged and a generic pane takes its place.
    """
    module = f"tui.views.{entry.name.replace('-', '_')}.pane"
    try:
        pane: type[ViewPane] = importlib.import_module(module).Pane
        return pane(entry, id=id)
    except ModuleNotFoundError as error:
        if error.name is None or not module.startswith(error.name):
            log.exception("pane %s cannot be imported", module)
    except Exception:
        log.exception("pane %s cannot be imported", module)
    return GenericPane(entry, id=id)
