"""Limits and settings in YAML: per-tenant overrides (a runtime configuration file, or one inside a Kubernetes ConfigMap), and the
configuration that Mimir, Loki and Tempo show."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from engine.core.reading import Document, Problem, Problems, Reading, Source, clean
from engine.core.units import duration_ns
from engine.formats.yaml_tree import BadYaml, Node, documents
from engine.ring_placement import tables
from engine.ring_placement.pyroscope.limits import KEYS, parse_value
from engine.ring_placement.reading.document import Found, columns_of, unreadable

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

_LIMIT = re.compile(
    rb"(?m)^[ \t]+[\"']?(?:adaptive_placement_\w+|(?:ingestion_(?:partitions_)?)?tenant_shard_size)[\"']?[ \t]*:"
)
_OTHER_PRODUCT = re.compile(
    rb"[\s{,\"'](?:ingestion_(?:partitions_)?tenant_shard_size|tenant_shard_size|max_global_series_per_user"
    rb"|max_global_streams_per_user|max_traces_per_user)[\"']?[ \t]*:"
)
"""Limits that Mimir, Loki and Tempo have."""
_KEYS = KEYS | {"ingestion_partitions_tenant_shard_size": "partition_shards"}
"""Keys that are read, and their columns."""
_HAS_OVERRIDES = re.compile(r"(?m)^[ \t]*overrides[ \t]*:")
MAX_BYTES = 16 << 20
"""Largest file of overrides that is read; its tree takes about fifty times the memory."""
_MOST_MERGED = 100
"""Most mappings that a mapping may merge (``<<``), directly or through others."""
_FIELDS = [column.name for column in tables.OVERRIDES.columns][1:]


def _names_overrides(head: bytes) -> bool:
    """Whether a key in ``head`` is ``overrides``, or the name of a YAML file of overrides inside a ConfigMap."""
    keys = {line.split(b":", 1)[0].strip(b" \t\"'") for line in head.split(b"\n") if b":" in line}
    return b"overrides" in keys or any(
        key.endswith((b".yaml", b".yml")) and (b"overrides" in key or b"runtime" in key) for key in keys
    )


def _entries(node: Node) -> Iterator[tuple[str, Node, int]]:
    """Yield key text, value and 1-based line of each entry of a mapping, without what it merges."""
    return ((key.text, value, key.line) for key, value in node.pairs)


def _flat(node: Node) -> Iterator[tuple[str, Node, int]]:
    """Yield the entries of a tenant's limits. Tempo's newer form nests the shard size."""
    for key, value, line in _entries(node):
        if key == "ingestion" and value.kind == "mapping":
            yield from (
                ("ingestion_tenant_shard_size", v, at) for k, v, at in _entries(value) if k == "tenant_shard_size"
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


class Overrides(Document):
    """Reader of override files."""

    id = "overrides"
    keeps_versions = True
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
            return _names_overrides(head) or "overrides" in lowered
        if re.match(rb'\s*\{\s*"overrides"\s*:', head):
            return True
        return _names_overrides(head) and _LIMIT.search(head) is not None

    def read(self, source: Source, data: bytes, state: Any, final: bool) -> Reading:
        """Read one row per tenant, with the limits as set (null: not set)."""
        if len(data) > MAX_BYTES:
            return unreadable(source, "too-large", f"{len(data)} bytes are more than the {MAX_BYTES} that are read")
        rows = _OverrideRows(source.path, not _OTHER_PRODUCT.search(data) or b"adaptive_placement_" in data)
        content = data.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "replace")
        if "\ufffd" in content and b"\xef\xbf\xbd" not in data:
            rows.problem("not-utf8", "the file is not UTF-8; invalid bytes are replaced")
        if not rows.read_documents(content) and not rows.rows:
            return Reading(problems=rows.problems, complete=False)
        return Reading({"overrides": columns_of(tables.OVERRIDES, rows.rows)}, rows.problems)


class _OverrideRows(Found):
    """Collects the tenants of one override file and the problems found on the way."""

    def __init__(self, path: str, is_pyroscope: bool) -> None:
        super().__init__(path)
        self.is_pyroscope = is_pyroscope
        self.rows: list[tuple[Any, ...]] = []
        self._own: dict[Node, dict[str, Any]] = {}
        """Limits by mapping: tenants may share one by aliases and merges."""

    def read_documents(self, content: str, base: int = 0, in_configmap: bool = False) -> bool:
        """Read all documents of one YAML text that begins ``base`` lines into the file.

        Returns whether any of them has overrides.
        """
        try:
            nodes = documents(content, lambda reason, line: self.problem("bad-yaml", reason, base + line))
        except BadYaml as error:
            self.problem("bad-yaml", f"is not YAML: {error}", None if error.line is None else base + error.line)
            return False
        has_overrides = False
        for node in nodes:
            if node.is_null:
                continue  # after a last ---
            if node.kind != "mapping":
                self.problem("bad-yaml", "the document is not a mapping", base + node.line)
                continue
            has_overrides |= self._read_document(node, base, in_configmap)
        if not has_overrides and nodes and not self.problems:
            self.problem("no-overrides", "the file has no key overrides")
        return has_overrides

    def _read_document(self, node: Node, base: int, in_configmap: bool) -> bool:
        """Read one document. Returns whether it has overrides."""
        has_overrides = found_here = False
        for key, value, line in _entries(node):
            if key == "overrides" and found_here:
                self.problem("duplicate-key", "overrides is set twice; the first one is used", base + line)
            elif key == "overrides":
                has_overrides = found_here = True
                self._read_tenants(value, base, base + line)
            elif key == "data" and not in_configmap and value.kind == "mapping":
                has_overrides |= self._read_configmap(value, base)
        return has_overrides

    def _read_configmap(self, node: Node, base: int) -> bool:
        """Read the override files among a ConfigMap's entries. Returns whether there is one."""
        has_overrides = False
        for name, content, line in _entries(node):
            is_file = name.endswith((".yaml", ".yml")) and content.kind == "scalar"
            if is_file and _HAS_OVERRIDES.search(content.text):
                has_overrides = True
                self.read_documents(content.text, base + line, in_configmap=True)
        return has_overrides

    def _read_tenants(self, node: Node, base: int, line: int) -> None:
        if node.is_null:
            return
        if node.kind != "mapping":
            self.problem("bad-yaml", "overrides is not a mapping of tenants", line)
            return
        seen: set[str] = set()
        for part in (node, *_merged(node)):
            for name, limits, tenant_line in _entries(part):
                tenant, line = clean(name), base + tenant_line
                if not tenant:
                    self.problem("bad-yaml", "a tenant's name is not a string", line)
                elif tenant in seen:
                    if part is node:
                        reason = f"tenant {tenant} is listed twice; the first one is used"
                        self.problem("duplicate-tenant", reason, line)
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


