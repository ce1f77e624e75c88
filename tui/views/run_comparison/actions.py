"""Actions of the run comparison's tab."""

from __future__ import annotations

from tui.actions import Action


def _action(name: str, keys: str, title: str, help: str, bar: int = 0, run: str = "") -> Action:
    return Action(f"run-comparison.{name}", tuple(keys.split()), title, help, "run-comparison", run, bar)


ACTIONS = (
    _action(
        "mode",
        "i",
        "Mode",
        "Switch between the statistical, the published and the benchmark tool's answer.",
        5,
        "next('mode')",
    ),
    _action(
        "only",
        "m",
        "Only worse",
        "Show only metrics that became worse; again: better; those on which the benchmark tool and statistics disagree; all.",
        bar=4,
    ),
    _action(
        "review", "9", "Line for a review", "Copy one line that sums the comparison up, to paste into a review.", bar=6
    ),
    _action("group", "y", "Group by", "Group metrics by the next label: resource, verb, scope, test, kind, bucket."),
    _action("distribution", "v", "ECDF or histogram", "Draw both samples as distribution functions or as a histogram."),
    _action(
        "stricter",
        "plus equals_sign",
        "Stricter",
        "Raise the threshold by 0.02; every verdict follows at once.",
        run="threshold(1)",
    ),
    _action(
        "looser", "minus", "Looser", "Lower the threshold by 0.02; every verdict follows at once.", run="threshold(-1)"
    ),
    _action(
        "to-left",
        "b",
        "To the left",
        "Put the marked runs, or the one under the cursor, on the left.",
        7,
        "put('left')",
    ),
    _action(
        "to-right",
        "w",
        "To the right",
        "Put the marked runs, or the one under the cursor, on the right.",
        8,
        "put('right')",
    ),
    _action(
        "toggle-run",
        "space",
        "Take out / put back",
        "Take the run under the cursor out, or mute the metric; again: put it back.",
        bar=9,
    ),
    _action(
        "mark-range",
        "t",
        "Mark a range",
        "Mark all runs from here to where the key is pressed again.",
        run="mark('range')",
    ),
    _action(
        "mark-shown",
        "x",
        "Mark all shown",
        "Mark all runs the table shows now (use a filter); again: none.",
        run="mark('shown')",
    ),
    _action(
        "mark-job", "Z", "Mark the job", "Mark the whole job: runs to come join its side as well.", run="mark('job')"
    ),
    _action("usual-sides", "a", "Usual sides", "Choose the sides as at start, whatever runs were put where."),
)
