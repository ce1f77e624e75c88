"""The key bindings of the query profile's tab."""

from __future__ import annotations

from tui.actions import Action


def _action(name: str, keys: str, title: str, help: str, bar: int = 0, run: str = "") -> Action:
    return Action(f"query-profile.{name}", tuple(keys.split()), title, help, "query-profile", run, bar)


ACTIONS: tuple[Action, ...] = (
    _action(
        "method",
        "m",
        "Method",
        "Attribute CPU by the next method: default, WLR, OLS, NNLS, global ratio.",
        5,
        "next('method')",
    ),
    _action("resource", "y", "Resource", "Attribute the next resource series: CPU, user, system, I/O wait ...", bar=6),
    _action(
        "rank", "v", "Rank by", "Rank classes by the next metric: CPU, time, calls, IO, rows, errors, latency.", bar=7
    ),
    _action("group", "b", "Group by", "Make a row per class, verb, user or database.", 8, "next('group')"),
    _action(
        "rules",
        "x",
        "WLR rules",
        "Switch WLR between the rules of VividCortex' program and the safe form.",
        run="next('rules')",
    ),
    _action("source", "i", "Source", "Profile the next server or file set that was found."),
    _action("compare", "9", "Compare", "Compare the second half of all intervals with the first; again: stop.", bar=10),
    _action("now", "6", "Window", "In the intervals: begin the window here; again elsewhere: end it there."),
    _action(
        "before", "7", "Compare with", "In the intervals: begin the window to compare with; again elsewhere: end it."
    ),
    _action("all-intervals", "8", "All intervals", "Look at all intervals again, and compare nothing."),
    _action("what-if", "w", "What if", "Go to the what-if slider of the class under the cursor.", bar=9),
    _action("drop", "t", "Drop class", "In the what-if: take the class away altogether, or put it back."),
)
