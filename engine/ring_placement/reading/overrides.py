"""Per-tenant overrides in YAML: a runtime configuration file, or one inside a Kubernetes ConfigMap."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import yaml

from engine.problems import Problem
from engine.reading import Reading, Source
from engine.ring_placement import tables
from engine.ring_placement.pyroscope.limits import DEFAULTS, KEYS, parse_limits
from engine.ring_placement.reading.document import Document, columns_of
from engine.text import clean

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

_HEAD = re.compile(rb"(?m)^[ \t]*[\"']?(?:overrides|[\w.-]*(?:overrides|runtime)[\w.-]*\.ya?ml)[\"']?[ \t]*:")
_LIMIT = re.compile(
    rb"(?m)^[ \t]+[\"']?(?:adaptive_placement_\w+|(?:ingestion_(?:partitions_)?)?tenant_shard_size)[\"']?[ \t]*:"
)
PARTITION_SHARDS = "ingestion_partitions_tenant_shard_size"
"""Key of a tenant's number of partitions, of Mimir and Loki."""
_SHARD_SIZE = "ingestion_tenant_shard_size"
_OTHER_PRODUCT = re.compile(
    rb"(?m)^[ \t]+[\"']?(?:ingestion_(?:partitions_)?tenant_shard_size|tenant_shard_size|max_global_series_per_user"
    rb"|max_global_streams_per_user|max_traces_per_user)[\"']?[ \t]*:"
)
"""Limits that Mimir, Loki and Tempo have."""
_DEPTH = 60
"""Deepest nesting of YAML nodes that is read."""
_NULL = "tag:yaml.org,2002:null"


class _Loader(yaml.SafeLoader):
    """A safe loader without aliases (they can expand without bound)."""

    def _mark(self) -> Any:
        return self.peek_event().start_mark  # type: ignore[no-untyped-call]

    def compose_node(self, parent: Any, index: Any) -> Any:
        """Refuse aliases and absurd nesting."""
        if self.check_event(yaml.events.AliasEvent):
            raise yaml.composer.ComposerError(None, None, "aliases are not read", self._mark())
        self.depth = getattr(self, "depth", 0) + 1
        if self.depth > _DEPTH:
            raise yaml.composer.ComposerError(None, None, "nested too deeply", self._mark())
        try:
            return super().compose_node(parent, index)
        finally:
            self.depth -= 1


def _is_null(node: Any) -> bool:
    return isinstance(node, yaml.ScalarNode) and node.tag == _NULL


def _entries(node: Any) -> Iterator[tuple[str, Any, int]]:
    """Yield key text, value node and 1-based line of each entry of a mapping node."""
    for key, value in node.value:
        yield str(key.value) if isinstance(key, yaml.ScalarNode) else "", value, key.start_mark.line + 1


def _value(node: Any) -> Any:
    """Convert a node to Python with YAML's own scalar types. Returns None where it has no such value."""
    loader = _Loader("")
    try:
        return loader.construct_object(node, deep=True)
    except (yaml.YAMLError, ValueError, RecursionError):
        return None
    finally:
        loader.dispose()


class Overrides(Document):
    """Reader of override files."""

    id = "overrides"
    title = "per-tenant overrides YAML, also inside a ConfigMap"
    tables = (tables.OVERRIDES,)

    def recognise(self, name: str, head: bytes) -> bool:
        """Whether it is YAML with a top key ``overrides`` (or a ConfigMap entry of such a file), or is named after it.

        A file without a YAML name must also hold a placement limit.
        """
        if head[:4] in (b"PAR1", b"\x28\xb5\x2f\xfd") or b"\x00" in head:
            return False
        lowered = name.lower()
        if lowered.endswith((".yaml", ".yml")):
            return _HEAD.search(head) is not None or "overrides" in lowered
        if re.match(rb'\s*\{\s*"overrides"\s*:', head):
            return True
        return _HEAD.search(head) is not None and _LIMIT.search(head) is not None

    def read(self, source: Source, data: bytes, state: Any, final: bool) -> Reading:
        """Read one row per tenant, with the limits as set (null: not set)."""
        rows = _OverrideRows(source.path, not _OTHER_PRODUCT.search(data) or b"adaptive_placement_" in data)
        content = data.decode("utf-8", "replace")
        if "\ufffd" in content and b"\xef\xbf\xbd" not in data:
            rows.problem("not-utf8", "the file is not UTF-8; what is not is replaced")
        if not rows.read_documents(content) and not rows.rows:
            return Reading(problems=rows.problems, complete=False)
        return Reading({"overrides": columns_of(tables.OVERRIDES, rows.rows)}, rows.problems)


