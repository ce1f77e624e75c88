"""Per-tenant overrides in YAML: a runtime configuration file, or one inside a Kubernetes ConfigMap."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, ClassVar

import yaml

from engine.problems import Problem
from engine.reading import Reading, Source
from engine.ring_placement import tables
from engine.ring_placement.pyroscope.limits import DEFAULTS, KEYS, parse_limits
from engine.tables import Table
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

"""Upstream's per-tenant limits that have nothing to do with placement: accepted without a word."""

_HEAD = re.compile(rb"(?m)^[ \t]*[\"']?(?:overrides|[\w.-]*(?:overrides|runtime)[\w.-]*\.ya?ml)[\"']?[ \t]*:")
_LIMIT = re.compile(rb"(?m)^[ \t]+[\"']?(?:adaptive_placement_\w+|ingestion_tenant_shard_size)[\"']?[ \t]*:")
_DEPTH = 60
_NULL = "tag:yaml.org,2002:null"


class _Loader(yaml.SafeLoader):
    """Safe loading without aliases (they can grow without bound) and with the line of every key."""

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


def _scalar_key(node: Any) -> str:
    return str(node.value) if isinstance(node, yaml.ScalarNode) else ""


def _entries(node: Any) -> Iterator[tuple[str, Any, int]]:
    """Key text, value node and 1-based line of a mapping node."""
    for key, value in node.value:
        yield _scalar_key(key), value, key.start_mark.line + 1


def _plain(node: Any) -> Any:
    """A node's value with YAML's own types for scalars."""
    loader = _Loader("")
    try:
        return loader.construct_object(node, deep=True)
    except (yaml.YAMLError, ValueError, RecursionError):
        return None
    finally:
        loader.dispose()


class Overrides:
    """Reader of override files."""

    id = "overrides"
    title = "per-tenant overrides YAML, also inside a ConfigMap"
    append = False
    version = 1
    tables: ClassVar[tuple[Table, ...]] = (tables.OVERRIDES,)

    def recognise(self, name: str, head: bytes) -> bool:
        """YAML with a top key ``overrides`` (or a ConfigMap entry of such a file); a file named after it even if it
        does not parse as such. Without a YAML name, a placement limit must follow."""
        if head[:4] in (b"PAR1", b"\x28\xb5\x2f\xfd") or b"\x00" in head:
            return False
        lowered = name.lower()
        if lowered.endswith((".yaml", ".yml")):
            return _HEAD.search(head) is not None or "overrides" in lowered
        if re.match(rb'\s*\{\s*"overrides"\s*:', head):
            return True
        return _HEAD.search(head) is not None and _LIMIT.search(head) is not None

    def read(self, source: Source, data: bytes, state: Any, final: bool) -> Reading:
        """One row per tenant, with the limits as set (null: not set)."""
        problems: list[Problem] = []
        columns: dict[str, list[Any]] = {c.name: [] for c in tables.OVERRIDES.columns}
        text = data.decode("utf-8", "replace")
        if "\ufffd" in text and b"\xef\xbf\xbd" not in data:
            problems.append(Problem.at(source.path, "not-utf8", "the file is not UTF-8; what is not is replaced"))
        ok = self._documents(source, text, 0, problems, columns, 0)
        if not ok and not columns["tenant"]:
            return Reading(problems=problems, complete=False)
        return Reading({"overrides": columns}, problems)

    def _documents(
        self, source: Source, text: str, base: int, problems: list[Problem], columns: dict[str, list[Any]], level: int
    ) -> bool:
        """All documents of one YAML text that begins ``base`` lines into the file."""
        try:
            nodes = list(yaml.compose_all(text, Loader=_Loader))
        except (yaml.YAMLError, ValueError, RecursionError) as error:
            mark = getattr(error, "problem_mark", None)
            reason = getattr(error, "problem", None) or str(error)
            line = base + mark.line + 1 if mark is not None else None
            problems.append(Problem.at(source.path, "bad-yaml", f"is not YAML: {reason}", line=line))
            return False
        found = False
        for node in nodes:
            if isinstance(node, yaml.ScalarNode) and node.tag == _NULL:
                continue  # what follows a last ---
            if not isinstance(node, yaml.MappingNode):
                line = base + node.start_mark.line + 1
                problems.append(Problem.at(source.path, "bad-yaml", "the document is not a mapping", line=line))
                continue
            for key, value, line in _entries(node):
                if key == "overrides":
                    found = True
                    self._tenants(source, value, base, base + line, problems, columns)
                elif key == "data" and level == 0 and isinstance(value, yaml.MappingNode):
                    # A ConfigMap: its entries are files of their own.
                    for inner, content, at in _entries(value):
                        if (
                            inner.endswith((".yaml", ".yml"))
                            and isinstance(content, yaml.ScalarNode)
                            and re.search(r"(?m)^\s*overrides\s*:", content.value)
                        ):
                            found = True
                            self._documents(source, content.value, base + at, problems, columns, 1)
        if not found and nodes and not problems:
            problems.append(Problem.at(source.path, "no-overrides", "the file has no key overrides"))
        return found

    def _tenants(
        self, source: Source, node: Any, base: int, line: int, problems: list[Problem], columns: dict[str, list[Any]]
    ) -> None:
        if isinstance(node, yaml.ScalarNode) and node.tag == _NULL:
            return
        if not isinstance(node, yaml.MappingNode):
            problems.append(Problem.at(source.path, "bad-yaml", "overrides is not a mapping of tenants", line=line))
            return
        seen: set[str] = set()
        for name, body, at in _entries(node):
            tenant = clean(name)
            place = base + at
            if not tenant:
                problems.append(Problem.at(source.path, "bad-yaml", "a tenant's name is not a text", line=place))
                continue
            if tenant in seen:
                problems.append(Problem.at(source.path, "duplicate-tenant", f"tenant {tenant} is listed twice; the first "
                                           "one is used", line=place))  # fmt: skip
                continue
            seen.add(tenant)
            if isinstance(body, yaml.ScalarNode) and body.tag == _NULL:
                continue
            if not isinstance(body, yaml.MappingNode):
                problems.append(Problem.at(source.path, "bad-yaml", f"tenant {tenant} is not a mapping", line=place))
                continue
            values = {key: _plain(value) for key, value, _ in _entries(body) if key in KEYS}
            others = {key: None for key, _, _ in _entries(body) if key not in KEYS and key not in OTHER_LIMITS}
            lines = {key: base + inner for key, _, inner in _entries(body)}
            limits, found = parse_limits(values | others, DEFAULTS, source.path, lines, f"tenant {tenant}")
            problems.extend(found)
            bad = {key for key in values for p in found if p.line == lines[key]}
            given = set(values) - bad

            def said(key: str, value: Any, given: set[str] = given) -> Any:
                return value if key in given else None

            row = (
                tenant,
                said("adaptive_placement_tenant_shards", limits.tenant_shards),
                said("ingestion_tenant_shard_size", limits.ingestion_shards),
                said("adaptive_placement_default_dataset_shards", limits.default_dataset_shards),
                said("adaptive_placement_load_balancing", limits.load_balancing),
                said("adaptive_placement_min_dataset_shards", limits.min_dataset_shards),
                said("adaptive_placement_max_dataset_shards", limits.max_dataset_shards),
                said("adaptive_placement_unit_size_bytes", limits.unit_size),
                said("adaptive_placement_burst_window", limits.burst_ns),
                said("adaptive_placement_decay_window", limits.decay_ns),
            )
            for column, value in zip(columns, row, strict=True):
                columns[column].append(value)
