"""What keys do in the broker load tab."""

from __future__ import annotations

from tui.actions import Action, act

ACTIONS: tuple[Action, ...] = (
    act("broker-load.mode", "m", "Mode", "Loads as Cruise Control computes them, corrected to what was measured, or from "
           "the regression.", run="next('mode')", bar=14),
    act("broker-load.kill", "space", "Take out", "What if the broker or rack under the cursor died: kill it, or bring it "
           "back; in the section plan: reject the step under the cursor, leave its partition alone and plan again.", bar=11),
    act("broker-load.group", "b", "Group by", "Show brokers, hosts or racks.", bar=22),
    act("broker-load.demote", "M", "Demote", "Take the leadership from the broker under the cursor, or give it back.",
           run="flip('demote')", bar=24),
    act("broker-load.plan", "", "Apply plan", "Apply the reassignment found among the files, or drop it.",
           run="next('apply_plan')"),
    act("broker-load.weights", "", "Weights", "Split CPU by the static weights a, b, c or by the fitted ones.",
           run="next('weights')"),
    act("broker-load.write", "w", "Write", "Write the files of the plan into a folder.", bar=26),
    act("broker-load.cut", "", "Cut the plan here", "In the section plan: end the plan at the cursor; again: the whole plan."),
    act("broker-load.add", "a", "Add broker", "Add one broker of the typical capacity (bounds only); in the section plan: "
           "plan with brokers of your choice."),
    act("broker-load.page", "y", "Next table", "Rolling restart by CPU, network out or leaders; in the what-if: the next "
           "of its tables."),
    act("broker-load.clear", "x", "Clear what-if", "Bring back all brokers, leaders and replicas.",
           run="clear_what_if"),
    act("broker-load.make-plan", "P", "Plan", "Plan the moves that mend all goals; again: those for the next loss only.", bar=12),
    act("broker-load.drain", "D", "Drain", "Ask for brokers to drain, and plan it."),
)  # fmt: skip