_RINGS = (("ingester", "ring"), ("ingester", "lifecycler", "ring"), ("common", "ring"), ("common",))
"""Paths of the ring of ingesters: in Mimir; in Loki and Tempo; in Loki for all rings."""
_LIMITS = (
    ("limits",),
    ("limits_config",),
    ("overrides", "defaults", "ingestion"),
    ("overrides", "defaults"),
    ("overrides",),
)
"""Paths of the default limits: in Mimir, Loki, and Tempo's newer and older form."""
_TOKENS = ("random", "spread-minimizing")


class ConfigPage(Document):
    """The configuration that a process of Mimir, Loki or Tempo shows (``/config``)."""

    id = "config-page"
    title = "configuration of Mimir, Loki or Tempo as shown (curl …/config)"
    tables = (tables.SETTINGS,)

    def recognise(self, name: str, head: bytes) -> bool:
        """Whether it is YAML with the top keys of such a configuration."""
        return re.search(rb"(?m)^target:", head) is not None and (
            re.search(rb"(?m)^(?:server|api|common|distributor|ingester):", head) is not None
        )

    def read(self, source: Source, data: bytes, state: Any, final: bool) -> Reading:
        """Read the settings of the ring of ingesters; an invalid value is a problem and counts as not set."""
        problems = Problems()

        def problem(reason: str, line: int | None) -> None:
            problems.append(Problem.at(source.path, "bad-setting", reason, line=line))

        try:
            nodes = documents(data.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "replace"), problem)
        except BadYaml as error:
            return Reading(problems=[Problem.at(source.path, "bad-yaml", str(error), line=error.line)], complete=False)
        top = next((node for node in nodes if node.kind == "mapping"), None)
        if top is None:
            return Reading(problems=problems, complete=False)
        rings = [node for path in _RINGS if (node := _at(top, path)) is not None]
        limits = [node for path in _LIMITS if (node := _at(top, path)) is not None]
        sharding = _at(top, ("distributor", "sharding"))

        def read(nodes: list[Node], *names: str, convert: Callable[[Node], Any]) -> Any:
            found = ((name, v) for n in nodes for name in names if (v := _child(n, name)) is not None and not v.is_null)
            for name, node in found:
                try:
                    return convert(node)
                except ValueError as error:
                    problem(f"{name} {error}", node.line)
            return None

        shards = "ingestion_tenant_shard_size", "tenant_shard_size"
        row = (
            read(rings, "replication_factor", convert=_whole(1, 100)),
            read(rings, "zone_awareness_enabled", convert=_flag),
            read(rings, "heartbeat_timeout", convert=_seconds),
            read(limits, *shards, convert=_whole(0, 1_000_000)),
            read(limits, "ingestion_partitions_tenant_shard_size", convert=_whole(0, 1_000_000)),
            read(rings, "token_generation_strategy", convert=_token_strategy),
            read(rings, "spread_minimizing_zones", convert=_names),
            read([sharding] if sharding else [], "exclude_classic_histogram_bucket_label", convert=_flag),
        )
        if all(value is None for value in row):
            return Reading({"settings": {}}, problems)
        return Reading({"settings": columns_of(tables.SETTINGS, [row])}, problems)


def _child(node: Node, name: str) -> Node | None:
    return next((value for key, value, _ in _entries(node) if key == name), None) if node.kind == "mapping" else None


def _at(node: Node, path: tuple[str, ...]) -> Node | None:
    """Return the node at ``path`` below ``node``, or None."""
    found: Node | None = node
    for name in path:
        found = _child(found, name) if found is not None else None
    return found


def _whole(low: int, high: int) -> Callable[[Node], int]:
    """Make a converter to a whole number from ``low`` to ``high``. It raises ValueError."""

    def convert(node: Node) -> int:
        value = node.value()
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise ValueError(f"is not a whole number from {low} to {high}")
        return value

    return convert


def _flag(node: Node) -> bool:
    value = node.value()
    if not isinstance(value, bool):
        raise ValueError("is neither true nor false")
    return value


def _seconds(node: Node) -> float:
    if node.kind != "scalar":
        raise ValueError("is not a duration")
    return duration_ns(node.text[:100]) / 1e9


def _token_strategy(node: Node) -> str:
    if node.text not in _TOKENS:
        raise ValueError(f"is neither {' nor '.join(_TOKENS)}")
    return node.text


def _names(node: Node) -> list[str]:
    """Read a list of names, or one string with commas."""
    texts = [item.text for item in node.items] if node.kind == "list" else node.text.split(",")
    return [clean(text.strip(), 256) for text in texts[:64] if text.strip()]
