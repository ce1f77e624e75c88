"""What keys do in the broker load tab."""

from __future__ import annotations

from tui.actions import Action

SCOPE = "broker-load"

ACTIONS: tuple[Action, ...] = (
    Action("broker-load.mode", ("m",), "Mode", "Loads as Cruise Control computes them, corrected to what was measured, or from "
           "the regression.", SCOPE, run="next('mode')", bar=14),
    Action("broker-load.kill", ("space",), "Kill", "Let the broker or rack under the cursor die, or bring it back; the section "
           "'what if' shows who takes over.", SCOPE, bar=11),
    Action("broker-load.group", ("b",), "Group by", "Show brokers, hosts or racks.", SCOPE, bar=22),
    Action("broker-load.demote", ("i",), "Demote", "Take the leadership from the broker under the cursor, or give it back.",
           SCOPE, bar=24),
    Action("broker-load.plan", ("v",), "Apply plan", "Apply the reassignment found among the files, or drop it.", SCOPE,
           run="next('apply_plan')"),
    Action("broker-load.weights", ("w",), "Weights", "Split CPU by the static weights a, b, c or by the fitted ones.", SCOPE,
           run="next('weights')", bar=26),
    Action("broker-load.add", ("a",), "Add broker", "Add one broker of the typical capacity (bounds only).", SCOPE),
    Action("broker-load.page", ("y",), "Next table", "Rolling restart by CPU, network out or leaders; in the what-if: the next "
           "of its tables.", SCOPE),
    Action("broker-load.clear", ("x",), "Clear what-if", "Bring back all brokers, leaders and replicas.", SCOPE,
           run="clear_what_if"),
)  # fmt: skip
