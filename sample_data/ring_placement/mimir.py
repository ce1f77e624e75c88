"""A Mimir cluster for the sample: eighteen ingesters in three zones, tenants with shards, and what ingesters hold of each."""

from __future__ import annotations

import datetime
import json
import random
from dataclasses import dataclass, field, replace
from hashlib import md5
from pathlib import Path

import numpy as np

from engine.ring_placement.dskit.token_ring import Instance, ShardRing, TokenRing
from sample_data.ring_placement.make import START_S
from sample_data.whole_files import put

ZONES = ("zone-a", "zone-b", "zone-c")
PER_ZONE, TOKENS = 6, 64
TENANTS: dict[str, tuple[int, int]] = {
    "platform": (0, 900_000), "checkout": (9, 420_000), "payments": (9, 380_000), "search": (6, 250_000),
    "ads": (6, 210_000), "mobile": (6, 120_000), "batch": (3, 60_000), "sandbox": (3, 20_000), "demo": (3, 4_000),
}  # fmt: skip
"""Shard size (0: the whole ring) and series of each tenant."""

OVERRIDES = "# runtime configuration of Mimir (-runtime-config.file)\noverrides:\n" + "".join(
    f"  {tenant}:\n    max_global_series_per_user: {4 * series}\n"
    + (f"    ingestion_tenant_shard_size: {size}\n" if size else "")
    for tenant, (size, series) in TENANTS.items()
)


@dataclass(frozen=True)
class Ingester:
    """One ingester. ``beat_s``: its last heartbeat, epoch seconds."""

    id: str
    zone: str
    state: str
    beat_s: int
    tokens: tuple[int, ...] = field(repr=False)


def ingesters(now_s: int = START_S) -> list[Ingester]:
    """Make all ingesters, healthy, each with tokens that depend on its name."""
    return [
        Ingester(f"ingester-{zone}-{k}", zone, "ACTIVE", now_s - k % 5, _tokens(f"ingester-{zone}-{k}"))
        for zone in ZONES
        for k in range(PER_ZONE)
    ]


def _tokens(name: str) -> tuple[int, ...]:
    return tuple(sorted(int.from_bytes(md5(f"{name}/{k}".encode()).digest()[:4], "big") for k in range(TOKENS)))


def page(members: list[Ingester], now_s: int) -> bytes:
    """Encode the ring page (``/ingester/ring``)."""
    shards = [
        {
            "id": m.id, "state": "UNHEALTHY" if now_s - m.beat_s > 60 else m.state,
            "address": f"10.44.{ZONES.index(m.zone)}.{10 + k % PER_ZONE}:9095", "timestamp": _rfc3339(m.beat_s),
            "registered_timestamp": _rfc3339(START_S - 86400 * 40), "read_only": False,
            "read_only_updated_timestamp": "0001-01-01T00:00:00Z", "zone": m.zone, "tokens": list(m.tokens),
        }
        for k, m in enumerate(sorted(members, key=lambda m: m.id))
    ]  # fmt: skip
    return json.dumps({"shards": shards, "now": _rfc3339(now_s)}).encode() + b"\n"


def metrics(members: list[Ingester], series: dict[str, float], rng: random.Random) -> bytes:
    """Encode the counters of series in memory that the ingesters expose, and the replication factor."""
    ring = TokenRing.of([Instance(m.id, m.zone, tokens=np.array(m.tokens, dtype=np.int64)) for m in members], 3, True)
    shards = ShardRing(ring, START_S)
    created, removed = (f"cortex_ingester_memory_series_{word}_total" for word in ("created", "removed"))
    lines: list[str] = ["# TYPE cortex_distributor_replication_factor gauge", "cortex_distributor_replication_factor 3"]
    made: list[str] = []
    gone: list[str] = []
    for tenant, count in series.items():
        chosen = shards.shard(tenant, TENANTS[tenant][0])
        subring = ring.subring(chosen)
        for k, own in zip(chosen.tolist(), subring.ownership.tolist(), strict=True):
            held = round(count * own / 2**32 * rng.uniform(0.98, 1.02))
            labels = f'{{instance="{ring.ids[k]}",user="{tenant}"}}'
            made.append(f"{created}{labels} {3 * held}")
            gone.append(f"{removed}{labels} {2 * held}")
    lines += [f"# TYPE {created} counter", *made, f"# TYPE {removed} counter", *gone]
    return ("\n".join(lines) + "\n").encode()


def pages(
    members: list[Ingester], series: dict[str, float], now_s: int, target: Path, seed: int = 7
) -> dict[Path, bytes]:
    """Encode the cluster's files, which lie in the folder ``mimir`` below ``target``."""
    return {
        target / "mimir" / "ingester-ring.json": page(members, now_s),
        target / "mimir" / "overrides.yaml": OVERRIDES.encode(),
        target / "mimir" / "ingesters.prom": metrics(members, series, random.Random(seed)),
    }


def fresh_series() -> dict[str, float]:
    """Return the series of each tenant as the sample begins."""
    return {tenant: float(series) for tenant, (_, series) in TENANTS.items()}


def restarting(members: list[Ingester], zone: str, state: str) -> list[Ingester]:
    """Return the members with those of ``zone`` in another state."""
    return [replace(m, state=state) if m.zone == zone else m for m in members]


def _rfc3339(seconds: int) -> str:
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def main() -> None:
    """Write the static sample."""
    put(pages(ingesters(), fresh_series(), START_S, Path(__file__).parent / "files"))


if __name__ == "__main__":
    main()
