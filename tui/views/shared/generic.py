"""The tab of a view that has no pane of its own, and the choice between the two."""

from __future__ import annotations

import importlib
import logging
from typing import TYPE_CHECKING

from tui.views.shared.pane import ViewPane
from tui.views.shared.sections import Level, Section, TableOf

if TYPE_CHECKING:
    from engine.views import Entry

log = logging.getLogger("loadlens.pane")


class Tables(Level):
    """Every result table of the view in a section; a table that a result does not have is empty."""

    NAME = "tables"

    def sections(self) -> tuple[Section, ...]:
        """Return a section per table."""
        return tuple(
            Section(
                table.title or table.name.replace("_", " "),
                TableOf(table=table.name, id=f"table-{table.name.replace('_', '-')}"),
            )
            for table in (self.pane.view.tables if self.pane.view is not None else ())
        )


class GenericPane(ViewPane):
    """The tab of a view without a pane of its own."""

    ROOT = Tables


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
