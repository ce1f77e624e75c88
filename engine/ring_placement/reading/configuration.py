"""YAML of Mimir, Loki, Tempo and Pyroscope: a configuration as a process shows it, as it is mounted, inside a Kubernetes
ConfigMap or Helm values, and the runtime configuration with the limits of tenants.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from engine.core.reading import Document, Reading, Source, clean
from engine.core.units import duration_ns
from engine.formats.yaml_tree import MOST_NODES, BadYaml, Node, documents
from engine.ring_placement import tables
from engine.ring_placement.reading.document import Found, columns_of, unreadable
from engine.ring_placement.reading.overrides import OTHER_PRODUCT, OverrideRows, children

MAX_BYTES = 16 << 20  # largest file that is read; its tree takes about fifty times the memory
SYSTEMS = ("mimir", "loki", "tempo", "pyroscope", "cortex")  # systems by the words that name them
_BLOCKS = frozenset(
    """target server distributor ingester querier common limits limits_config blocks_storage schema_config storage_config
    memberlist commonConfig segment_writer ingester_client metrics_generator pyroscopedb""".split()  # noqa: SIM905
)
"""Top keys of a configuration."""
_COMMON_WORDS = frozenset(("target", "server", "common"))  # keys of these that documents of other tools have as well
_ONLY = {"blocks_storage": "mimir", "schema_config": "loki", "limits_config": "loki", "commonConfig": "loki",
         "metrics_generator": "tempo", "pyroscopedb": "pyroscope", "segment_writer": "pyroscope"}  # fmt: skip
"""Top keys that one system alone has."""
_INTO = ("data", "stringData", "config", "structuredConfig", "runtimeConfig", "items", "spec", "values")
"""Keys of Kubernetes objects and Helm values below which a configuration may lie."""
_DEEPEST = 6  # levels of such keys that are followed
_RINGS = (("ingester", "ring"), ("ingester", "lifecycler", "ring"), ("ingester", "config"), ("common", "ring"), ("common",),
          ("commonConfig", "ring"), ("commonConfig",))  # fmt: skip
"""Paths of the ring of ingesters: in Mimir; in Loki, Tempo and Pyroscope; in Tempo's chart; in Loki for all rings."""
_WRITERS = (("segment_writer", "lifecycler", "ring"),)  # path of the ring of Pyroscope's segment writers
_LIMITS = (
    ("limits",),
    ("limits_config",),
    ("overrides", "defaults", "ingestion"),
    ("overrides", "defaults"),
    ("overrides",),
)
"""Paths of the default limits: in Mimir, Loki, and Tempo's newer and older form."""
_TOKENS = ("random", "spread-minimizing")
_FLAGS = {
    **{f"ingester.ring.{name}": f"ingester.ring.{name}" for name in (
        "replication-factor", "zone-awareness-enabled", "heartbeat-timeout", "excluded-zones", "token-generation-strategy",
        "spread-minimizing-zones")},
    "distributor.replication-factor": "ingester.ring.replication-factor",
    "common.replication-factor": "ingester.ring.replication-factor",
    "distributor.zone-awareness-enabled": "ingester.ring.zone-awareness-enabled",
    "distributor.excluded-zones": "ingester.ring.excluded-zones",
    "ring.heartbeat-timeout": "ingester.ring.heartbeat-timeout",
    "segment-writer.distributor.excluded-zones": "segment-writer.lifecycler.ring.excluded-zones",
    "segment-writer.ring.heartbeat-timeout": "segment-writer.lifecycler.ring.heartbeat-timeout",
    "distributor.ingestion-tenant-shard-size": "limits.ingestion-tenant-shard-size",
    "limits.ingestion-partition-tenant-shard-size": "limits.ingestion-partitions-tenant-shard-size",
    "ingest-storage.ingestion-partition-tenant-shard-size": "limits.ingestion-partitions-tenant-shard-size",
    **{name: name for name in (
        "querier.shuffle-sharding-ingesters-enabled", "querier.shuffle-sharding-ingesters-lookback-period",
        "querier.query-ingesters-within", "blocks-storage.tsdb.retention-period",
        "distributor.sharding.exclude-classic-histogram-bucket-label")},
}  # fmt: skip
"""Command line arguments and the path of each in a configuration. Rings of other components have longer names."""
_ARGUMENT = re.compile(
    r"""(?<![\w.-])--?([a-z-]+\.(?:[a-z-]+\.)*[a-z-]+)(?![\w.-])(?:(?:=|\s+)["']?([\w.%][\w.,:%-]*))?"""
)
_NAMES_ARGUMENT = re.compile(
    rb"\.(?:replication-factor|zone-awareness-enabled|excluded-zones|heartbeat-timeout|token-generation-strategy"
    rb"|spread-minimizing-zones|(?:ingestion-(?:partition-)?)?tenant-shard-size|shuffle-sharding-ingesters|query-ingesters-within"
    rb"|retention-period|exclude-classic-histogram)"
)
_ARGUMENTS = re.compile(r"(?i)args$|^command$|^entrypoint$")
"""Keys of Kubernetes objects, Helm values and Compose files with command line arguments."""
_KEY = re.compile(rb"(?m)^[\"']?([A-Za-z_]+)[\"']?[ \t]*:")
_JOINED_KEY = re.compile(rb"(?m)^ *([A-Za-z_]+)[ \t]*:")
_SETTING = re.compile(
    rb"(?m)(?:^[ \t-]+|[{,][ \t]*)(?:replication_factor|zone_awareness_enabled|excluded_zones|heartbeat_timeout"
    rb"|shuffle_sharding_ingesters_enabled|query_ingesters_within|retention_period)[ \t]*:"
)
_LIMIT = re.compile(
    rb"(?m)^[ \t]+[\"']?(?:adaptive_placement_\w+|(?:ingestion_(?:partitions_)?)?tenant_shard_size)[\"']?[ \t]*:"
)


