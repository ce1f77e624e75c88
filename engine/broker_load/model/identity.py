"""Which broker a scrape belongs to: files know hosts, the model knows ids."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

from engine.broker_load.model.topology import Broker
from engine.broker_load.tables import raw_metrics

_PORT = re.compile(r"^(.*):(\d{2,5})$")


def bare(host: str) -> str:
    """A host without its port, in lower case."""
    found = _PORT.match(host)
    return (found[1] if found else host).lower()


@dataclass(frozen=True, slots=True)
class Identity:
    """``ids``: brokers of each scraped instance (a machine with several brokers has several for its node_exporter);
    ``guessed``: how, for those that no list names; ``unmatched``: instances without a broker; ``doubled``: hosts that
    several listed brokers share and whose scrape cannot be told apart."""

    ids: Mapping[str, tuple[int, ...]]
    guessed: Mapping[str, str]
    unmatched: tuple[str, ...]
    doubled: tuple[str, ...]


def resolve(rows: pl.DataFrame, topology: pl.DataFrame, known: Mapping[int, Broker]) -> Identity:
    """Match every ``host`` of raw metrics ``rows`` with broker ids.

    In order: an id the scrape itself gives; the broker list's host; the set of partitions it reports sizes for, if
    exactly one broker's replicas fit best; a number in the host's name that is a broker id.
    """
    hosts = rows.filter(pl.col("host").is_not_null() & pl.col("broker").is_null())["host"].unique().sort().to_list()
    said = (
        rows.filter(pl.col("host").is_not_null() & pl.col("broker").is_not_null())
        .select("host", "broker").unique(maintain_order=True)
    )  # fmt: skip
    ids: dict[str, tuple[int, ...]] = {}
    guessed: dict[str, str] = {}
    for host, broker in said.iter_rows():
        ids[host] = (*ids.get(host, ()), broker)
    by_host: dict[str, list[int]] = {}
    for broker_id, broker in known.items():
        if broker.host:
            by_host.setdefault(broker.host.lower(), []).append(broker_id)
    doubled: list[str] = []
    open_hosts: list[str] = []
    sizes = rows.filter((pl.col("metric") == raw_metrics.SIZE) & pl.col("host").is_not_null())
    sized = set(sizes["host"].unique().to_list())
    for host in hosts:
        if host in ids:
            continue
        listed = by_host.get(bare(host), [])
        if len(listed) == 1 or (listed and host not in sized):
            ids[host] = tuple(sorted(listed))
        else:
            open_hosts.append(host)
    fits = _by_partitions(sizes.filter(pl.col("host").is_in(open_hosts)), topology) if open_hosts else {}
    every = set(topology["replicas"].explode(empty_as_null=False).unique().to_list()) if topology.height else set()
    every |= set(known)
    taken = {broker for found in ids.values() for broker in found}
    for host in open_hosts:
        fit = fits.get(host)
        listed = by_host.get(bare(host), [])
        if fit is not None and fit not in taken and (not listed or fit in listed):
            ids[host] = (fit,)
            guessed[host] = "by the partitions it holds"
            taken.add(fit)
    for host in open_hosts:
        if host in ids:
            continue
        same = sorted({i for other, found in ids.items() if bare(other) == bare(host) for i in found})
        if same and host not in sized:
            ids[host] = tuple(same)
            continue
        number = re.search(r"(\d+)(?=\D*$)", bare(host).split(".")[0])
        candidate = int(number[1]) if number and len(number[1]) < 10 else -1
        if candidate in every and candidate not in taken:
            ids[host] = (candidate,)
            guessed[host] = "by the number in its name"
            taken.add(candidate)
        elif by_host.get(bare(host)):
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
    seen = sizes.select("host", norm, "partition").unique(maintain_order=True)
    both = seen.join(held, on=["topic", "partition"], how="inner").group_by("host", "id").len("both")
    union = (
        both.join(seen.group_by("host").len("seen"), on="host")
        .join(held.group_by("id").len("held"), on="id")
        .with_columns((pl.col("both") / (pl.col("seen") + pl.col("held") - pl.col("both"))).alias("fit"))
        .sort(["host", "fit", "id"], descending=[False, True, False])
    )
    found: dict[str, int] = {}
    for (host,), part in union.partition_by("host", as_dict=True, maintain_order=True).items():
        best = part["fit"].to_list()
        if best[0] >= 0.5 and (len(best) == 1 or best[1] < best[0]):
            found[str(host)] = int(part["id"][0])
    return found
