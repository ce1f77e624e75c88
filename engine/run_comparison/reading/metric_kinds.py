"""Declare the kinds of report that ClusterLoader2 and its relatives write. A new kind is one entry in ``KINDS``.

A kind names its reports, its cutoff in published mode, whether published mode compares it by default, which direction is
better and, where its file is not PerfData, how the document becomes measured values.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

import msgspec

from engine.core.units import finite
from engine.run_comparison.reading.series import (
    BadShape,
    as_number,
    as_object,
    as_text,
    duration_ms,
    join_labels,
)


class Measured(NamedTuple):
    """Values of one metric: labels, unit as written, and a number per bucket (None: null in the file)."""

    values: Mapping[str, float | None]
    unit: str = ""
    verb: str = ""
    resource: str = ""
    subresource: str = ""
    scope: str = ""
    metric: str = ""


class MetricKind(msgspec.Struct, frozen=True, eq=False):
    """One kind of report.

    ``prefixes``: how names of its reports begin. ``marks``: bytes that identify its shape under any name. ``cutoff``: in
    published mode smaller values count as this one (in the canonical unit). ``published``: part of the metric set of
    published mode. ``better``: direction, where unit and name do not tell it.
    ``read``: yields the values of a document that is not PerfData, and a BadShape for each wrong part; raises it if the whole
    document has another shape.
    ``mixed``: with ``read``, its documents may be PerfData as well.
    """

    name: str
    prefixes: tuple[str, ...] = ()
    marks: tuple[bytes, ...] = ()
    cutoff: float | None = None
    published: bool = False
    better: str = ""
    read: Callable[[Any], Iterable[Measured | BadShape]] | None = None
    mixed: bool = False


Readings = Iterator[Measured | BadShape]
"""Yield of a reader of one kind: values, and problems with parts of the document."""


def _read_resource_usage(document: Any) -> Readings:
    """Yield the maximum per folded pod name, and the mean over all entries as ``all-nodes``, as perfdash has it."""
    usage: dict[str, dict[str, dict[str, float | None]]] = {"CPU": {}, "Mem": {}}
    for percentile, entries in as_object(document).items():
        listed: list[dict[str, float | None]] = []
        yield from _from_each(entries, partial(_take_usage, usage, percentile, listed))
        for key in usage if listed else ():
            usage[key].setdefault("all-nodes", {})[percentile] = sum(numbers[key] or 0.0 for numbers in listed) / len(
                listed
            )
    for owner, values in usage["CPU"].items():
        yield Measured(values, "cores", resource=owner, metric="CPU")
    for owner, values in usage["Mem"].items():
        mib = {name: None if value is None else value / 1048576.0 for name, value in values.items()}
        yield Measured(mib, "MiB", resource=owner, metric="Memory")


def _take_usage(usage: dict[str, Any], percentile: str, listed: list[dict[str, float | None]], entry: Any) -> None:
    listed.append({key: as_number(entry.get(key), key) for key in usage})
    for key, value in listed[-1].items():
        of_owner = usage[key].setdefault(fold_pod_name(as_text(entry.get("Name", ""))), {})
        highest = of_owner.get(percentile)
        of_owner[percentile] = value if highest is None or (value is not None and value > highest) else highest


def _read_scheduling_throughput(document: Any) -> Readings:
    """Read ``{perc50, perc90, perc99, max}`` or any part of it (older: ``average``)."""
    yield from _numbers(as_object(document), lambda numbers: Measured(numbers, "pods/s"))


def _read_etcd_metrics(document: Any) -> Readings:
    """Yield the percentage of ``+Inf`` at each bound per histogram and label set (0 if nothing was counted)."""
    for name, value in as_object(document).items():
        if isinstance(value, list):
            yield from _from_each(value, partial(_etcd_histogram, name))
        elif isinstance(value, (int, float)):
            yield from _numbers({"value": value}, partial(Measured, unit="bytes", resource=name))


def _bound_of(bucket: str) -> float:
    bound = finite(bucket)
    return math.inf if bound is None else bound


def _etcd_histogram(name: str, histogram: dict[str, Any]) -> Readings:
    buckets = {bound: as_number(n, bound) for bound, n in as_object(histogram.get("buckets") or {}).items()}
    total = buckets.pop("+Inf", None) or 0.0
    shares: dict[str, float | None] = {
        f"<= {bound}s": None if n is None else (n / total * 100.0 if total else 0.0)
        for bound, n in sorted(buckets.items(), key=lambda pair: _bound_of(pair[0]))
    }
    labels = {k: as_text(v) for k, v in as_object(histogram.get("labels") or {}).items() if k != "__name__"}
    yield Measured(shares, "%", resource=name, metric=join_labels(labels))


_CLIENT = re.compile(r"^([^/]*)/(\S+)(.*?)(/[0-9a-f]{7,})?$", re.DOTALL)


def _read_metrics_for_e2e(document: Any) -> Readings:
    """Add the samples of one name and label set; a client's version and commit are left out of the labels."""
    for component, metrics in as_object(document).items():
        if not isinstance(metrics, dict):
            continue
        for name, samples in metrics.items():
            sums: dict[str, float] = defaultdict(float)
            yield from _from_each(samples, partial(_add_sample, sums, f"a sample of {name}"), f"a sample of {name}")
            for labels_text, total in sums.items():
                yield Measured({"value": total}, "count", resource=name, scope=component, metric=labels_text)


