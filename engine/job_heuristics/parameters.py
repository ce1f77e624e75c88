"""The choices an operator has in the job heuristics view."""

from __future__ import annotations

from typing import Annotated

from engine.parameters import Attachment, Parameters, option


class JobParameters(Parameters, frozen=True, kw_only=True):
    """Parameters of the job heuristics view."""

    mode: Annotated[
        str,
        option(
            "whose rules: upstream (Dr. Elephant's code) or seed (its published description)",
            choices=("upstream", "seed"),
        ),
    ] = "upstream"
    heuristic_conf: Annotated[
        Attachment | None, option("a HeuristicConf.xml with other thresholds, switched-off or further heuristics")
    ] = None
    block_size: Annotated[
        int, option("HDFS block size; upstream's built-in value is 64 MiB", unit="bytes", low=1, high=2**62)
    ] = 64 * 2**20
    queue_limit: Annotated[bool, option("also judge Job Queue Limit, which upstream ships switched off")] = False
    job: Annotated[str | None, option("show the tasks of this job (its id, or the end of it)")] = None
