"""Makes the static sample: a Pyroscope write path of twelve segment writers in three zones, in native formats.

``python -m sample_data.ring_placement.make`` writes ``files/`` again; the same seed gives the same bytes.
"""

from __future__ import annotations

import datetime
import json
import random
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import numpy as np

from engine.ring_placement.pyroscope.adaptive_placement import (
    DEFAULTS,
    Allocator,
    DatasetStats,
    DistributionStats,
    Limits,
    Rule,
    Rules,
    integer_std_dev,
)
from engine.ring_placement.pyroscope.ring import Member, Ring, jump, subrings, xxh64_each
from engine.ring_placement.reading.bucket_files import Block, BlockDataset
from sample_data.ring_placement.encode import write_block, write_rules, write_stats
from sample_data.whole_files import put

START_S = 1_767_225_600
"""Time of the static sample: 2026-01-01T00:00:00Z."""

OVERRIDES = """# per-tenant limits (-runtime-config.file)
overrides:
  checkout:
    adaptive_placement_tenant_shards: 16
    adaptive_placement_default_dataset_shards: 2
  batch:
    adaptive_placement_load_balancing: round-robin
    adaptive_placement_max_dataset_shards: 12
  sandbox:
    adaptive_placement_tenant_shards: 4
"""
LIMITS = {
    "checkout": msgspec.structs.replace(DEFAULTS, tenant_shards=16, default_dataset_shards=2),
    "batch": msgspec.structs.replace(DEFAULTS, load_balancing="round-robin", max_dataset_shards=12),
    "sandbox": msgspec.structs.replace(DEFAULTS, tenant_shards=4),
}
TENANTS = ("checkout", "batch", "sandbox", "search", "payments", "ads")
SERVICES = ("api", "worker", "gateway", "cart", "index", "ranker", "billing", "mailer", "report", "cache")


@dataclass
class Cluster:
    """An imagined cluster at one moment. ``rates``: bytes per second by (tenant, service)."""

    members: list[Member]
    rates: dict[tuple[str, str], float]
    now_s: int = START_S
    allocators: dict[tuple[str, str], Allocator] = field(default_factory=dict)

    @classmethod
    def fresh(cls, seed: int = 5, now_s: int = START_S, size: int = 12) -> Cluster:
        """Make the cluster as the sample begins."""
        rng = random.Random(seed)
        members = [
            Member(
                f"segment-writer-{i}",
                "ACTIVE",
                f"zone-{'abc'[i % 3]}",
                4,
                f"10.42.{i % 3}.{10 + i}:9095",
                now_s - i % 5,
            )
            for i in range(size)
        ]
        rates = {
            (tenant, service): round(rng.lognormvariate(11.6, 1.1))
            for tenant in TENANTS
            for service in SERVICES
            if rng.random() < 0.8
        }
        return cls(members, dict(sorted(rates.items())), now_s)

    def limits(self, tenant: str) -> Limits:
        """Return the limits of a tenant."""
        return LIMITS.get(tenant, DEFAULTS)

    def page(self) -> bytes:
        """Encode the ring page."""
        shards = []
        for number, m in enumerate(sorted(self.members, key=lambda m: m.id.encode())):
            rng = random.Random(m.id)
            heartbeat = m.heartbeat_s if m.heartbeat_s is not None else self.now_s
            stale = self.now_s - heartbeat > 60
            shards.append(
                {
                    "id": m.id,
                    "state": "UNHEALTHY" if stale else m.state,
                    "address": m.address,
                    "timestamp": _rfc3339(heartbeat),
                    "registered_timestamp": _rfc3339(START_S - 86400 * 30 + number * 37),
                    "read_only": False,
                    "read_only_updated_timestamp": "0001-01-01T00:00:00Z",
                    "zone": m.zone,
                    "tokens": sorted(rng.randrange(2**32) for _ in range(m.tokens)),
                }
            )
        return json.dumps({"shards": shards, "now": _rfc3339(self.now_s)}, indent=1).encode() + b"\n"

    def ring(self) -> Ring:
        """Lay out the ring as distributors see it."""
        return Ring.of(m.at(self.now_s * 10**9, 60) for m in self.members)

    def placement(self) -> tuple[Rules, DistributionStats]:
        """Build rules and stats as the metastore would have them."""
        rules: list[Rule] = []
        for (tenant, service), rate in self.rates.items():
            limits = self.limits(tenant)
            allocator = self.allocators.setdefault((tenant, service), Allocator())
            shards = allocator.observe(round(rate), self.now_s * 10**9, limits)
            mode = 2 if limits.load_balancing == "round-robin" else 1
            rules.append(Rule(tenant, service, limits.tenant_limit, shards, mode))
        ring = self.ring()
        stats: list[DatasetStats] = []
        if ring.total:
            ranges = subrings(
                jump(xxh64_each(r.tenant for r in rules), ring.total),
                xxh64_each(r.name for r in rules),
                np.array([r.tenant_limit for r in rules]),
                np.array([r.dataset_limit for r in rules]),
                ring.total,
            )
            for row, rule in enumerate(rules):
                size = int(ranges.dataset_size[row])
                positions = ranges.positions(np.full(size, row), np.arange(size)).tolist()
                rate = self.rates[rule.tenant, rule.name]
                entries = sorted(
                    (p + 1, ring.ids[ring.owner[p]], self._share(rule, k, size, rate)) for k, p in enumerate(positions)
                )
                usage = tuple(e[2] for e in entries)
                stored = integer_std_dev(usage) // 15  # as Pyroscope stores it: divided by the build interval
                stats.append(DatasetStats(rule.tenant, rule.name, tuple((e[0], e[1]) for e in entries), usage, stored))
        tenants = tuple(dict.fromkeys(r.tenant for r in rules))
        now_ns = self.now_s * 10**9
        return Rules(tenants, tuple(rules), now_ns), DistributionStats(tuple(stats), now_ns)

    @staticmethod
    def _share(rule: Rule, offset: int, size: int, rate: float) -> int:
        """Compute the load at one offset: fingerprints spread unevenly, random picks evenly."""
        if rule.load_balancing == 2:
            return round(rate / size)
        weight = [random.Random(f"{rule.tenant}/{rule.name}/{k}").uniform(0.4, 1.6) for k in range(size)]
        return round(rate * weight[offset] / sum(weight))