def _add_sample(sums: dict[str, float], what: str, sample: dict[str, Any]) -> None:
    labels = {k: as_text(v) for k, v in as_object(sample.get("metric") or {}, what).items()}
    labels.pop("__name__", None)
    labels.pop("contentType", None)
    if "client" in labels and (client := _CLIENT.match(labels["client"])):
        labels["client"] = (client[1] + client[3]).strip()
    pair = sample.get("value")
    number = finite(pair[1]) if isinstance(pair, list) and len(pair) == 2 else None
    if number is not None:
        sums[join_labels(labels)] += number


def _read_system_pod_metrics(document: Any) -> Readings:
    """Read ``{pods: [{containers: [{name, restartCount}]}]}``."""
    restarts: dict[str, list[float]] = defaultdict(list)
    take = partial(_take_restarts, restarts, "name", "restartCount")
    yield from _from_each(as_object(document).get("pods"), lambda pod: _from_each(pod.get("containers"), take))
    for name, counts in restarts.items():
        yield Measured({"RestartCount": max(*counts, 0.0)}, "count", resource=name)


def _read_container_restarts(document: Any) -> Readings:
    """Read ``[{Container, RestartCount}]``."""
    restarts: dict[str, list[float]] = defaultdict(list)
    yield from _from_each(document, partial(_take_restarts, restarts, "Container", "RestartCount"))
    for name, counts in restarts.items():
        yield Measured({"RestartCount": sum(counts, 0.0)}, "count", resource=name)


def _take_restarts(restarts: dict[str, list[float]], name: str, count: str, entry: dict[str, Any]) -> None:
    restarts[as_text(entry.get(name, ""))].append(as_number(entry.get(count, 0), count) or 0.0)


def _read_api_availability(document: Any) -> Readings:
    """Read ``availabilityPercentage`` in per cent and ``longestUnavailablePeriod`` as a Go duration."""
    fields = as_object(document)
    hosts: list[tuple[str, Any]] = [("cluster", fields.get("clusterMetrics"))]
    yield from _from_each(
        fields.get("hostMetrics"),
        lambda host: hosts.append((as_text(host.get("IP") or host.get("ip") or host.get("host") or "host"), host)),
    )
    for name, metrics in hosts:
        if not isinstance(metrics, dict):
            continue
        share = {"value": metrics.get("availabilityPercentage")}
        yield from _numbers(share, partial(Measured, unit="%", resource=name, metric="availability"))
        longest = metrics.get("longestUnavailablePeriod")
        try:
            if longest is not None:
                yield Measured({"value": duration_ms(longest)}, "ms", resource=name, metric="longest unavailable")
        except BadShape as error:
            yield error


def _read_cilium_delay(document: Any) -> Readings:
    """Yield the percentage of ``+Inf`` at each bound at the last time (counts are cumulative)."""
    times = {t: b for t, b in as_object(document).items() if isinstance(b, dict)}
    if times:
        yield from _numbers(times[max(times)], _cilium_shares)


def _cilium_shares(buckets: dict[str, float | None]) -> Measured:
    total = buckets.pop("+Inf", None) or max((n for n in buckets.values() if n is not None), default=0.0)
    return Measured({f"<= {b}": (n or 0.0) / total * 100.0 if total else 0.0 for b, n in buckets.items()}, "%")


def _read_tracked(document: Any) -> Readings:
    """Yield the length of each list, and each number unchanged."""
    for name, value in as_object(document).items():
        if value is None or isinstance(value, (list, dict)):
            yield Measured({"count": float(len(value or ()))}, "count", resource=name)
        elif isinstance(value, (int, float)) and not isinstance(value, bool):
            yield from _numbers({"count": value}, partial(Measured, unit="count", resource=name))