_NOTHING = Node("mapping", 1)


class _Part(msgspec.Struct, frozen=True):
    """A mapping that may be a configuration: its ``node``, that begins after ``base`` lines of the file, the ``key`` above it,
    and the ``system`` that the keys above name."""

    node: Node
    base: int
    key: str = ""
    system: str = ""


class _Parts(Found):
    """Finds the mappings of a file that may be configurations."""

    def __init__(self, path: str, has_arguments: bool) -> None:
        super().__init__(path)
        self.parts: list[_Part] = []
        self._seen: set[Node] = set()  # nodes that were visited: aliases share them
        self.has_arguments = has_arguments
        self._budget = iter(range(MOST_NODES))

    def read_text(self, text: str, base: int = 0, key: str = "", system: str = "", depth: int = 0) -> None:
        """Read all documents of a YAML text that begins ``base`` lines into the file."""
        complain = lambda reason, line: self.problem("bad-yaml", reason, base + line)  # noqa: E731
        try:
            nodes = documents(text, complain, self._budget)
        except BadYaml as error:
            self.problem("bad-yaml", f"is not YAML: {error}", None if error.line is None else base + error.line)
            return
        for node in nodes:
            if node.kind == "mapping":
                self._read_arguments(_Part(node, base, key, system))
                self._visit(_Part(node, base, key, system), depth)
            elif not node.is_null:  # null: after a last ---
                self.problem("bad-yaml", "the document is not a mapping", base + node.line)

    def _read_arguments(self, document: _Part) -> None:
        """Take the command line arguments in a document as configurations."""
        waiting, seen = [document] if self.has_arguments else [], set()
        while waiting:
            part = waiting.pop()
            if part.node in seen:
                continue
            seen.add(part.node)
            own = children(part.node) if part.node.kind == "mapping" else {}
            system = _system_of(own["image"][0].text if "image" in own else "") or part.system
            for key, (value, line) in own.items():
                if _ARGUMENTS.search(key):
                    self._add_arguments(_text_of(value), part.base + line, system)
                waiting.append(_Part(value, part.base, key, _system_of(key) or system))
            waiting += (_Part(item, part.base, part.key, part.system) for item in part.node.items)

    def _add_arguments(self, text: str, line: int, system: str) -> None:
        """Take the arguments in ``text``, which is in the ``line``, each as a configuration of its own."""
        for name, value in (found for found in _ARGUMENT.findall(text) if found[0] in _FLAGS):
            *path, last = _FLAGS[name].replace("-", "_").split(".")
            named = system or _system_of(text) or ("mimir" if name.startswith("ingester.ring") else "")
            lines = [f"{'  ' * depth}{key}:" for depth, key in enumerate([*path, last])]
            made = documents("\n".join(lines) + f" {value or 'true'}", lambda reason, line: None)
            self.parts += (_Part(node, line - len(lines), "arguments", named) for node in made)

    def _visit(self, part: _Part, depth: int) -> None:
        if part.node in self._seen or depth > _DEEPEST:
            return
        self._seen.add(part.node)
        self.parts.append(part)
        for key, (value, line) in children(part.node).items():
            system = _system_of(key)
            is_file = key.endswith((".yaml", ".yml"))
            if not (system or is_file or key in _INTO):
                continue
            system = system or part.system
            for each in value.items if value.kind == "list" else (value,):
                if each.kind == "mapping":
                    self._visit(_Part(each, part.base, key, system), depth + 1)
                elif each not in self._seen:
                    self._seen.add(each)
                    text = _decoded(each.text) if is_file and ":" not in each.text else each.text
                    if "\n" in text and (is_file or ":" in text):
                        self.read_text(text, part.base + line, key, system, depth + 1)


