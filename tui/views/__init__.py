"""The tabs, one package per view, and how to write one.

A tab is a ``ViewPane`` (``tui/views/base.py``). It is made when the tab is first shown, given parameters and results, and
asked to draw; a pane only lays out widgets and draws. **A view without a pane of its own gets ``GenericPane``** (every
result table in its own section), so a new engine view is usable at once.

To write the pane of view ``my-view``::

    tui/views/my_view/__init__.py   a docstring
    tui/views/my_view/actions.py    ACTIONS: tuple[Action, ...], pure data (no Textual, no Polars)
    tui/views/my_view/pane.py       class Pane(ViewPane)

``actions.py``::

    from tui.actions import Action

    ACTIONS = (
        Action(
            "my-view.toggle-node", ("space",), "Toggle", "Switch the node under the cursor off or on.", "my-view", bar=1
        ),
    )

``pane.py``::

    from tui.actions import bindings
    from tui.views.base import DetailPanel, Level, ViewPane
    from tui.widgets.facts import Facts
    from tui.widgets.table.table import LiveTable


    class Pane(ViewPane):
        VIEW = "my-view"
        BINDINGS: ClassVar[list[BindingType]] = [*bindings("my-view")]  # adds to those of every pane

        def compose_view(self) -> ComposeResult:  # once, when the first result is there
            with Horizontal():
                yield LiveTable(name="my-view/nodes", id="nodes", renderers={"load": load_bar})
                with DetailPanel():  # beside the table; an overlay (key d) below 100 columns
                    yield Facts(id="facts")

        def show(self, result: Result) -> None:  # for every new result, on the event loop: be quick
            self.show_table("#nodes", result, "nodes")
            self.refresh_detail()

        @on(LiveTable.Highlighted, "#nodes")
        def refresh_detail(self) -> None:
            row = self.query_one("#nodes", LiveTable).row
            self.query_one(Facts).show([("node", row["node"], "")] if row else [])

        @on(LiveTable.Selected, "#nodes")
        async def open_node(self, event: LiveTable.Selected) -> None:
            await self.drill(NodeLevel(event.key))  # a Level: covers the pane, Escape comes back

        def action_toggle_node(self) -> None:
            row = self.query_one("#nodes", LiveTable).row
            if row:
                self.change(fail=(*self.parameters.fail, row["node"]))  # u undoes

Rules:

* Module level imports nothing that imports Polars, NumPy or SciPy (``engine.result``, ``engine.tables``, an engine view ...):
  import those under ``TYPE_CHECKING`` or inside functions. A test starts the program and looks.
* No arithmetic on data: what you show is in ``Result.tables``, ``.summary``, ``.headline`` or ``.detail``. If a number is
  missing, the engine's view should give it.
* Parameters are the only state of a simulation: ``change(field=value)`` validates, pushes undo and asks for a result.
  ``self.parameters`` is None until the view is loaded.
* Tables are named ``view/table``: sort, filter and columns are remembered by that name.
* Use the widgets of ``tui.widgets`` for everything that shows data: they clean text and send only what changed.
  Use ``Static`` and ``Label`` for constant text only, with ``markup=False``.
* Classes on the screen: ``-narrow`` (< 100 columns), ``-normal``, ``-wide`` (>= 160), ``-tiny`` (< 16 rows), ``-short``,
  ``-tall`` (>= 30 rows). Style a pane in its ``DEFAULT_CSS`` with them: ``.-narrow MyLevel { ... }``.
* Keys that the shared scopes use are in ``tui/actions.py``. Inner scopes win: table, then view, then every tab, then app. The
  keys ``space y z m x w v b t a i + - = 0 6-9`` are free for views.
"""