def _from_each(values: Any, take: Callable[[dict[str, Any]], Readings | None], what: str = "") -> Readings:
    """Yield what ``take`` makes of each object of a list (None: empty), and a BadShape for every other entry."""
    if values is not None and not isinstance(values, list):
        yield BadShape("it is not a list where one belongs")
        return
    for value in values or ():
        try:
            yield from take(as_object(value, what)) or ()
        except BadShape as error:
            yield error


def _numbers(
    values: Mapping[str, Any],
    make: Callable[[dict[str, float | None]], Measured],
    convert: Callable[[Any, str], float | None] = as_number,
) -> Readings:
    """Yield ``make`` of the values that ``convert`` accepts, after a problem for each of the others."""
    numbers: dict[str, float | None] = {}
    for name, value in values.items():
        try:
            numbers[name] = convert(value, name)
        except BadShape as error:
            yield error
    if numbers:
        yield make(numbers)


def fold_pod_name(name: str) -> str:
    """Cut the generated end of the pod's name in ``pod/container``, as perfdash does.

    It begins at the first piece, except the very first, that looks like a hash (four or more characters, none of e u y i o
    a) or a version (v and a digit).
    """
    pod, slash, container = name.partition("/")
    pieces = pod.split("-")
    for i, piece in enumerate(pieces[1:], start=1):
        hashed = len(piece) >= 4 and not set(piece) & set("eyuioa")
        if hashed or (len(piece) >= 2 and piece[0] == "v" and piece[1].isdecimal()):
            return "-".join(pieces[:i]) + slash + container
    return name


def _read_latencies(document: Any, unit: str) -> Readings:
    """Read ``{name: {Perc50: …}}``, one level deeper, or ``{Perc50: …}``; numbers in ``unit``, texts as Go durations.

    Numbers named ``throughput…`` (older files) are pods per second.
    """
    convert = partial(_time, unit=unit)
    direct: dict[str, Any] = {}
    for name, value in as_object(document).items():
        if isinstance(value, dict):
            nested = {key: inner for key, inner in value.items() if isinstance(inner, dict)}
            plain = {key: inner for key, inner in value.items() if not isinstance(inner, dict)}
            yield from _numbers(plain, partial(Measured, unit=unit, resource=name), convert)
            for key, inner in nested.items():
                yield from _numbers(inner, partial(Measured, unit=unit, resource=name, subresource=key), convert)
        elif name.lower().startswith("throughput"):
            yield from _numbers({"value": value}, partial(Measured, unit="pods/s", resource=name))
        elif value is None or isinstance(value, (int, float, str)):
            direct[name] = value
    yield from _numbers(direct, partial(Measured, unit=unit), convert)


def _time(value: Any, name: str, *, unit: str) -> float | None:
    if isinstance(value, str):
        ms = duration_ms(value)
        return ms * 1e6 if unit == "ns" else ms
    return as_number(value, name)