def _system_of(text: str) -> str:
    """Return the system that ``text`` names first in the order of ``SYSTEMS``, or ""."""
    return next((word for word in SYSTEMS if word in text.lower()), "")


def _text_of(node: Node) -> str:
    """Return command line arguments as one text: a line, a list of words, or a mapping of names to values."""
    if node.kind == "mapping":
        return " ".join(f"-{key.lstrip('-')}={_text_of(value)}" for key, (value, _) in children(node).items())
    return " ".join(item.text for item in node.items) if node.kind == "list" else node.text


class Configuration(Document):
    """A YAML file with settings, limits of tenants, or both."""

    id = "overrides"
    version = 2
    title = (
        "YAML of Mimir, Loki, Tempo or Pyroscope: /config (also ?mode=diff), mounted files, per-tenant overrides, ConfigMaps, "
        "Helm values, command line arguments in manifests"
    )
    keeps_versions = True
    tables = (tables.OVERRIDES, tables.SETTINGS)

    def recognise(self, name: str, head: bytes) -> bool:
        """Whether it is YAML with a key ``overrides``, with top keys of a configuration, or of a Kubernetes object or Helm values
        with one, or is named after overrides. A file without a YAML name must also hold a setting or limit of placement."""
        if head[:4] in (b"PAR1", b"\x28\xb5\x2f\xfd") or b"\x00" in head:
            return False
        if re.match(rb'\s*\{\s*"overrides"\s*:', head):
            return True
        if head.lstrip()[:1] in (b"{", b"["):
            # A configuration as JSON, or one inside a Kubernetes object, where its lines are joined.
            lines = re.sub(rb'\\n|[{,"]', b"\n ", head).replace(b"\n :", b":")
            blocks = {match.decode() for match in _JOINED_KEY.findall(lines)} & (_BLOCKS - _COMMON_WORDS)
            found = bool(blocks) and (_SETTING.search(lines) is not None or _LIMIT.search(lines) is not None)
            return found or (b'"spec"' in head and _NAMES_ARGUMENT.search(head) is not None)
        top = {match.decode() for match in _KEY.findall(head)}
        lowered, is_set = name.lower(), _SETTING.search(head) is not None
        count = len(top & _BLOCKS)
        if lowered.endswith((".yaml", ".yml")):
            leads = bool(top & {*_INTO}) or any(word in key.lower() for key in top for word in SYSTEMS)
            found = _names_overrides(head) or "overrides" in lowered or (leads and (is_set or b"onfig" in head))
            found = found or _NAMES_ARGUMENT.search(head) is not None
        else:
            found = _names_overrides(head) and _LIMIT.search(head) is not None
        return found or count > 1 or (count == 1 and (is_set or _system_of(lowered) != ""))

    def read(self, source: Source, data: bytes, state: Any, final: bool) -> Reading:
        """Read the settings of the ring, and one row per tenant with the limits as set (null: not set). An invalid value is a
        problem and counts as not set."""
        if len(data) > MAX_BYTES:
            return unreadable(source, "too-large", f"{len(data)} bytes are more than the {MAX_BYTES} that are read")
        found = _Parts(source.path, _NAMES_ARGUMENT.search(data) is not None)
        content = data.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "replace")
        if "\ufffd" in content and b"\xef\xbf\xbd" not in data:
            found.problem("not-utf8", "the file is not UTF-8; invalid bytes are replaced")
        found.read_text(content)
        rows = OverrideRows(
            source.path, not OTHER_PRODUCT.search(data) or b"adaptive_placement_" in data, found.problems
        )
        has_overrides, configured = False, []
        for part in found.parts:
            names = children(part.node)
            limits = names["overrides"][0] if "overrides" in names else None
            # In a configuration Tempo's key of that name has limits, or defaults, and no tenants.
            own = {key: value.kind for key, (value, _) in children(limits or _NOTHING).items()}
            if names.keys() & _BLOCKS and ("defaults" in own or set(own.values()) != {"mapping"}):
                configured.append(part)
            elif limits is not None:
                has_overrides = True
                rows.read_overrides(part.node, part.base)
        settings = _of_systems(configured, {part.system for part in found.parts} - {""}, rows)
        made = {"overrides": columns_of(tables.OVERRIDES, rows.rows), "settings": columns_of(tables.SETTINGS, settings)}
        if not (has_overrides or configured or rows.problems) and "overrides" in source.name.lower():
            rows.problem("no-overrides", "the file has no key overrides")
        if not (has_overrides or configured) and rows.problems:
            return Reading(problems=rows.problems, complete=False)
        return Reading(
            {name: rows for name, rows in made.items() if has_overrides or name == "settings"}, rows.problems
        )


