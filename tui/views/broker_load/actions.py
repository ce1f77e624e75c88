"""What keys do in the broker load tab."""

from __future__ import annotations

from tui.actions import Action, act

ACTIONS: tuple[Action, ...] = (
    act("broker-load.mode", "m", "Mode", "Loads as Cruise Control computes them, corrected to what was measured, or from "
           "the regression.", run="next('mode')", bar=14),
    act("broker-load.kill", "space", "Kill", "Let the broker or rack under the cursor die, or bring it back; the section "
           "'what if' shows who takes over.", bar=11),
    act("broker-load.group", "b", "Group by", "Show brokers, hosts or racks.", bar=22),
    act("broker-load.demote", "i", "Demote", "Take the leadership from the broker under the cursor, or give it back.",
           bar=24),
    act("broker-load.plan", "v", "Apply plan", "Apply the reassignment found among the files, or drop it.",
           run="next('apply_plan')"),
    act("broker-load.weights", "w", "Weights", "Split CPU by the static weights a, b, c or by the fitted ones.",
           run="next('weights')", bar=26),
    act("broker-load.add", "a", "Add broker", "Add one broker of the typical capacity (bounds only)."),
    act("broker-load.page", "y", "Next table", "Rolling restart by CPU, network out or leaders; in the what-if: the next "
           "of its tables."),
    act("broker-load.clear", "x", "Clear what-if", "Bring back all brokers, leaders and replicas.",
           run="clear_what_if"),
)  # fmt: skip
