"""Encodes the bucket's files of a cluster as Pyroscope stores them: placement rules, distribution stats, blocks."""

from __future__ import annotations

import struct

from engine.ring_placement.pyroscope.adaptive_placement import DistributionStats, Rules, Shard
from engine.ring_placement.reading.bucket_files import Block, crc32c
from sample_data.ring_placement.protobuf import write_bytes, write_int, write_packed


def write_rules(rules: Rules) -> bytes:
    """Encode placement rules as Pyroscope stores them."""
    index = {tenant: i for i, tenant in enumerate(rules.tenants)}
    out = b"".join(write_bytes(1, write_bytes(1, tenant.encode()), always=True) for tenant in rules.tenants)
    for rule in rules.datasets:
        body = (
            write_int(1, index[rule.tenant])
            + write_bytes(2, rule.name.encode())
            + write_int(3, rule.tenant_limit)
            + write_int(4, rule.dataset_limit)
            + write_int(5, rule.load_balancing)
        )
        out += write_bytes(2, body, always=True)
    return out + write_int(3, rules.created_at)


def stored_order(stats: DistributionStats) -> tuple[list[str], list[Shard]]:
    """List the tenants and shards of the stored form, in order of first use."""
    tenants = dict.fromkeys(d.tenant for d in stats.datasets)
    shards = dict.fromkeys(s for d in stats.datasets for s in d.shards)
    return list(tenants), list(shards)


def write_stats(stats: DistributionStats) -> bytes:
    """Encode distribution stats as Pyroscope stores them."""
    tenants, shards = stored_order(stats)
    tenant_at = {tenant: i for i, tenant in enumerate(tenants)}
    shard_at = {shard: i for i, shard in enumerate(shards)}
    out = b"".join(write_bytes(1, write_bytes(1, tenant.encode()), always=True) for tenant in tenants)
    for dataset in stats.datasets:
        body = (
            write_int(1, tenant_at[dataset.tenant])
            + write_bytes(2, dataset.name.encode())
            + write_packed(3, [shard_at[shard] for shard in dataset.shards])
            + write_packed(4, dataset.usage)
            + write_int(5, dataset.std_dev)
        )
        out += write_bytes(2, body, always=True)
    for shard, owner in shards:
        out += write_bytes(3, write_int(1, shard) + write_bytes(2, owner.encode()), always=True)
    return out + write_int(4, stats.created_at)


def write_block(block: Block, content: bytes) -> bytes:
    """Encode a block file: ``content``, metadata, footer."""
    strings = [""]

    def index_of(name: str) -> int:
        if name not in strings:
            strings.append(name)
        return strings.index(name)

    created_by = index_of(block.created_by)
    datasets = b""
    for d in block.datasets:
        body = write_int(1, index_of(d.tenant)) + write_int(2, index_of(d.name))
        datasets += write_bytes(10, body + write_int(6, d.size) + write_int(9, int(d.index)), always=True)
    meta = (
        write_int(1, 1)
        + write_bytes(2, block.id.encode())
        + write_int(4, block.shard)
        + write_int(5, block.level)
        + write_int(6, block.min_ms)
        + write_int(7, block.max_ms)
        + write_int(8, created_by)
        + datasets
        + b"".join(write_bytes(11, string.encode(), always=True) for string in strings)
    )
    body = meta + struct.pack(">I", len(meta))
    return content + body + struct.pack(">I", crc32c(body))
