"""The options of ring placement: one value of ``RingParameters`` is one scenario."""

from __future__ import annotations

import math
from typing import Annotated, Literal, get_args

from engine.core.parameters import Parameters, option
from engine.core.units import parse_size
from engine.formats.timestamps import epoch_ns

Regime = Literal["transient", "unhealthy", "left", "returned"]
"""What the ring knows of a failure: A nothing yet; heartbeats are too old, but the members still registered (segment writers
are gone then); B the members are gone; C they are back."""
Strategy = Literal["auto", "segment-writer", "token-ring", "partition-ring"]
Operation = Literal["write_no_extend", "write", "read", "reporting"]
Sweep = Literal["", "nodes", "zones", "pairs", "random", "leaving"]
LoadSource = Literal["auto", "stats", "usage", "table", "ingest", "sent", "blocks", "series", "received"]


def parse_capacity(entries: tuple[str, ...]) -> tuple[int | None, dict[str, int]]:
    """Parse capacities. Returns that of every node (None: not given) and the exceptions by node ID. Raises ValueError."""
    every_node, by_node = None, {}
    for entry in entries:
        name, sign, size = entry.rpartition("=")
        if sign:
            by_node[name] = parse_size(size)
        else:
            every_node = parse_size(entry)
    return every_node, by_node


def parse_now(text: str) -> int:
    """Parse an instant (RFC 3339, or epoch seconds or milliseconds) to epoch ns. Raises ValueError."""
    try:
        number = float(text)
    except ValueError:
        return epoch_ns(text)
    if not math.isfinite(number) or abs(number) >= 1e15:
        raise ValueError(f"{text!r} is not a time")
    return round(number * (1_000_000 if abs(number) >= 1e11 else 1_000_000_000))