def _rfc3339(seconds: int) -> str:
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def segment(cluster: Cluster, stats: DistributionStats, shard: int, number: int) -> tuple[str, bytes]:
    """Make one small segment of ``shard``; only its footer is real. Returns its path and content."""
    rows = [
        (BlockDataset(d.tenant, d.name, max(1, usage // 2), False), owner)
        for d in stats.datasets
        for (s, owner), usage in zip(d.shards, d.usage, strict=True)
        if s == shard
    ]
    ulid = f"01KDVQ{shard:04d}{number:016d}"
    owner = rows[0][1] if rows else ""
    block = Block(ulid, shard, 0, (cluster.now_s - 1) * 1000, cluster.now_s * 1000, owner, tuple(r[0] for r in rows))
    return f"segments/{shard}/anonymous/{ulid}/block.bin", write_block(block, b"PAR1" + bytes(64))


def metrics(cluster: Cluster) -> bytes:
    """Encode a few lines of a distributor's exposition."""
    states = {"ACTIVE": 0, "JOINING": 0, "LEAVING": 0, "PENDING": 0, "Unhealthy": 0}
    for m in cluster.members:
        shown = m.at(cluster.now_s * 10**9, 60).state
        states["Unhealthy" if shown == "UNHEALTHY" else shown] += 1
    lines = ["# HELP pyroscope_ring_members Number of members in the ring", "# TYPE pyroscope_ring_members gauge"]
    lines += [f'pyroscope_ring_members{{name="segment-writer",state="{s}"}} {n}' for s, n in states.items()]
    return ("\n".join(lines) + "\n").encode()


def pages(cluster: Cluster, target: Path) -> dict[Path, bytes]:
    """Encode the cluster's files, which lie below ``target``."""
    rules, stats = cluster.placement()
    return {
        target / "ring.json": cluster.page(),
        target / "overrides.yaml": OVERRIDES.encode(),
        target / "metrics.prom": metrics(cluster),
        target / "adaptive_placement/placement_rules.binpb": write_rules(rules),
        target / "adaptive_placement/placement_stats.binpb": write_stats(stats),
    }


def main() -> None:
    """Write the static sample."""
    target = Path(__file__).parent / "files"
    cluster = Cluster.fresh()
    put(pages(cluster, target))
    _, stats = cluster.placement()
    for number, shard in enumerate((3, 17, 30)):
        name, data = segment(cluster, stats, shard, number)
        put({target / name: data})


if __name__ == "__main__":
    main()
