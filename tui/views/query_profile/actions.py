"""The key bindings of the query profile's tab."""

from __future__ import annotations

from tui.actions import Action, act

ACTIONS: tuple[Action, ...] = (
    act(
        "query-profile.method",
        "m",
        "Mode",
        "Attribute CPU by the next method: default, WLR, OLS, NNLS, global ratio.",
        5,
        "next('method')",
    ),
    act(
        "query-profile.resource",
        "",
        "Resource",
        "Attribute the next resource series: CPU, user, system, I/O wait ...",
        bar=6,
    ),
    act(
        "query-profile.rank",
        "K",
        "Rank by",
        "Rank classes by the next metric: CPU, time, calls, IO, rows, errors, latency.",
        bar=7,
    ),
    act("query-profile.group", "b", "Group by", "Make a row per class, verb, user or database.", 8, "next('group')"),
    act(
        "query-profile.rules",
        "",
        "WLR rules",
        "Switch WLR between the rules of VividCortex' program and the safe form.",
        run="next('rules')",
    ),
    act("query-profile.source", "I", "Next input", "Profile the next server or file set that was found."),
    act(
        "query-profile.compare",
        "v",
        "Compare",
        "Compare the second half of all intervals with the first; again: stop.",
        bar=10,
    ),
    act(
        "query-profile.now",
        "6",
        "Window",
        "In the intervals: begin the window here; again elsewhere: end it there.",
        run="window('window', 'now')",
    ),
    act(
        "query-profile.before",
        "7",
        "Compare with",
        "In the intervals: begin the window to compare with; again elsewhere: end it.",
        run="window('compare', 'before')",
    ),
    act("query-profile.all-intervals", "8", "All intervals", "Look at all intervals again, and compare nothing."),
    act("query-profile.what-if", "i", "What if", "Go to the what-if slider of the class under the cursor.", bar=9),
    act("query-profile.drop", "space", "Take out", "In the what-if: take the class away altogether, or put it back."),
)