def _names_overrides(head: bytes) -> bool:
    """Whether a key in ``head`` is ``overrides``, or the name of a YAML file of overrides inside a ConfigMap."""
    keys = {line.split(b":", 1)[0].strip(b" \t\"'") for line in head.split(b"\n") if b":" in line}
    return b"overrides" in keys or any(
        key.endswith((b".yaml", b".yml")) and (b"overrides" in key or b"runtime" in key) for key in keys
    )


def _decoded(text: str) -> str:
    """Return the file that a Kubernetes Secret holds as base64, or ``text`` if it is none."""
    try:
        return base64.b64decode(text, validate=True).decode()
    except ValueError:
        return text


Convert = Callable[[Node], Any]


def _of_systems(parts: Sequence[_Part], systems: set[str], found: Found) -> list[tuple[Any, ...]]:
    """Read the rows of table ``settings`` from all configurations of a file, whose keys name ``systems``; what is wrong goes to
    ``found``. If there is only one system, configurations that name none belong to it."""
    by_system: dict[str, list[_Part]] = {}
    for part in parts:
        own = part.system or min((_ONLY[key] for key in _ONLY.keys() & children(part.node).keys()), default="")
        by_system.setdefault(own, []).append(part)
    named = systems or by_system.keys() - {""}
    if len(named) == 1:
        by_system = {next(iter(named)): list(parts)}
    return [row for system in sorted(by_system) for row in _settings(by_system[system], system, found)]


