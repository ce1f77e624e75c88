"""What of the ring placement view goes on to Prometheus."""

from __future__ import annotations

from engine.output.exposition import Gauge

_NODE = {"instance": "instance", "zone": "zone"}

GAUGES = (
    Gauge("ring_node_load_bytes_per_second", "nodes", "load_after", "Load of the node, with what fails over to it.", _NODE,
          each=True),
    Gauge("ring_node_load_before_bytes_per_second", "nodes", "load_before", "Load of the node without failures.", _NODE,
          each=True),
    Gauge("ring_node_over_mean_ratio", "nodes", "over_mean", "Load over the mean of all nodes.", _NODE, each=True),
    Gauge("ring_node_headroom_bytes_per_second", "nodes", "headroom", "Capacity that is left.", _NODE, each=True),
    Gauge("ring_node_ownership_ratio", "nodes", "ownership", "Part of the key space that the node owns.", _NODE, each=True),
    Gauge("ring_node_down", "nodes", "down", "1 where the node is taken down.", _NODE, each=True),
    Gauge("ring_tenant_load", "tenants", "load", "Load of the tenant, in the unit of its source.", {"tenant": "tenant"},
          adds=True),
    Gauge("ring_tenant_write_lost_ratio", "tenants", "write_lost_share", "Part of the tenant's keys that cannot be written.",
          {"tenant": "tenant"}),
)  # fmt: skip
