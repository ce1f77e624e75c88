"""What ring placement reads, recognised by content: rings, limits, rules, stats, loads, metrics and blocks."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import msgspec
import polars as pl

from engine.formats import prometheus, snappy
from engine.formats.protobuf import WireError
from engine.problems import Problem
from engine.reading import Reading, Source
from engine.ring_placement import tables
from engine.ring_placement.pyroscope.ring import KNOWN_STATES
from engine.ring_placement.reading import load_table, messages
from engine.tables import Table
from engine.text import clean

_STATE_NUMBERS = ("ACTIVE", "LEAVING", "PENDING", "JOINING", "LEFT")
_INT64 = 2**63 - 1
_SANE_RATE = 2**53
"""Largest rate or size believed, in bytes: beyond it numbers are no longer exact, and none is real."""


class _Document:
    """A file that is read whole each time it changes."""

    id: ClassVar[str]
    title: ClassVar[str]
    append = False
    version = 1
    tables: ClassVar[tuple[Table, ...]]
    rows = "rows"


def _json(source: Source, data: bytes, final: bool) -> tuple[Any, Reading | None]:
    """The JSON value, or the reading that says why there is none."""
    try:
        return msgspec.json.decode(data), None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        reason = f"is not JSON (yet): {error}"
        return None, Reading(problems=[Problem.at(source.path, "bad-json", reason)], complete=False)


class _Lines:
    """Line numbers of JSON strings that are looked for in file order, each byte passed once."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at, self.line = 0, 1

    def of(self, text: Any) -> int:
        """1-based line of the next ``"text"``; where it is not found, the line reached so far."""
        at = self._data.find(msgspec.json.encode(text), self._at) if isinstance(text, str) else -1
        if at >= 0:
            self.line += self._data.count(b"\n", self._at, at)
            self._at = at
        return self.line


def _line_of(data: bytes, text: str) -> int | None:
    """1-based line of the first ``"text"``; None where it is not found."""
    at = data.find(msgspec.json.encode(text))
    return data.count(b"\n", 0, at) + 1 if at >= 0 else None


_FRACTION = re.compile(
    r"^(\d{4}-\d{2}-\d{2})[T ](\d{2}:\d{2}:\d{2})(?:\.(\d{1,9})\d*)?\s*(Z|UTC|[+-]\d{2}:?\d{2}(?: \w+)?)?$"
)


def epoch_ns(text: str) -> int:
    """RFC 3339 (also Go's default text form) to epoch nanoseconds, years 1 to 9999. Raises ValueError."""
    found = _FRACTION.match(text.strip().split(" m=")[0])
    if found is None:
        raise ValueError(f"{text[:60]!r} is no time")
    date, clock, fraction, zone = found.groups()
    offset = "+00:00" if zone in (None, "Z", "UTC") else zone.split()[0]
    moment = datetime.datetime.fromisoformat(f"{date}T{clock}{offset}")
    since = moment - datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
    return (since.days * 86400 + since.seconds) * 10**9 + int((fraction or "0").ljust(9, "0"))


