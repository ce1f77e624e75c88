"""The choices an operator has in the job heuristics view."""

from __future__ import annotations

from typing import Annotated

from engine.core.parameters import Attachment, Parameters, option


class JobParameters(Parameters, frozen=True, kw_only=True):
    """Parameters of the job heuristics view."""

    mode: Annotated[
        str,
        option(
            "whose rules: upstream (Dr. Elephant's code), published (its published description) or corrected (Tez: true "
            "containers, counters and tasks)",
            choices=("upstream", "published", "corrected"),
        ),
    ] = "upstream"
    heuristic_conf: Annotated[
        Attachment | None, option("a HeuristicConf.xml with other thresholds, switched-off or further heuristics")
    ] = None
    block_size: Annotated[
        int, option("HDFS block size; Dr. Elephant's built-in value is 64 MiB", unit="bytes", low=1, high=2**62)
    ] = 64 * 2**20
    queue_limit: Annotated[bool, option("also judge Job Queue Limit, which Dr. Elephant ships switched off")] = False
    job: Annotated[str | None, option("show this job or Spark application in full (its id, or the end of it)")] = None
    headroom: Annotated[
        float, option("container memory over the peak that counts as needed, as a factor", low=1.0, high=10.0)
    ] = 1.5
    price_gb_h: Annotated[float | None, option("price of one GB of container memory for an hour", low=0.0)] = None
    price_vcore_h: Annotated[float | None, option("price of one virtual core for an hour", low=0.0)] = None
    seed: Annotated[int, option("random seed of probabilities and of the expected end", low=0, high=2**31)] = 1
    map_mb: Annotated[int | None, option("what if: container of a map", unit="MB", low=1, high=2**20, what_if=True)] = (
        None
    )
    reduce_mb: Annotated[
        int | None, option("what if: container of a reducer", unit="MB", low=1, high=2**20, what_if=True)
    ] = None
    split_size: Annotated[
        int | None, option("what if: input bytes of a map", unit="bytes", low=1, high=2**50, what_if=True)
    ] = None
    reduces: Annotated[int | None, option("what if: number of reducers", low=1, high=100_000, what_if=True)] = None
    slow_start: Annotated[
        float | None,
        option("what if: share of maps that must be done before reducers start", low=0.0, high=1.0, what_if=True),
    ] = None
    executors: Annotated[
        int | None, option("what if: executors of a Spark application", low=1, high=10_000, what_if=True)
    ] = None
    executor_cores: Annotated[int | None, option("what if: cores of an executor", low=1, high=256, what_if=True)] = None
    executor_mb: Annotated[
        int | None,
        option("what if: memory of an executor, without overhead", unit="MB", low=256, high=2**20, what_if=True),
    ] = None
    shuffle_partitions: Annotated[
        int | None, option("what if: tasks of a stage that reads shuffled data", low=1, high=100_000, what_if=True)
    ] = None
    limits: Annotated[
        tuple[str, ...],
        option(
            "what if: other limits, each HEURISTIC/PARAMETER=low:moderate:severe:critical as in HeuristicConf.xml, or =x1.5",
            what_if=True,
        ),
    ] = ()
    compare: Annotated[str | None, option("job whose configuration is compared with the chosen job's")] = None
    histories: Annotated[
        str, option("folder below which the histories of a fleet result are mounted; its path stands before theirs")
    ] = ""