class _Lookup:
    """Looks settings up in configurations; what is wrong goes to ``found``."""

    def __init__(self, parts: Sequence[_Part], found: Found) -> None:
        # Arguments win, then what a chart merges over its own configuration.
        self._parts = sorted(parts, key=lambda part: (part.key != "arguments", part.key != "structuredConfig"))
        self._found = found
        self._known: dict[Node, dict[str, tuple[Node, int]]] = {}

    def _at(self, node: Node | None, *path: str) -> Node | None:
        for name in path:
            if node is not None and node.kind == "scalar" and not node.is_null:  # such as a key that is cut
                self._found.problem("bad-setting", f"{clean(node.text, 80)!r} stands where settings should")
            if node is not None and node not in self._known:
                self._known[node] = children(node)
            node = None if node is None else self._known[node].get(name, (None, 0))[0]
        return node

    def read(self, paths: Sequence[tuple[str, ...]], *names: str, convert: Convert) -> Any:
        """Return the first value that one of ``names`` has at one of ``paths``, or None."""
        places = ((part, path, name) for path in paths for part in self._parts for name in names)
        for part, path, name in places:
            value = self._at(part.node, *path, name)
            if value is None or value.is_null:
                continue
            try:
                return convert(value)
            except ValueError as error:
                self._found.problem("bad-setting", f"{name} {error}", part.base + value.line)
        return None


def _settings(parts: Sequence[_Part], system: str, found: Found) -> list[tuple[Any, ...]]:
    """Make rows of table ``settings`` from configurations of one ``system``: one for the ring of ingesters, one for that of
    segment writers."""
    read, whole = _Lookup(parts, found).read, _whole(0, 1_000_000)
    querier = (("querier",),)
    sharded = read(querier, "shuffle_sharding_ingesters_enabled", convert=_flag)
    within = read(querier, "shuffle_sharding_ingesters_lookback_period", convert=_seconds)
    if sharded is None and within is not None:  # Cortex and Mimir's first versions have no flag: 0 asks the whole ring
        sharded = within > 0
    if within is None:  # a limit of tenants in later versions of Mimir
        within = read((*querier, *_LIMITS), "query_ingesters_within", convert=_seconds)
    kept = read((("blocks_storage", "tsdb"),), "retention_period", convert=_seconds)
    zoned = read(_RINGS, "zone_awareness_enabled", convert=_flag)
    if zoned is None:  # of Mimir's chart
        zoned = read((("ingester", "zoneAwareReplication"),), "enabled", convert=_flag)
    of_ingesters = (
        read(_RINGS, "replication_factor", convert=_whole(1, 100)),
        zoned,
        read(_RINGS, "heartbeat_timeout", convert=_seconds),
        read(_LIMITS, "ingestion_tenant_shard_size", "tenant_shard_size", convert=whole),
        read(_LIMITS, "ingestion_partitions_tenant_shard_size", convert=whole),
        read(_RINGS, "token_generation_strategy", convert=_token_strategy),
        read(_RINGS, "spread_minimizing_zones", convert=_names),
        read((("distributor", "sharding"),), "exclude_classic_histogram_bucket_label", convert=_flag),
        sharded,
        kept if within is None else within,
        read(_RINGS, "excluded_zones", convert=_names) or None,
    )
    timeout = read(_WRITERS, "heartbeat_timeout", convert=_seconds)
    excluded = read(_WRITERS, "excluded_zones", convert=_names) or None
    rows = ((of_ingesters, ""), ((None, None, timeout, *(None,) * 7, excluded), "segment-writer"))
    return [(*row, system, part) for row, part in rows if any(v is not None for v in row) or (system and not part)]


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
