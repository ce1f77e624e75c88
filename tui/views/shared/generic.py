"""The tab of a view that has no pane of its own, and the choice between the two."""

from __future__ import annotations

import importlib
import logging
from typing import TYPE_CHECKING

from tui.views.shared.pane import ViewPane
from tui.views.shared.sections import Section, TableOf

if TYPE_CHECKING:
    from engine.views import Entry

log = logging.getLogger("loadlens.pane")


class GenericPane(ViewPane):
    """The tab of a view without a pane of its own: every result table in a section."""

    SECTIONS = "tables"

    def sections(self) -> tuple[Section, ...]:
        """Return a section per table; a table that a result does not have is empty."""
        return tuple(
            Section(
                table.title or table.name.replace("_", " "),
                TableOf(table=table.name, id=f"table-{table.name.replace('_', '-')}"),
            )
            for table in (self.view.tables if self.view is not None else ())
        )


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
