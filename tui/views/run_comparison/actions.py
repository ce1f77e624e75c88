"""Actions of the run comparison's tab."""

from __future__ import annotations

from tui.actions import act

ACTIONS = (
    act(
        "run-comparison.mode",
        "m",
        "Mode",
        "Switch between the statistical, the published and the benchmark tool's answer.",
        5,
        "next('mode')",
    ),
    act(
        "run-comparison.only",
        "W",
        "Only worse",
        "Show only metrics that became worse; again: better; those on which the benchmark tool and statistics disagree; all.",
        bar=4,
    ),
    act(
        "run-comparison.review",
        "R",
        "Line for a review",
        "Copy one line that sums the comparison up, to paste into a review.",
        bar=6,
    ),
    act(
        "run-comparison.group",
        "b",
        "Group by",
        "Group metrics by the next label: resource, verb, scope, test, kind, bucket.",
    ),
    act(
        "run-comparison.distribution",
        "",
        "ECDF or histogram",
        "Draw both samples as distribution functions or as a histogram.",
    ),
    act(
        "run-comparison.stricter",
        "plus equals_sign",
        "Raise",
        "Raise the threshold by 0.02; every verdict follows at once.",
        run="threshold(1)",
    ),
    act(
        "run-comparison.looser",
        "minus",
        "Lower",
        "Lower the threshold by 0.02; every verdict follows at once.",
        run="threshold(-1)",
    ),
    act(
        "run-comparison.to-left",
        "less_than_sign",
        "To the left",
        "Put the marked runs, or the one under the cursor, on the left.",
        7,
        "put('left')",
    ),
    act(
        "run-comparison.to-right",
        "greater_than_sign",
        "To the right",
        "Put the marked runs, or the one under the cursor, on the right.",
        8,
        "put('right')",
    ),
    act(
        "run-comparison.toggle-run",
        "space",
        "Take out",
        "Take the run under the cursor out, or mute the metric; again: put it back.",
        bar=9,
    ),
    act(
        "run-comparison.mark-range",
        "V",
        "Mark a range",
        "Mark all runs from here to where this is chosen again.",
        run="mark('range')",
    ),
    act(
        "run-comparison.mark-shown",
        "",
        "Mark all shown",
        "Mark all runs the table shows now (use a filter); again: none.",
        run="mark('shown')",
    ),
    act(
        "run-comparison.mark-job",
        "",
        "Mark the job",
        "Mark the whole job: runs to come join its side as well.",
        run="mark('job')",
    ),
    act("run-comparison.usual-sides", "", "Usual sides", "Choose the sides as at start, whatever runs were put where."),
)
