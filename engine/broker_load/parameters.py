"""What an operator can choose in the broker load view; all defaults are Cruise Control's code defaults."""

from __future__ import annotations

from typing import Annotated

import msgspec

from engine.core.parameters import Attachment, Parameters, option

MODES = ("upstream", "corrected", "regression")  # values of ``mode``; upstream: as Cruise Control computes loads


class CpuWeights(msgspec.Struct, frozen=True):
    """CPU weights of the static model: leader in, leader out, follower in. They need not sum to 1."""

    a: float = 0.7
    b: float = 0.15
    c: float = 0.15


_THRESHOLDS = {"CPU": "cpu", "DISK": "disk", "NW_IN": "network_inbound", "NW_OUT": "network_outbound"}
"""Prefix of the threshold options of each resource."""


class BrokerLoadParameters(Parameters, frozen=True):
    """Parameters of the broker load view."""

    mode: Annotated[
        str,
        option(
            "Loads as Cruise Control computes them (upstream), corrected to what was measured, or from fitted weights.",
            choices=MODES,
        ),
    ] = "upstream"
    cluster: Annotated[
        str, option("Cluster to show, by its label, where series name several; default: the one with most brokers.")
    ] = ""
    fail: Annotated[
        tuple[str, ...], option("Brokers that die, by id, rack:NAME or host:NAME, separated by commas.", what_if=True)
    ] = ()
    demote: Annotated[tuple[str, ...], option("Brokers that give up leadership, named as in fail.", what_if=True)] = ()
    reassignment: Annotated[Attachment | None, option("A kafka-reassign-partitions JSON to apply.", what_if=True)] = (
        None
    )
    apply_plan: Annotated[bool, option("Apply the reassignment found among the inputs.", what_if=True)] = False
    elect: Annotated[
        Attachment | str | None,
        option(
            "Preferred leader election: of all partitions, of those of the reassignment (plan), or of a "
            "kafka-leader-election JSON.",
            choices=("all", "plan"),
            what_if=True,
        ),
    ] = None
    plan: Annotated[
        str,
        option(
            "Plan of moves: mend (all goals), survive (hard goals and single losses), drain:ID,... or add:ID@RACK,... .",
            what_if=True,
        ),
    ] = ""
    plan_survive: Annotated[
        str,
        option(
            "Losses that a plan prepares for: none, of single brokers, or of racks too.",
            choices=("none", "broker", "rack"),
            what_if=True,
        ),
    ] = "rack"
    plan_max_steps: Annotated[
        int, option("Steps after which a plan is cut; 0: none.", low=0, high=10**9, what_if=True)
    ] = 0
    plan_max_mb: Annotated[
        float, option("Data after which a plan is cut; 0: none.", unit="MB", low=0, high=1e15, what_if=True)
    ] = 0.0
    plan_effort: Annotated[
        str, option("What a plan saves first: MB copied or moves.", choices=("mb", "moves"), what_if=True)
    ] = "mb"
    plan_skip_topics: Annotated[
        str, option("Regular expression of topics whose partitions a plan leaves alone.", what_if=True)
    ] = ""
    plan_skip_brokers: Annotated[
        tuple[str, ...], option("Brokers that receive no replica in a plan, named as in fail.", what_if=True)
    ] = ()
    plan_reject: Annotated[
        tuple[str, ...], option("Partitions that a plan leaves alone, as topic-partition.", what_if=True)
    ] = ()
    plan_throttle_mbs: Annotated[
        float, option("Throttle of each broker's copies.", unit="MB/s", low=0.001, high=1e6, what_if=True)
    ] = 50.0
    plan_parallel: Annotated[
        int, option("Copies that a broker takes part in at once.", unit="copies", low=1, high=10**6, what_if=True)
    ] = 5
    plan_batch: Annotated[
        int, option("Batch of the plan that is printed; 0: all.", low=0, high=10**9, what_if=True)
    ] = 0
    answer: Annotated[
        str, option("What --format upstream prints of a plan.", choices=("reassignment", "rollback", "election"))
    ] = "reassignment"
    add_brokers: Annotated[
        int,
        option(
            "Brokers of the typical capacity to add (bounds only).", unit="brokers", low=0, high=10000, what_if=True
        ),
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
    sampling_allow_cpu_capacity_estimation: Annotated[
        bool,
        option(
            "Use the cores of the default entry for samples; without it, partitions led by such brokers get no samples."
        ),
    ] = True
    weights: Annotated[
        str, option("CPU weights: a, b, c as given, or as fitted to the broker history.", choices=("static", "fitted"))
    ] = "static"
    a: Annotated[float, option("CPU weight of leader bytes in.", low=0, high=1e6)] = 0.7
    b: Annotated[float, option("CPU weight of leader bytes out.", low=0, high=1e6)] = 0.15
    c: Annotated[float, option("CPU weight of follower bytes in.", low=0, high=1e6)] = 0.15
    unclean_leader_election: Annotated[
        bool, option("Unclean leader election is allowed where a topic does not set it.")
    ] = False
    min_insync_replicas: Annotated[
        int, option("min.insync.replicas where a topic does not set it.", low=1, high=1000)
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
        int,
        option(
            "Most rows of the tables windows and samples; beyond it rows are left out, with a note.", low=0, high=10**9
        ),
    ] = 250_000

    @property
    def interval_ms(self) -> int:
        """Length of a sampling interval in ms."""
        return round(self.sampling_interval_s * 1000)

    @property
    def cpu_weights(self) -> CpuWeights:
        """The weights as given."""
        return CpuWeights(self.a, self.b, self.c)

    def capacity_threshold(self, resource: str) -> float:
        """Return the share of the capacity of ``resource`` that may be used."""
        return float(getattr(self, f"{_THRESHOLDS[resource]}_capacity_threshold"))

    def balance_threshold(self, resource: str) -> float:
        """Return the ratio to the average load of ``resource`` that is still balanced."""
        return float(getattr(self, f"{_THRESHOLDS[resource]}_balance_threshold"))
