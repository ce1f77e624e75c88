"""Which broker a scrape belongs to: scrapes name hosts, the model needs ids.

See "Which scrape belongs to which broker" in docs/models/broker-load.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import polars as pl

from engine.broker_load.model.topology import Broker
from engine.broker_load.tables import raw_metrics

_PORT = re.compile(r"^(.*):(\d{2,5})$")


def bare(host: str) -> str:
    """Return a host without its port, in lower case."""
    with_port = _PORT.match(host)
    return (with_port[1] if with_port else host).lower()


@dataclass(frozen=True, slots=True)
class Identity:
    """``ids``: brokers of each scraped instance (a machine with several brokers has several for its node_exporter);
    ``guessed``: how, for those that no list names; ``unmatched``: instances without a broker; ``doubled``: hosts that
    several listed brokers share and whose scrape names no id."""

    ids: Mapping[str, tuple[int, ...]]
    guessed: Mapping[str, str]
    unmatched: tuple[str, ...]
    doubled: tuple[str, ...]


_EVIDENCE = ("host", "broker", "metric", "topic", "partition")


def evidence(parts: Iterable[pl.DataFrame]) -> pl.DataFrame:
    """Return what ``resolve`` looks at in raw metrics that come in parts: each fact once, whenever it was so."""
    return pl.concat(part.select(_EVIDENCE).unique(maintain_order=True) for part in parts)


def resolve(rows: pl.DataFrame, topology: pl.DataFrame, known: Mapping[int, Broker]) -> Identity:
    """Match every ``host`` of raw metrics ``rows`` with broker ids.

    In order: an id the scrape itself gives; the broker list's host; the set of partitions it reports sizes for, if
    exactly one broker's replicas fit best; a number in the host's name that is a broker id.
    """
    named = rows.filter(pl.col("host").is_not_null())
    own = named.filter(pl.col("broker").is_not_null()).select("host", "broker").unique(maintain_order=True)
    ids: dict[str, tuple[int, ...]] = {}
    for host, broker in own.iter_rows():
        ids[host] = (*ids.get(host, ()), broker)
    listed: dict[str, list[int]] = {}
    for broker_id, listed_broker in known.items():
        if listed_broker.host:
            listed.setdefault(listed_broker.host.lower(), []).append(broker_id)
    sizes = named.filter(pl.col("metric") == raw_metrics.SIZE)
    sized = set(sizes["host"].unique().to_list())
    hosts = named.filter(pl.col("broker").is_null())["host"].unique().sort().to_list()
    open_hosts: list[str] = []
    for host in hosts:
        if host in ids:
            continue
        same_host = listed.get(bare(host), [])
        if len(same_host) == 1 or (same_host and host not in sized):
            ids[host] = tuple(sorted(same_host))
        else:
            open_hosts.append(host)
    if not open_hosts:
        return Identity(ids, {}, (), ())
    every = set(topology["replicas"].explode(empty_as_null=False).unique().to_list()) if topology.height else set()
    fits = _by_partitions(sizes.filter(pl.col("host").is_in(open_hosts)), topology)
    return _guess(ids, open_hosts, listed, sized, fits, every | set(known))


def _guess(
    ids: dict[str, tuple[int, ...]], open_hosts: list[str], listed: Mapping[str, list[int]], sized: set[str],
    fits: Mapping[str, int], every: set[int],
) -> Identity:  # fmt: skip
    """Match ``open_hosts``, which neither the scrape nor the broker list tells apart, with brokers that are still free."""
    guessed: dict[str, str] = {}
    taken = {broker for brokers in ids.values() for broker in brokers}

    def take(host: str, broker: int, how: str) -> None:
        ids[host] = (broker,)
        guessed[host] = how
        taken.add(broker)

    for host in open_hosts:
        fit, same_host = fits.get(host), listed.get(bare(host), [])
        if fit is not None and fit not in taken and (not same_host or fit in same_host):
            take(host, fit, "by the partitions it holds")
    doubled: list[str] = []
    for host in open_hosts:
        if host in ids:
            continue
        machine = sorted({broker for other, brokers in ids.items() if bare(other) == bare(host) for broker in brokers})
        if machine and host not in sized:
            ids[host] = tuple(machine)
            continue
        number = re.search(r"(\d+)(?=\D*$)", bare(host).split(".")[0])
        candidate = int(number[1]) if number and len(number[1]) < 10 else -1
        if candidate in every and candidate not in taken:
            take(host, candidate, "by the number in its name")
        elif listed.get(bare(host)):
            doubled.append(host)
    unmatched = tuple(host for host in open_hosts if host not in ids and host not in doubled)
    return Identity(ids, guessed, unmatched, tuple(doubled))


def _by_partitions(sizes: pl.DataFrame, topology: pl.DataFrame) -> dict[str, int]:
    """Host → the broker whose replicas are most like the partitions the host reports, if one is clearly best."""
    if not sizes.height or not topology.height:
        return {}
    norm = pl.col("topic").str.replace_all(".", "_", literal=True).alias("topic")
    held = (
        topology.select(norm, "partition", pl.col("replicas").alias("id"))
        .explode("id", empty_as_null=False)
        .unique(maintain_order=True)
    )
    reported = sizes.select("host", norm, "partition").unique(maintain_order=True)
    both = reported.join(held, on=["topic", "partition"], how="inner").group_by("host", "id").len("both")
    union = (
        both.join(reported.group_by("host").len("seen"), on="host")
        .join(held.group_by("id").len("held"), on="id")
        .with_columns((pl.col("both") / (pl.col("seen") + pl.col("held") - pl.col("both"))).alias("fit"))
        .sort(["host", "fit", "id"], descending=[False, True, False])
    )
    matches: dict[str, int] = {}
    for (host,), part in union.partition_by("host", as_dict=True, maintain_order=True).items():
        best = part["fit"].to_list()
        if best[0] >= 0.5 and (len(best) == 1 or best[1] < best[0]):
            matches[str(host)] = int(part["id"][0])
    return matches
