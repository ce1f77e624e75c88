"""What an operator can choose in the broker load view; all defaults are upstream's code defaults."""

from __future__ import annotations

from typing import Annotated

from engine.broker_load.cruise_control.balance import Thresholds
from engine.broker_load.cruise_control.goals import MinLeaders
from engine.broker_load.cruise_control.load_model import Settings
from engine.broker_load.insight.failover import Rules
from engine.broker_load.model.samples import Weights
from engine.parameters import Attachment, Parameters, option

MODES = ("upstream", "corrected", "regression")


class BrokerLoadParameters(Parameters, frozen=True):
    """Parameters of the broker load view."""

    mode: Annotated[
        str, option("Loads as upstream, corrected to what was measured, or from fitted weights.", choices=MODES)
    ] = "upstream"
    fail: Annotated[
        tuple[str, ...], option("Brokers that die, by id, rack:NAME or host:NAME, separated by commas.")
    ] = ()
    demote: Annotated[tuple[str, ...], option("Brokers that give up leadership, named as in fail.")] = ()
    reassignment: Annotated[Attachment | None, option("A kafka-reassign-partitions JSON to apply.")] = None
    apply_plan: Annotated[bool, option("Apply the reassignment found among the inputs.")] = False
    add_brokers: Annotated[
        int, option("Brokers of the typical capacity to add (bounds only).", unit="brokers", low=0, high=10000)
    ] = 0
    at: Annotated[
        str | None, option("Look at the data as they were then: ISO time, epoch seconds or milliseconds.")
    ] = None
    sampling_interval_s: Annotated[
        float, option("Ticks inside one interval form one sample; aligned to the epoch.", unit="s", low=1, high=86400)
    ] = 120.0
    window_ms: Annotated[int, option("Length of a window.", unit="ms", low=1000, high=10_000_000_000)] = 3_600_000
    windows: Annotated[int, option("Closed windows to average over.", unit="windows", low=1, high=10000)] = 5
    min_samples: Annotated[int, option("Samples a full window needs.", unit="samples", low=1, high=100000)] = 3
    max_extrapolations: Annotated[
        int, option("Extrapolated windows a valid partition may have.", unit="windows", low=0, high=10000)
    ] = 5
    allow_capacity_estimation: Annotated[
        bool, option("Use the default entry (-1) for brokers that capacity.json does not name.")
    ] = True
    weights: Annotated[
        str, option("CPU weights: a, b, c as given, or as fitted to the broker history.", choices=("static", "fitted"))
    ] = "static"
    a: Annotated[float, option("CPU weight of leader bytes in.", low=0, high=1e6)] = 0.7
    b: Annotated[float, option("CPU weight of leader bytes out.", low=0, high=1e6)] = 0.15
    c: Annotated[float, option("CPU weight of follower bytes in.", low=0, high=1e6)] = 0.15
    unclean_leader_election: Annotated[
        bool, option("Whether the cluster allows unclean leader election where a topic does not say.")
    ] = False
    min_insync_replicas: Annotated[
        int, option("min.insync.replicas of the cluster where a topic does not say.", low=1, high=1000)
    ] = 1
    cpu_capacity_threshold: Annotated[float, option("Share of the CPU that may be used.", low=0, high=1)] = 0.7
    disk_capacity_threshold: Annotated[float, option("Share of the disk that may be used.", low=0, high=1)] = 0.8
    network_inbound_capacity_threshold: Annotated[
        float, option("Share of network in that may be used.", low=0, high=1)
    ] = 0.8
    network_outbound_capacity_threshold: Annotated[
        float, option("Share of network out that may be used.", low=0, high=1)
    ] = 0.8
    cpu_balance_threshold: Annotated[float, option("Balanced CPU: ratio to the average.", low=1, high=100)] = 1.1
    disk_balance_threshold: Annotated[float, option("Balanced disk: ratio to the average.", low=1, high=100)] = 1.1
    network_inbound_balance_threshold: Annotated[
        float, option("Balanced network in: ratio to the average.", low=1, high=100)
    ] = 1.1
    network_outbound_balance_threshold: Annotated[
        float, option("Balanced network out: ratio to the average.", low=1, high=100)
    ] = 1.1
    replica_count_balance_threshold: Annotated[
        float, option("Balanced replica counts: ratio to the average.", low=1, high=100)
    ] = 1.1
    leader_replica_count_balance_threshold: Annotated[
        float, option("Balanced leader counts: ratio to the average.", low=1, high=100)
    ] = 1.1
    topic_replica_count_balance_threshold: Annotated[
        float, option("Balanced replicas of a topic: ratio to the average.", low=1, high=100)
    ] = 3.0
    low_utilization_threshold: Annotated[
        float, option("Utilisation at or below which the cluster counts as under-used.", low=0, high=1)
    ] = 0.0
    max_replicas_per_broker: Annotated[int, option("Replicas a broker may hold.", low=0, high=10_000_000)] = 10000
    topics_with_min_leaders_per_broker: Annotated[
        str, option("Regular expression of topics that need leaders on every broker; empty: off.")
    ] = ""
    min_topic_leaders_per_broker: Annotated[int, option("Leaders such a topic needs on each.", low=1, high=10000)] = 1
    max_rows: Annotated[
        int, option("Most rows of the windows and samples tables; more are left out and said so.", low=0, high=10**9)
    ] = 250_000
    answer: Annotated[
        str,
        option(
            "Which upstream answer --format upstream prints.", choices=("load", "partition_load", "kafka_cluster_state")
        ),
    ] = "load"
    as_: Annotated[str, option("How --format upstream prints it.", choices=("json", "text"))] = "text"
    resource: Annotated[
        str,
        option("Resource that partition_load is sorted by.", choices=("DISK", "CPU", "NW_IN", "NW_OUT")),
    ] = "DISK"
    entries: Annotated[int, option("Most records of partition_load; 0 for all.", low=0, high=2**31 - 1)] = 0
    topic: Annotated[str, option("Regular expression of topics in partition_load; empty: all.")] = ""
    max_load: Annotated[bool, option("partition_load shows the maximum over the windows.")] = False
    avg_load: Annotated[bool, option("partition_load shows the mean over the windows, also of the disk.")] = False

    def settings(self, weights: Weights | None = None) -> Settings:
        """What the model needs to know."""
        return Settings(
            interval_ms=round(self.sampling_interval_s * 1000),
            window_ms=self.window_ms,
            windows=self.windows,
            minimum=self.min_samples,
            allowed=self.max_extrapolations,
            estimation=self.allow_capacity_estimation,
            weights=weights or Weights(self.a, self.b, self.c),
        )

    def thresholds(self) -> Thresholds:
        """Thresholds of goals and balance limits."""
        return Thresholds(
            cpu_capacity=self.cpu_capacity_threshold,
            disk_capacity=self.disk_capacity_threshold,
            nw_in_capacity=self.network_inbound_capacity_threshold,
            nw_out_capacity=self.network_outbound_capacity_threshold,
            cpu_balance=self.cpu_balance_threshold,
            disk_balance=self.disk_balance_threshold,
            nw_in_balance=self.network_inbound_balance_threshold,
            nw_out_balance=self.network_outbound_balance_threshold,
            low_utilization=self.low_utilization_threshold,
            replica_balance=self.replica_count_balance_threshold,
            leader_balance=self.leader_replica_count_balance_threshold,
            topic_balance=self.topic_replica_count_balance_threshold,
            max_replicas=self.max_replicas_per_broker,
        )

    def rules(self) -> Rules:
        """Rules of leader election."""
        return Rules(self.unclean_leader_election, self.min_insync_replicas)

    def min_leaders(self) -> MinLeaders:
        """Topics that need leaders everywhere."""
        return MinLeaders(self.topics_with_min_leaders_per_broker, self.min_topic_leaders_per_broker)
