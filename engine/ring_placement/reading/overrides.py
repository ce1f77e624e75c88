"""Per-tenant limits as a runtime configuration sets them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from engine.core.reading import Problem, clean
from engine.formats.yaml_tree import Node
from engine.ring_placement import tables
from engine.ring_placement.pyroscope.adaptive_placement import KEYS, parse_value
from engine.ring_placement.reading.document import Found

OTHER_LIMITS = frozenset(
    """ingestion_rate_mb ingestion_burst_size_mb ingestion_limit ingestion_body_limit_mb max_label_name_length
    max_label_value_length max_label_names_per_series max_sessions_per_series enforce_reserved_labels
    max_profile_size_bytes max_profile_stacktrace_samples max_profile_stacktrace_sample_labels
    max_profile_stacktrace_depth max_profile_symbol_value_length distributor_usage_groups
    distributor_sampling distributor_aggregation_window distributor_aggregation_period
    ingestion_relabeling_rules ingestion_relabeling_default_rules_position sample_type_relabeling_rules
    max_local_series_per_tenant max_global_series_per_tenant max_series_per_tenant max_query_lookback
    max_query_length max_query_parallelism query_analysis_enabled query_analysis_series_enabled
    query_sanitize_on_merge max_flamegraph_nodes_default max_flamegraph_nodes_max
    store_gateway_tenant_shard_size split_queries_by_interval query_split_duration
    compactor_blocks_retention_period compactor_split_and_merge_shards compactor_split_and_merge_stage_size
    compactor_split_groups compactor_partial_block_deletion_delay compactor_downsampler_enabled
    retention_period s3_sse_type s3_sse_kms_key_id s3_sse_kms_encryption_context reject_older_than
    reject_newer_than write_path write_path_segment_writer_weight write_path_ingester_weight
    write_path_compression write_path_segment_writer_timeout async_ingest enable_query_backend
    enable_query_backend_from recording_rules symbolizer symbolizer_enabled""".split()  # noqa: SIM905
)
"""Pyroscope's per-tenant limits that have nothing to do with placement: skipped without a problem."""

OTHER_PRODUCT = re.compile(
    rb"[\s{,\"'](?:ingestion_(?:partitions_)?tenant_shard_size|tenant_shard_size|max_global_series_per_user"
    rb"|max_global_streams_per_user|max_traces_per_user|(?:mimir|loki|tempo)(?:\.yaml)?)[\"']?[ \t]*:"
)
"""Limits that Mimir, Loki and Tempo have, and keys of their charts."""
_KEYS = KEYS | {"ingestion_partitions_tenant_shard_size": "partition_shards"}  # keys that are read, and their columns
_MOST_MERGED = 100  # most mappings that a mapping may merge (``<<``), directly or through others
_FIELDS = [column.name for column in tables.OVERRIDES.columns][1:]


def entries(node: Node) -> Iterator[tuple[str, Node, int]]:
    """Yield key text, value and 1-based line of each entry of a mapping, without what it merges."""
    return ((key.text, value, key.line) for key, value in node.pairs)


def _flat(node: Node) -> Iterator[tuple[str, Node, int]]:
    """Yield the entries of a tenant's limits. Tempo's newer form nests the shard size."""
    for key, value, line in entries(node):
        if key == "ingestion" and value.kind == "mapping":
            yield from (
                ("ingestion_tenant_shard_size", v, at) for k, v, at in entries(value) if k == "tenant_shard_size"
            )
        else:
            yield key, value, line


def _merged(node: Node) -> list[Node]:
    """List the mappings that ``node`` merges, directly or through others, in order of precedence."""
    found: list[Node] = []
    waiting = [node]
    while waiting and len(found) <= _MOST_MERGED:
        current = waiting.pop()
        if current in found:
            continue
        found.append(current)
        waiting += reversed(current.merged)
    return found[1:]


def children(node: Node) -> dict[str, tuple[Node, int]]:
    """Return value and 1-based line of each entry of a mapping by its key, also of those that it merges; the first one wins."""
    parts = (node, *_merged(node))
    return {key: (value, line) for part in reversed(parts) for key, value, line in reversed([*entries(part)])}


class OverrideRows(Found):
    """Collects the tenants of one override file and the problems found on the way."""

    def __init__(self, path: str, is_pyroscope: bool, problems: Iterable[Problem] = ()) -> None:
        super().__init__(path, problems)
        self.is_pyroscope = is_pyroscope
        self.rows: list[tuple[Any, ...]] = []
        self._own: dict[Node, dict[str, Any]] = {}  # limits by mapping: tenants may share one by aliases and merges

    def read_overrides(self, document: Node, base: int) -> None:
        """Read the tenants of a document that begins ``base`` lines into the file."""
        found = [(value, line) for key, value, line in entries(document) if key == "overrides"]
        self._read_tenants(*found[0], base)
        if len(found) > 1:
            self.problem("duplicate-key", "overrides is set twice; the first one is used", base + found[1][1])

    def _read_tenants(self, node: Node, line: int, base: int) -> None:
        if node.is_null:
            return
        if node.kind != "mapping":
            self.problem("bad-yaml", "overrides is not a mapping of tenants", base + line)
            return
        seen: set[str] = set()
        for part in (node, *_merged(node)):
            for name, limits, tenant_line in entries(part):
                tenant, line = clean(name), base + tenant_line
                if not tenant:
                    self.problem("bad-yaml", "a tenant's name is not a string", line)
                elif tenant in seen:
                    if part is node:
                        self.problem(
                            "duplicate-tenant", f"tenant {tenant} is listed twice; the first one is used", line
                        )
                elif limits.kind == "mapping":
                    self.rows.append((tenant, *self._limits_of(tenant, limits, base)))
                elif not limits.is_null:
                    self.problem("bad-yaml", f"tenant {tenant} is not a mapping", line)
                seen.add(tenant)

    def _limits_of(self, tenant: str, node: Node, base: int) -> tuple[Any, ...]:
        """Return the limits that ``node`` sets or merges, in the order of the table's columns; None if not set."""
        limits: dict[str, Any] = {}
        for part in (node, *_merged(node)):
            if part not in self._own:
                self._own[part] = self._read_limits(tenant, part, base)
            limits = self._own[part] | limits
        return tuple(limits.get(name) for name in _FIELDS)

    def _read_limits(self, tenant: str, node: Node, base: int) -> dict[str, Any]:
        """Read the limits in ``node`` itself. An unknown key, or a value out of range, is a problem."""
        limits: dict[str, Any] = {}
        seen: set[str] = set()
        for key, value, line in _flat(node):
            name = _KEYS.get(key)
            if key in seen:
                self.problem("duplicate-key", f"tenant {tenant}: {clean(key, 80)} is set twice", base + line)
            elif name is None:
                # Without limits of Pyroscope the file is Mimir's, Loki's or Tempo's, which have hundreds of others.
                if self.is_pyroscope and key not in OTHER_LIMITS:
                    reason = f"tenant {tenant}: {clean(key, 200)!r} is not a placement limit and is ignored"
                    self.problem("unknown-key", reason, base + line)
            else:
                try:
                    limits[name] = parse_value(name, value.value() if value.kind == "scalar" else f"a {value.kind}")
                except ValueError as error:
                    self.problem("bad-limit", f"tenant {tenant}: {key} {error}", base + line)
            seen.add(key)
        if limits.get("unit_size") == 0:
            reason = f"tenant {tenant}: a unit size of 0 makes Pyroscope's ruler fail: it writes no rules at all"
            self.problem("bad-limit", reason, base + node.line)
        return limits
