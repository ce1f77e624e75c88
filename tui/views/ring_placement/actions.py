"""What keys do on the tab Ring placement."""

from __future__ import annotations

from tui.actions import Action, act

ACTIONS: tuple[Action, ...] = (
    act(
        "ring-placement.toggle-node",
        "space",
        "Take out",
        "What if the node under the cursor failed: let it fail (kill it), or bring it back.",
        bar=1,
    ),
    act(
        "ring-placement.toggle-zone",
        "Z",
        "Zone",
        "Let the whole zone of the node under the cursor fail, or bring it back.",
        bar=2,
    ),
    act(
        "ring-placement.regime",
        "A",
        "A/B/C",
        "Next moment of the failure: A not noticed yet, (U unhealthy,) B gone, C back.",
        bar=3,
    ),
    act(
        "ring-placement.clear",
        "x",
        "Clear what-if",
        "Clear the scenario: nothing fails, nothing is changed (u brings it back).",
        run="clear_what_if",
        bar=4,
    ),
    act(
        "ring-placement.what-if",
        "i",
        "What if",
        "Panel of what-if choices: who fails, nodes, tokens, limits, zone.",
        run="boxes.edit_what_if",
        bar=5,
    ),
    act(
        "ring-placement.sweep",
        "X",
        "Sweep",
        "Sweep nodes, zones, pairs, random sets, each one LEAVING; Enter opens a scenario, Esc stops.",
        bar=6,
    ),
    act(
        "ring-placement.explain",
        "E",
        "Explain",
        "Type a key (tenant/dataset or labels) and follow it to its node.",
        bar=7,
    ),
    act(
        "ring-placement.ring",
        "I",
        "Next input",
        "Show the next ring, where the files hold several; the scenario is cleared.",
    ),
    act(
        "ring-placement.toggle-leaving",
        "",
        "Leaving",
        "Mark the node under the cursor as LEAVING (a rolling restart), or unmark it.",
    ),
    act(
        "ring-placement.more",
        "plus equals_sign",
        "Raise",
        "What if the ring had one node more (scale up).",
        run="scale(1)",
    ),
    act(
        "ring-placement.fewer",
        "minus",
        "Lower",
        "What if the ring had one node fewer (scale down).",
        run="scale(-1)",
    ),
    act(
        "ring-placement.padded",
        "",
        "Padded IDs",
        "What if the ordinals in IDs were zero-padded, so that they sort by number.",
        run="next('scale_ids')",
    ),
    act("ring-placement.cascade", "", "Cascade", "Let nodes above their capacity fail too, until nothing changes."),
)
"""The tab's actions."""
