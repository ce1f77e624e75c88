"""The query profile's parameters."""

from __future__ import annotations

from typing import Annotated

from engine.core.parameters import Attachment, Parameters, option

RANKS = ("cpu", "time", "calls", "io", "rows", "errors", "latency")  # metrics that classes can be ranked by


class QueryProfileParameters(Parameters, frozen=True, kw_only=True):
    """Every choice of the query profile."""

    method: Annotated[
        str,
        option(
            "Method of attribution: default is the non-negative model on time and calls, wlr is VividCortex' weighted "
            "linear regression.",
            choices=("default", "wlr", "ols", "nnls", "ratio"),
        ),
    ] = "default"
    rules: Annotated[
        str,
        option(
            "Rules of wlr: upstream reproduces VividCortex' program with its traps, safe centres the sums and recognises "
            "classes without spread.",
            choices=("safe", "upstream"),
        ),
    ] = "safe"
    target: Annotated[
        str,
        option(
            "Column or resource series to attribute (user_us, system_us, cpu_us, iowait_us or any other); "
            "empty takes user_us of a table and user + system of a host."
        ),
    ] = ""
    predict: Annotated[
        Attachment | None, option("A WLR CSV to predict with what was learned from the other files.")
    ] = None
    top: Annotated[int, option("Number of classes to show; the rest is joined into Others. 0 shows all.", low=0)] = 0
    max_share: Annotated[
        float,
        option(
            "A class whose interval lies above this share of the CPU is a finding; 0: no check.",
            low=0,
            high=1,
        ),
    ] = 0.0
    metric: Annotated[str, option("What classes are ranked by.", choices=RANKS)] = "cpu"
    group: Annotated[str, option("What a row stands for.", choices=("class", "verb", "user", "database", "query"))] = (
        "class"
    )
    filter: Annotated[str, option("Only classes whose name, query, user or database contains all these words.")] = ""
    source: Annotated[
        str, option("Which server or file set to profile, by a part of its name; empty takes the best.")
    ] = ""
    window: Annotated[
        str, option("Intervals to look at: rows 10..120 or two times joined by two dots; empty is all.")
    ] = ""
    compare: Annotated[str, option("A second window, like window, to compare with.")] = ""
    what_if: Annotated[str, option("Class to make faster or drop.", what_if=True)] = ""
    faster: Annotated[
        float, option("How many times faster the class becomes.", unit="times", low=1, high=1e6, what_if=True)
    ] = 2.0
    drop: Annotated[bool, option("Drop the class instead.", what_if=True)] = False
    max_intervals: Annotated[
        int, option("Newest intervals of a server to use; older ones are left out, with a note.", low=10)
    ] = 20_000
    level: Annotated[float, option("Nominal coverage of intervals.", low=0.5, high=0.99)] = 0.9
    draws: Annotated[
        int,
        option(
            "Bootstrap fits, or chains of the posterior, behind the intervals; 0 gives no intervals.", low=0, high=2000
        ),
    ] = 100
    seed: Annotated[int, option("Seed of the random draws.", low=0)] = 1