class RingParameters(Parameters, frozen=True, kw_only=True):
    """Which state, which scenario, what to list."""

    now: Annotated[
        str | None,
        option("Judge heartbeats at this time (RFC 3339 or epoch); not set: the ring file's own time"),
    ] = None
    fail: Annotated[tuple[str, ...], option("Nodes that fail, by ID, or whole zones as zone:NAME", what_if=True)] = ()
    regime: Annotated[
        Regime,
        option(
            "What the ring knows: transient (A, the crash is not noticed yet), unhealthy (heartbeats are too old, the "
            "members still registered), left (B, the members are gone), returned (C, they are back)",
            choices=get_args(Regime),
            what_if=True,
        ),
    ] = "transient"
    leaving: Annotated[
        tuple[str, ...],
        option("Nodes that are LEAVING (a rolling restart), by ID, or whole zones as zone:NAME", what_if=True),
    ] = ()
    tenant_shards: Annotated[
        int | None,
        option("What if every tenant had this shard limit (0 = none); not set: as configured", low=0, what_if=True),
    ] = None
    dataset_shards: Annotated[
        int | None,
        option(
            "What if every dataset had this shard limit; not set: as configured", low=0, high=1_000_000, what_if=True
        ),
    ] = None
    tokens: Annotated[
        int | None,
        option("What if every node had this many tokens; not set: as now", low=0, high=1024, what_if=True),
    ] = None
    scale: Annotated[
        int | None,
        option("What if the ring had this many nodes; not set: as now", low=1, high=2000, what_if=True),
    ] = None
    scale_ids: Annotated[
        Literal["plain", "padded"],
        option(
            "IDs of the nodes: plain, or with zero-padded ordinals, which sort by number",
            choices=("plain", "padded"),
            what_if=True,
        ),
    ] = "plain"
    home_zone: Annotated[
        str | None, option("What if only the members of this zone were used (home-zone routing)", what_if=True)
    ] = None
    capacity: Annotated[
        tuple[str, ...],
        option("What a node can take: one size for all, and exceptions as NODE=SIZE (8000000, 8MB, 64MiB)", unit="B/s"),
    ] = ()
    cores: Annotated[
        float | None,
        option("Cores per node: capacity is 8 MB/s of uncompressed profiles for each", low=0.01, high=100_000),
    ] = None
    cascade: Annotated[
        bool,
        option(
            "Nodes above their capacity fail next, until nothing changes (needs capacity, regime transient)",
            what_if=True,
        ),
    ] = False
    cascade_factor: Annotated[
        float, option("A node fails in a cascade above its capacity times this", low=0.01, high=1000)
    ] = 1.0
    sweep: Annotated[
        Sweep,
        option(
            "List many scenarios, worst first: every node, every zone, all pairs, random sets, or every node LEAVING",
            choices=get_args(Sweep),
        ),
    ] = ""
    random_size: Annotated[int, option("Nodes that fail together in a random sweep", low=1, high=5000)] = 3
    draws: Annotated[int, option("Draws of a random sweep", low=1, high=20_000)] = 200
    seed: Annotated[int, option("Seed of a random sweep", low=0)] = 1
    load: Annotated[
        LoadSource,
        option(
            "Where the load is from; auto takes the first of these that the files have", choices=get_args(LoadSource)
        ),
    ] = "auto"
    ring: Annotated[str, option("Use the ring file whose path contains this; empty: the newest")] = ""
    heartbeat_timeout: Annotated[
        float | None,
        option(
            "A member is UNHEALTHY when its heartbeat is older; 0 never; not set: a page's own states stand, and otherwise as a "
            "configuration in the files says, else 60 (Tempo 300)",
            unit="s",
            low=0,
            high=1e9,
        ),
    ] = None
    explain: Annotated[
        str | None,
        option(
            'A key to explain: TENANT/DATASET, TENANT/DATASET@FINGERPRINT or TENANT{name="value",...}; '
            "of a token ring also TENANT or TENANT@TOKEN"
        ),
    ] = None
    strategy: Annotated[
        Strategy,
        option(
            "Kind of ring: segment-writer (Pyroscope), token-ring or partition-ring (Mimir, Loki, Tempo); auto says what "
            "the files tell",
            choices=get_args(Strategy),
        ),
    ] = "auto"
    replication_factor: Annotated[
        int | None,
        option(
            "Replicas of a key of a token ring; not set: the configuration or gauge in the files, else what the system does: 1 "
            "for Tempo and Pyroscope, 3 for others",
            low=1,
            high=100,
        ),
    ] = None
    zone_awareness: Annotated[
        Literal["auto", "on", "off"],
        option(
            "One replica per zone in a token ring; auto: as a configuration in the files says, else on if every member has "
            "a zone",
            choices=("auto", "on", "off"),
        ),
    ] = "auto"
    operation: Annotated[
        Operation,
        option(
            "Operation by which keys of a token ring are placed: that of Mimir and Loki does not extend the set",
            choices=get_args(Operation),
        ),
    ] = "write_no_extend"
    read_operation: Annotated[
        Literal["auto", "read", "mimir", "active"],
        option(
            "Operation of queries: read (Loki, Tempo, Cortex), mimir or active (Pyroscope); auto: that of the system",
            choices=("auto", "read", "mimir", "active"),
        ),
    ] = "auto"
    read_sharding: Annotated[
        Literal["auto", "on", "off"],
        option(
            "Queries ask only the shard of their tenant; auto: as a configuration in the files says, else as the system does",
            choices=("auto", "on", "off"),
        ),
    ] = "auto"
    lookback: Annotated[
        float | None,
        option(
            "How far back a tenant's queries ask former members of its shard, 0 never; not set: as a configuration in the files "
            "says, else 13 h (Tempo 1 h)",
            unit="s",
            low=0,
            high=1e9,
        ),
    ] = None
    request_series: Annotated[
        int,
        option("Series (or streams, traces) of one write request, which fails as a whole", low=1, high=10_000_000),
    ] = 2_000
    exclude_le: Annotated[
        Literal["auto", "on", "off"],
        option(
            "Place series of Mimir without their label le; auto: as a configuration in the files says, else off",
            choices=("auto", "on", "off"),
        ),
    ] = "auto"
    safe_loss: Annotated[
        float,
        option(
            "A shard size is safe if no two failing nodes lose more than this share of a tenant's keys", low=0, high=1
        ),
    ] = 0.05
    placement_rows: Annotated[
        int, option("Most rows of the placements table; the largest loads are kept", low=0, high=100_000_000)
    ] = 100_000

    def __post_init__(self) -> None:
        """Refuse texts that are no time or size. Raises ValueError."""
        if self.now is not None:
            parse_now(self.now)
        parse_capacity(self.capacity)