class _Members:
    """Collects members of one ring file and the problems met on the way."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.problems: list[Problem] = []
        self.columns: dict[str, list[Any]] = {c.name: [] for c in tables.MEMBERS.columns}
        self._seen: set[str] = set()
        self._total = 0

    def problem(self, kind: str, reason: str, line: int | None = None, byte: int | None = None) -> None:
        self.problems.append(Problem.at(self.path, kind, reason, line=line, byte=byte))

    def add(
        self,
        name: Any,
        state: str,
        zone: Any,
        tokens: int,
        address: Any,
        heartbeat_s: int | None,
        registered_s: int | None,
        read_only: Any,
        line: int | None = None,
        byte: int | None = None,
    ) -> None:
        if not isinstance(name, str) or not name:
            self.problem("bad-member", "a member without an ID is left out", line, byte)
            return
        shown = clean(name, 512)
        if shown != name:
            self.problem("odd-id", f"the ID {name!r} is shown and sorted as {shown}", line, byte)
        if shown in self._seen:
            self.problem("duplicate-id", f"member {shown} is listed more than once; the first one is used", line, byte)
            return
        self._seen.add(shown)
        if state not in KNOWN_STATES:
            self.problem("unknown-state", f"member {shown} has the unknown state {clean(state, 40)!r}: not placed",
                         line, byte)  # fmt: skip
            state = clean(state, 40) or "UNKNOWN"
        elif state == "LEFT":
            self.problem("left-member", f"member {shown} is a LEFT tombstone: shown, never placed", line, byte)
        elif tokens == 0 and state in ("ACTIVE", "LEAVING"):
            self.problem("no-tokens", f"member {shown} is {state} but has no tokens: it owns no shard", line, byte)
        self._total += tokens
        for column, value in zip(
            self.columns,
            (shown, state, clean(str(zone or ""), 256), tokens, clean(str(address or ""), 256), heartbeat_s,
             registered_s, bool(read_only)),
            strict=True,
        ):  # fmt: skip
            self.columns[column].append(value)

    def reading(self, kind: str, now_ns: int | None) -> Reading:
        if not self.columns["id"]:
            self.problem("empty-ring", "the ring lists no usable member")
        if self._total > 4096:
            self.problem("many-shards", f"{self._total} tokens: Pyroscope up to v1.18.0 panics above 4096 shards")
        return Reading(
            {
                "rings": {"kind": [kind], "now_ns": [now_ns], "members": [len(self.columns["id"])]},
                "members": self.columns,
            },
            self.problems,
        )


class RingPage(_Document):
    """The ring page as JSON (``/ring-segment-writer``)."""

    id = "ring-page"
    title = "ring page JSON (curl -H 'Accept: application/json' …/ring-segment-writer)"
    tables = (tables.RINGS, tables.MEMBERS)

    _HEAD = re.compile(rb'"shards"\s*:\s*(?:\[\s*(?:\]|\{)|null)')

    def recognise(self, name: str, head: bytes) -> bool:
        """JSON with a list ``shards`` of ring members."""
        text = head.lstrip(b"\xef\xbb\xbf \t\r\n")
        if not text.startswith(b"{") or not self._HEAD.search(text):
            return False
        return b'"state"' in text or b'"tokens"' in text or b'"now"' in text

    def read(self, source: Source, data: bytes, state: Any, final: bool) -> Reading:
        """Members and the page's own time."""
        body, failed = _json(source, data, final)
        if failed:
            return failed
        members = _Members(source.path)
        now_ns = None
        if isinstance(body, dict) and body.get("now") is not None:
            try:
                now_ns = epoch_ns(str(body["now"]))
            except ValueError as error:
                members.problem("bad-time", f"now: {error}; the file's own time is used", _line_of(data, "now"))
        listed = body.get("shards") if isinstance(body, dict) else None
        if listed is not None and not isinstance(listed, list):
            members.problem("bad-ring", "shards is not a list", _line_of(data, "shards"))
        lines = _Lines(data)
        lines.of("shards")
        for entry in listed if isinstance(listed, list) else ():
            if not isinstance(entry, dict):
                members.problem("bad-member", "an entry of shards is not an object", lines.line)
                continue
            name = entry.get("id")
            line = lines.of(name)
            times: list[int | None] = []
            for key in ("timestamp", "registered_timestamp"):
                value = entry.get(key)
                try:
                    times.append(None if value is None else epoch_ns(str(value)) // 10**9)
                except ValueError as error:
                    members.problem("bad-time", f"{clean(str(name), 80)}: {key}: {error}", line)
                    times.append(None)
            tokens = entry.get("tokens")
            if tokens is not None and not isinstance(tokens, list):
                members.problem("bad-tokens", f"{clean(str(name), 80)}: tokens is not a list", line)
            members.add(
                name,
                str(entry.get("state", "")),
                entry.get("zone"),
                len(tokens) if isinstance(tokens, list) else 0,
                entry.get("address"),
                times[0],
                times[1],
                entry.get("read_only"),
                line,
            )
        return members.reading("page", now_ns)


class Memberlist(_Document):
    """The memberlist key as JSON (``/memberlist?viewKey=…&format=json``)."""

    id = "memberlist-json"
    title = "memberlist key as JSON (…/memberlist?viewKey=collectors/segment-writer-ring&format=json)"
    tables = (tables.RINGS, tables.MEMBERS)

    _HEAD = re.compile(rb'"ingesters"\s*:\s*(?:\{|null)')

    def recognise(self, name: str, head: bytes) -> bool:
        """JSON with an object ``ingesters``."""
        text = head.lstrip(b"\xef\xbb\xbf \t\r\n")
        return text.startswith(b"{") and self._HEAD.search(text) is not None

    def read(self, source: Source, data: bytes, state: Any, final: bool) -> Reading:
        """Members with their true state; the file's time is its modification time."""
        try:
            body = msgspec.json.decode(data, type=dict[str, Any])
            pairs = _repeated_keys(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            return Reading(
                problems=[Problem.at(source.path, "bad-json", f"is not JSON (yet): {error}")], complete=False
            )
        members = _Members(source.path)
        for name in pairs:
            members.problem("duplicate-id", f"member {clean(name, 80)} is listed more than once; the last one is used")
        listed = body.get("ingesters")
        if listed is not None and not isinstance(listed, dict):
            members.problem("bad-ring", "ingesters is not an object", _line_of(data, "ingesters"))
        lines = _Lines(data)
        lines.of("ingesters")
        for name, entry in (listed if isinstance(listed, dict) else {}).items():
            line = lines.of(name)
            if not isinstance(entry, dict):
                members.problem("bad-member", f"{clean(name, 80)} is not an object", line)
                continue
            number = entry.get("state", 0)
            known = isinstance(number, int) and not isinstance(number, bool) and 0 <= number < len(_STATE_NUMBERS)
            times = []
            for key in ("timestamp", "registered_timestamp"):
                value = entry.get(key, 0 if key == "timestamp" else None)
                if value is None or (isinstance(value, int) and abs(value) <= _INT64 // 10**9):
                    times.append(value)
                else:
                    members.problem("bad-time", f"{clean(name, 80)}: {key} is not epoch seconds", line)
                    times.append(None)
            tokens = entry.get("tokens")
            if tokens is not None and not isinstance(tokens, list):
                members.problem("bad-tokens", f"{clean(name, 80)}: tokens is not a list", line)
            members.add(
                name,
                _STATE_NUMBERS[number] if known else str(number),
                entry.get("zone"),
                len(tokens) if isinstance(tokens, list) else 0,
                entry.get("addr"),
                times[0],
                times[1],
                entry.get("read_only"),
                line,
            )
        return members.reading("memberlist", None)


def _repeated_keys(data: bytes) -> list[str]:
    """Keys of ``ingesters`` that occur more than once (decoders keep the last one silently)."""
    if len(data) > 16 << 20:
        return []
    import json

    repeated: list[str] = []

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(items)
        if len(found) < len(items) and items and isinstance(items[0][1], dict):
            seen: set[str] = set()
            repeated.extend(dict.fromkeys(k for k, _ in items if k in seen or seen.add(k)))  # type: ignore[func-returns-value]
        return found

    try:
        json.loads(data, object_pairs_hook=pairs)
    except (ValueError, RecursionError):
        return []
    return repeated


class MemberlistBinary(_Document):
    """The memberlist key as downloaded (``?downloadKey=…``): a Snappy block of protobuf."""

    id = "memberlist-binary"
    title = "memberlist key as downloaded (…/memberlist?downloadKey=collectors/segment-writer-ring)"
    tables = (tables.RINGS, tables.MEMBERS)

    def recognise(self, name: str, head: bytes) -> bool:
        """A Snappy block that unpacks to a ring descriptor."""
        try:
            return messages.looks_like_ring_desc(snappy.unpack(head[:2048], part=True))
        except snappy.SnappyError:
            return False

    def read(self, source: Source, data: bytes, state: Any, final: bool) -> Reading:
        """Members with their true state."""
        members = _Members(source.path)
        try:
            found = messages.ring_desc(snappy.unpack(data))
        except (snappy.SnappyError, WireError) as error:
            problem = Problem.at(source.path, "bad-protobuf", str(error), byte=error.byte)
            return Reading(problems=[problem], complete=False)
        for one, byte in found:
            state_name = _STATE_NUMBERS[one.state] if 0 <= one.state < len(_STATE_NUMBERS) else str(one.state)
            sane = abs(one.timestamp) <= _INT64 // 10**9
            if not sane:
                members.problem("bad-time", f"{clean(one.id, 80)}: timestamp is not epoch seconds", byte=byte)
            members.add(one.id, state_name, one.zone, one.tokens, one.address, one.timestamp if sane else None,
                        one.registered or None, one.read_only, byte=byte)  # fmt: skip
        return members.reading("memberlist-binary", None)


class _Placement(_Document):
    """Shared recognition of the bucket's two placement files."""

    kind: ClassVar[str]

    def recognise(self, name: str, head: bytes) -> bool:
        """By content; by name where the beginning (only tenants, or damaged) does not tell."""
        found = messages.placement_kind(head)
        if found:
            return found == self.kind
        return name.endswith(".binpb") and self.kind in name


class PlacementRules(_Placement):
    """``adaptive_placement/placement_rules.binpb`` of the bucket."""

    id = "placement-rules"
    title = "placement_rules.binpb from the bucket"
    tables = (tables.RULES,)
    kind = "rules"

    def read(self, source: Source, data: bytes, state: Any, final: bool) -> Reading:
        """One row per rule."""
        try:
            rules = messages.placement_rules(data)
        except WireError as error:
            problem = Problem.at(source.path, "bad-protobuf", str(error), byte=error.byte)
            return Reading(problems=[problem], complete=False)
        problems: list[Problem] = []
        columns: dict[str, list[Any]] = {c.name: [] for c in tables.RULES.columns}
        for rule in rules.datasets:
            if max(rule.tenant_limit, rule.dataset_limit) > 2**31:
                problems.append(
                    Problem.at(source.path, "bad-limit", f"rule of {rule.tenant}/{rule.name}: limit too large")
                )
                continue
            row = (rule.tenant, rule.name, rule.tenant_limit, rule.dataset_limit, min(rule.load_balancing, 99))
            for column, value in zip(columns, (*row, rules.created_at), strict=True):
                columns[column].append(clean(value) if isinstance(value, str) else value)
        return Reading({"rules": columns}, problems)


class PlacementStats(_Placement):
    """``adaptive_placement/placement_stats.binpb`` of the bucket."""

    id = "placement-stats"
    title = "placement_stats.binpb from the bucket"
    tables = (tables.STATS,)
    kind = "stats"

    def read(self, source: Source, data: bytes, state: Any, final: bool) -> Reading:
        """One row per dataset and shard entry."""
        try:
            stats = messages.placement_stats(data)
        except WireError as error:
            problem = Problem.at(source.path, "bad-protobuf", str(error), byte=error.byte)
            return Reading(problems=[problem], complete=False)
        problems: list[Problem] = []
        columns: dict[str, list[Any]] = {c.name: [] for c in tables.STATS.columns}
        for dataset in stats.datasets:
            tenant, name = clean(dataset.tenant), clean(dataset.name)
            for (shard, owner), usage in zip(dataset.shards, dataset.usage, strict=True):
                if usage > _SANE_RATE or shard > 2**31 or dataset.std_dev > _SANE_RATE:
                    reason = f"{tenant}/{name}: shard {shard} has an impossible rate or ID and is left out"
                    problems.append(Problem.at(source.path, "bad-rate", reason))
                    continue
                row = (tenant, name, shard, clean(owner, 512), usage, dataset.std_dev, stats.created_at)
                for column, value in zip(columns, row, strict=True):
                    columns[column].append(value)
        return Reading({"stats": columns}, problems)


class Blocks(_Document):
    """``block.bin`` of segments and compacted blocks: only the footer is used."""

    id = "block"
    title = "block.bin of segments and blocks (metadata footer)"
    tables = (tables.BLOCKS,)

    def recognise(self, name: str, head: bytes) -> bool:
        """By the name Pyroscope gives it, or as what begins like Parquet and is not called so."""
        if name == "block.bin" or name.endswith((".block.bin", "-block.bin")):
            return True
        return head.startswith(b"PAR1") and not name.endswith((".parquet", ".pq"))

    def read(self, source: Source, data: bytes, state: Any, final: bool) -> Reading:
        """One row per dataset; ordinary Parquet under a name of its own gives nothing."""
        if data.endswith(b"PAR1") and not source.path.endswith("block.bin"):
            return Reading()
        try:
            block = messages.block_footer(data)
        except messages.NoFooter as error:
            return Reading(problems=[Problem.at(source.path, "no-footer", str(error))], complete=False)
        except WireError as error:
            problem = Problem.at(source.path, "bad-footer", str(error), byte=error.byte)
            return Reading(problems=[problem], complete=False)
        problems: list[Problem] = []
        columns: dict[str, list[Any]] = {c.name: [] for c in tables.BLOCKS.columns}
        for dataset in block.datasets:
            if dataset.size > _SANE_RATE or not 0 <= block.shard < 2**31:
                problems.append(Problem.at(source.path, "bad-size", f"{dataset.name}: impossible size or shard"))
                continue
            row = (clean(block.id, 64), block.shard, block.level if block.level < 2**31 else None, block.min_ms,
                   block.max_ms, clean(dataset.tenant), "" if dataset.index else clean(dataset.name), dataset.size,
                   clean(block.created_by, 512) or None)  # fmt: skip
            for column, value in zip(columns, row, strict=True):
                columns[column].append(value)
        return Reading({"blocks": columns}, problems)


_METRICS = {
    "pyroscope_segment_writer_client_sent_bytes_sum": ("addr",),
    "pyroscope_segment_writer_segment_ingest_bytes_sum": ("instance", "pod"),
    "pyroscope_adaptive_placement_dataset_shard_limit": (),
    "pyroscope_adaptive_placement_dataset_shard_usage_bytes_per_second": (),
    "pyroscope_adaptive_placement_dataset_shard_usage_per_shard_bytes_per_second": ("shard_owner",),
    "pyroscope_ring_members": (),
}
_LABELS = ("tenant", "dataset", "shard", "shard_id", "shard_owner", "addr", "instance", "pod", "load_balancing",
           "name", "state")  # fmt: skip


class Metrics(_Document):
    """A Prometheus text exposition with the placement metrics."""

    id = "placement-metrics"
    title = "Prometheus text with pyroscope_segment_writer_… and pyroscope_adaptive_placement_… metrics"
    tables = (tables.METRICS,)

    def recognise(self, name: str, head: bytes) -> bool:
        """Any text exposition: the metrics wanted may come late in it."""
        return prometheus.looks_like(head)

    def read(self, source: Source, data: bytes, state: Any, final: bool) -> Reading:
        """One row per sample of a known metric."""
        if b"pyroscope_" not in data:
            return Reading()
        wanted = "^(?:" + "|".join(_METRICS) + ")"
        scrape = prometheus.parse(source.path, data, _LABELS, wanted)
        problems = list(scrape.problems)
        frame = scrape.samples.filter(pl.col("metric").is_in(list(_METRICS)))
        value = pl.col("value")
        bad = frame.filter(~value.is_finite() | (value < 0) | (value > float(_SANE_RATE)))
        if bad.height:
            reason = f"{bad['metric'][0]} has a value that is negative, not finite or impossible"
            problems.append(Problem.at(source.path, "bad-rate", reason, line=int(bad["line"][0]), count=bad.height))
        frame = frame.filter(value.is_finite() & (value >= 0) & (value <= float(_SANE_RATE)))
        shard = pl.coalesce("shard_id", "shard")
        rows = frame.select(
            "metric",
            "tenant",
            "dataset",
            shard.cast(pl.Int64, strict=False).alias("shard"),
            pl.coalesce("shard_owner", "addr", "instance", "pod", "state").alias("instance"),
            "value",
            "load_balancing",
            "time_ms",
            "line",
            shard.is_not_null().alias("said"),
        )
        odd = rows.filter(pl.col("said") & (pl.col("shard").is_null() | ~pl.col("shard").is_between(0, 2**31)))
        if odd.height:
            problems.append(
                Problem.at(source.path, "bad-shard", "a shard label is no shard ID", line=int(odd["line"][0]),
                           count=odd.height)
            )  # fmt: skip
        rows = rows.filter(~pl.col("said") | pl.col("shard").is_between(0, 2**31))
        return Reading({"metrics": rows.drop("line", "said")}, problems)


class LoadTable(_Document):
    """A plain table ``tenant,dataset,bytes_per_s[,fingerprint]``, CSV or Parquet."""

    id = "load-table"
    title = "CSV or Parquet table tenant,dataset,bytes_per_s[,fingerprint]"
    tables = (tables.LOADS,)

    def recognise(self, name: str, head: bytes) -> bool:
        """By its header line, or a Parquet file that is not a block."""
        if head.startswith(b"PAR1"):
            return not name.endswith("block.bin")
        return load_table.is_header(head.split(b"\n", 1)[0])

    def read(self, source: Source, data: bytes, state: Any, final: bool) -> Reading:
        """One row per line."""
        if data.startswith(b"PAR1"):
            if not data.endswith(b"PAR1") and not source.path.endswith((".parquet", ".pq")):
                return Reading()  # a block under another name
            return load_table.read_parquet(source, data)
        return load_table.read_csv(source, data, final)


def all_kinds() -> Iterator[Any]:
    """Every reader, the most certain recognition first."""
    from engine.ring_placement.reading.overrides import Overrides

    yield from (RingPage(), Memberlist(), PlacementRules(), PlacementStats(), Blocks(), LoadTable(), Overrides())
    yield from (Metrics(), MemberlistBinary())


KINDS: Sequence[Any] = tuple(all_kinds())