class _OverrideRows:
    """Collects the tenants of one override file and the problems found on the way."""

    def __init__(self, path: str, is_pyroscope: bool) -> None:
        self.path, self.is_pyroscope = path, is_pyroscope
        self.problems: list[Problem] = []
        self.rows: list[tuple[Any, ...]] = []

    def problem(self, kind: str, reason: str, line: int | None = None) -> None:
        """Record a problem of this file; ``line`` is 1-based."""
        self.problems.append(Problem.at(self.path, kind, reason, line=line))

    def read_documents(self, content: str, base: int = 0, in_configmap: bool = False) -> bool:
        """Read all documents of one YAML text that begins ``base`` lines into the file.

        Returns whether any of them has overrides.
        """
        try:
            nodes = list(yaml.compose_all(content, Loader=_Loader))
        except (yaml.YAMLError, ValueError, RecursionError) as error:
            mark = getattr(error, "problem_mark", None)
            reason = getattr(error, "problem", None) or str(error)
            self.problem("bad-yaml", f"is not YAML: {reason}", base + mark.line + 1 if mark is not None else None)
            return False
        has_overrides = False
        for node in nodes:
            if _is_null(node):
                continue  # what follows a last ---
            if not isinstance(node, yaml.MappingNode):
                self.problem("bad-yaml", "the document is not a mapping", base + node.start_mark.line + 1)
                continue
            for key, value, line in _entries(node):
                if key == "overrides":
                    has_overrides = True
                    self._read_tenants(value, base, base + line)
                elif key == "data" and not in_configmap and isinstance(value, yaml.MappingNode):
                    has_overrides |= self._read_configmap(value, base)
        if not has_overrides and nodes and not self.problems:
            self.problem("no-overrides", "the file has no key overrides")
        return has_overrides

    def _read_configmap(self, node: Any, base: int) -> bool:
        """Read the override files among a ConfigMap's entries. Returns whether there is one."""
        has_overrides = False
        for name, content, line in _entries(node):
            is_file = name.endswith((".yaml", ".yml")) and isinstance(content, yaml.ScalarNode)
            if is_file and re.search(r"(?m)^\s*overrides\s*:", content.value):
                has_overrides = True
                self.read_documents(content.value, base + line, in_configmap=True)
        return has_overrides

    def _read_tenants(self, node: Any, base: int, line: int) -> None:
        if _is_null(node):
            return
        if not isinstance(node, yaml.MappingNode):
            self.problem("bad-yaml", "overrides is not a mapping of tenants", line)
            return
        seen: set[str] = set()
        for name, limits, tenant_line in _entries(node):
            tenant, line = clean(name), base + tenant_line
            if not tenant:
                self.problem("bad-yaml", "a tenant's name is not a text", line)
            elif tenant in seen:
                self.problem("duplicate-tenant", f"tenant {tenant} is listed twice; the first one is used", line)
            elif not _is_null(limits) and not isinstance(limits, yaml.MappingNode):
                self.problem("bad-yaml", f"tenant {tenant} is not a mapping", line)
            elif not _is_null(limits):
                self._read_limits(tenant, limits, base)
            seen.add(tenant)

    def _read_limits(self, tenant: str, node: Any, base: int) -> None:
        entries = list(_entries(node))
        for key, value, line in list(entries):
            # Tempo's newer form keeps the shard size in a block of its own.
            if key == "ingestion" and isinstance(value, yaml.MappingNode):
                nested = {name: (inner, at) for name, inner, at in _entries(value)}
                if "tenant_shard_size" in nested:
                    entries.append((_SHARD_SIZE, *nested["tenant_shard_size"]))
                entries.remove((key, value, line))
        values = {key: _value(value) for key, value, _ in entries if key in KEYS}
        lines = {key: base + line for key, _, line in entries}
        others = [key for key, _, _ in entries if key not in KEYS and key != PARTITION_SHARDS]
        # A file without Pyroscope's own limits is one of Mimir, Loki or Tempo, which have hundreds of others.
        unknown = {key: None for key in others if key not in OTHER_LIMITS} if self.is_pyroscope else {}
        limits, problems = parse_limits(values | unknown, DEFAULTS, self.path, lines, f"tenant {tenant}")
        self.problems += problems
        bad_lines = {problem.line for problem in problems}
        is_set = {field: key in values and lines[key] not in bad_lines for key, field in KEYS.items()}
        columns = [column.name for column in tables.OVERRIDES.columns][1:-1]
        partitions = next((_value(value) for key, value, _ in entries if key == PARTITION_SHARDS), None)
        if partitions is not None and (type(partitions) is not int or not 0 <= partitions < 1 << 31):
            reason = f"tenant {tenant}: {PARTITION_SHARDS} is not a whole number"
            self.problem("bad-limit", reason, lines[PARTITION_SHARDS])
            partitions = None
        row = (getattr(limits, name) if is_set[name] else None for name in columns)
        self.rows.append((tenant, *row, partitions))