KINDS = (
    # API call latency until 2019: one of the two kinds that perf-tests' benchmark tool reads.
    MetricKind("APIResponsiveness", ("APIResponsiveness_",), cutoff=50.0, published=True, better="lower"),
    # API call latency as today's ClusterLoader2 measures it.
    MetricKind(
        "APIResponsivenessPrometheus", ("APIResponsivenessPrometheus",), cutoff=50.0, published=True, better="lower",
    ),
    # Pod startup phases, all pods: the other kind that perf-tests' benchmark tool reads.
    MetricKind("PodStartupLatency", ("PodStartupLatency_",), cutoff=1000.0, published=True, better="lower"),
    # Pod startup phases of stateless pods.
    MetricKind(
        "StatelessPodStartupLatency", ("StatelessPodStartupLatency",), cutoff=1000.0, published=True, better="lower",
    ),
    # Pod startup phases of stateful pods.
    MetricKind(
        "StatefulPodStartupLatency", ("StatefulPodStartupLatency",), cutoff=1000.0, published=True, better="lower",
    ),
    # Latencies of other objects' phases; PerfData or a small object of latencies.
    MetricKind(
        "PhaseLatency", ("JobLifecycleLatency", "ResourceClaimAllocationLatency", "ServiceCreationLatency",
        "LoadBalancerNodeSyncLatency", "NegLatency", "KubeStateMetricsLatency"), better="lower",
        read=partial(_read_latencies, unit="ms"), mixed=True,
    ),
    # Network programming, in-cluster network, DNS and in-cluster API latency.
    MetricKind(
        "NetworkLatency", ("NetworkProgrammingLatency", "InClusterNetworkLatency", "DnsLookupLatency",
        "InClusterAPIServerRequestLatency", "DnsPropagation"), better="lower",
    ),
    # Prometheus queries of a test's author, with their own units and names.
    MetricKind("GenericPrometheusQuery", ("GenericPrometheusQuery",)),
    # Durations of test phases.
    MetricKind("Timer", ("Timer",), better="lower"),
    # Throughput, latency, jitter and loss between pods.
    MetricKind("NetworkPerformanceMetrics", ("NetworkPerformanceMetrics",)),
    # Windows node and container usage.
    MetricKind("Windows", ("Windows",)),
    # scheduler_perf results.
    MetricKind("BenchmarkPerfScheduling", ("BenchmarkPerfScheduling", "BenchmarkResults")),
    # CPU and memory of system containers, by percentile; pods of one owner are folded as perfdash folds them.
    MetricKind(
        "ResourceUsageSummary", ("ResourceUsageSummary", "NetworkPolicySoakMeasurement"), marks=(b'"CPU"', b'"Mem"'),
        better="lower", read=_read_resource_usage,
    ),
    # Pods scheduled per second.
    MetricKind("SchedulingThroughput", ("SchedulingThroughput",), better="higher", read=_read_scheduling_throughput),
    # Scheduler latencies; integers in nanoseconds.
    MetricKind(
        "SchedulingMetrics", ("SchedulingMetrics",), marks=(b'"frameworkExtensionPointDuration"',
        b'"e2eSchedulingLatency"'), better="lower", read=partial(_read_latencies, unit="ns"),
    ),
    # etcd histograms as the share of operations within a bound, and the database size.
    MetricKind(
        "EtcdMetrics", ("EtcdMetrics",), marks=(b'"backendCommitDuration"', b'"walFsyncDuration"'), better="higher",
        read=_read_etcd_metrics,
    ),
    # Component metrics as Prometheus samples; requests by client as perfdash counts them.
    MetricKind("MetricsForE2E", ("MetricsForE2E",), marks=(b'"APIServerMetrics"',), read=_read_metrics_for_e2e),
    # Restarts of system pods: the maximum per container name.
    MetricKind(
        "SystemPodMetrics", ("SystemPodMetrics",), marks=(b'"restartCount"',), better="lower",
        read=_read_system_pod_metrics,
    ),
    # Restarts: the sum per container name.
    MetricKind(
        "ContainerRestarts", ("ContainerRestarts",), marks=(b'"RestartCount"',), better="lower",
        read=_read_container_restarts,
    ),
    # Availability of the API server, of the cluster and of each host.
    MetricKind(
        "APIAvailability", ("APIAvailability",), marks=(b'"availabilityPercentage"',), read=_read_api_availability,
    ),
    # Propagation delay of Cilium endpoints: counts per bucket at each time.
    MetricKind(
        "CiliumEndpointPropagationDelay", ("CiliumEndpointPropagationDelay",), better="higher", read=_read_cilium_delay
       ,
    ),
    # Counts of out-of-memory kills and unhealthy nodes.
    MetricKind("Tracked", ("ClusterOOMsTracker", "NodeHealthTracker"), better="lower", read=_read_tracked),
    # Any other PerfData report.
    MetricKind("PerfData", marks=(b'"dataItems"',)),
)  # fmt: skip
"""All kinds: the longest fitting prefix wins, then the first kind whose marks all occur."""

_PREFIXES = sorted(((prefix, kind) for kind in KINDS for prefix in kind.prefixes), key=lambda pair: -len(pair[0]))
BY_NAME = {kind.name: kind for kind in KINDS}


def kind_of_name(name: str) -> MetricKind | None:
    """Return the kind by a report's name, also ``<id>_PrometheusSchedulingMetrics``; None if no kind fits."""
    for prefix, kind in _PREFIXES:
        if name.startswith(prefix):
            return kind
    return BY_NAME["SchedulingMetrics"] if "PrometheusSchedulingMetrics" in name else None


def kind_of_content(head: bytes) -> MetricKind | None:
    """Return the kind whose marks all occur in ``head``, PerfData first; None if no kind fits."""
    if b'"dataitems"' in head.lower():
        return BY_NAME["PerfData"]
    for kind in KINDS:
        if kind.marks and all(mark in head for mark in kind.marks):
            return kind
    return None
