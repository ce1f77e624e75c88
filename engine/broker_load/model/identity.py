"""Which broker a scrape belongs to: scrapes name hosts, the model needs ids.

See "Which scrape belongs to which broker" in docs/models/broker-load.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

import msgspec
import polars as pl

from engine.broker_load.model.topology import Broker
from engine.broker_load.tables import raw_metrics

_PORT = re.compile(r"^(.*):(\d{2,5})$")
_ADDRESS = re.compile(r"^(?:\d{1,3}(?:\.\d{1,3}){3}|\[?[0-9a-fA-F]*:[0-9a-fA-F:.]*\]?)$")


def bare(host: str) -> str:
    """Return a host without its port, in lower case."""
    with_port = _PORT.match(host)
    return (with_port[1] if with_port else host).lower()


class Identity(msgspec.Struct, frozen=True):
    """``ids``: brokers of each scraped instance (a machine with several brokers has several for its node_exporter);
    ``guessed``: how, for those that no list names; ``unmatched``: instances without a broker; ``doubled``: hosts that
    several listed brokers share and whose scrape names no id."""

    ids: Mapping[str, tuple[int, ...]]
    guessed: Mapping[str, str]
    unmatched: tuple[str, ...]
    doubled: tuple[str, ...]


_EVIDENCE = ("host", "broker", "metric", "topic", "partition")


def evidence(parts: Iterable[pl.DataFrame]) -> pl.DataFrame:
    """Return the columns of raw metrics that ``resolve`` needs, each combination once; the metrics come in parts."""
    return pl.concat(part.select(_EVIDENCE).unique(maintain_order=True) for part in parts)


def resolve(
    rows: pl.DataFrame, topology: pl.DataFrame, known: Mapping[int, Broker], machines: pl.DataFrame | None = None
) -> Identity:
    """Match every ``host`` of raw metrics ``rows`` with broker ids.

    In order: an id the scrape itself gives; the broker list's host; the set of partitions it reports sizes for, if
    exactly one broker's replicas fit best; other hosts on the same machine, whose name ``machines`` (the input table) may give;
    a number in the host's name that is a broker id.
    """
    named = rows.filter(pl.col("host").is_not_null())
    every = set(topology["replicas"].explode(empty_as_null=False).unique().to_list()) if topology.height else set()
    own = named.filter(pl.col("broker").is_not_null()).select("host", "broker").unique(maintain_order=True)
    own = own.filter(pl.col("host").is_in(carriers(named)) | pl.col("broker").is_in(every | set(known)))
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
    fits = _by_partitions(sizes.filter(pl.col("host").is_in(open_hosts)), topology)
    return _guess(ids, open_hosts, listed, sized, fits, every | set(known), _names(machines))


def by_bytes(rows: pl.DataFrame, sizes: pl.DataFrame) -> pl.DataFrame:
    """Return raw metrics ``rows`` with the broker of each host that can be told by sizes.

    It is the id in ``sizes`` (input table ``log_dir_sizes``) that shares more sizes with the host, to the byte, than any other.
    """
    sized = rows.filter((pl.col("metric") == raw_metrics.SIZE) & pl.col("host").is_not_null() & (pl.col("value") > 0))
    given = sizes.select(
        pl.col("broker").alias("_id"), "topic", "partition", pl.col("size").cast(pl.Float64).alias("value")
    )
    same = (
        sized.join(given, on=["topic", "partition", "value"])
        .group_by("host", "_id")
        .agg(pl.struct("topic", "partition").n_unique().alias("n"))
    )
    most = pl.col("n") == pl.col("n").max().over("host")
    found = same.filter(most).filter((pl.len().over("host") == 1) & (pl.len().over("_id") == 1)).select("host", "_id")
    both = rows.join(found, on="host", how="left", maintain_order="left")
    return both.with_columns(pl.coalesce("broker", "_id").alias("broker")).drop("_id")


def carriers(rows: pl.DataFrame) -> list[str]:
    """Return the hosts of raw metrics ``rows`` that serve topics: KRaft controllers hold nothing but the metadata log."""
    traffic = pl.col("metric").is_in([*raw_metrics.TOTALS, *raw_metrics.TOPIC])
    size = (pl.col("metric") == raw_metrics.SIZE) & (pl.col("topic") != "__cluster_metadata")
    return rows.filter(traffic | size)["host"].drop_nulls().unique().to_list()


def together(hosts: Iterable[str], machines: pl.DataFrame) -> dict[str, str]:
    """Return for each host one name shared by all hosts of its machine."""
    names, common, out = _names(machines), dict[str, str](), dict[str, str]()
    for host in sorted(hosts, key=lambda host: (host in names, host)):
        known = [common[name] for name in (bare(host), *sorted(names.get(host, ()))) if name in common]
        out[host] = known[0] if known else bare(host)
        for name in {*_short(host), *names.get(host, ())}:
            common.setdefault(name, out[host])
    return out


def _names(machines: pl.DataFrame | None) -> dict[str, set[str]]:
    """Return the names of each host's machine, with and without their domain."""
    names: dict[str, set[str]] = {}
    for host, machine in machines.select("host", "machine").iter_rows() if machines is not None else ():
        names.setdefault(host, set()).update(_short(machine))
    return names


def _short(host: str) -> set[str]:
    """Return a host's name with and without its domain; an address as it stands."""
    host = bare(host)
    return {host} if _ADDRESS.match(host) else {host, host.partition(".")[0]}


def _guess(
    ids: dict[str, tuple[int, ...]], open_hosts: list[str], listed: Mapping[str, list[int]], sized: set[str],
    fits: Mapping[str, int], every: set[int], names: Mapping[str, set[str]],
) -> Identity:  # fmt: skip
    """Match ``open_hosts``, which neither the scrape nor the broker list identifies, with brokers that are still free."""
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
        machine = {broker for other, brokers in ids.items() if bare(other) == bare(host) for broker in brokers}
        if not machine and host in names:
            machine = _on_machine(names[host], ids, listed, names)
        if machine and host not in sized:
            ids[host] = tuple(sorted(machine))
            continue
        number = None if _ADDRESS.match(bare(host)) else re.search(r"(\d+)(?=\D*$)", bare(host).split(".")[0])
        candidate = int(number[1]) if number and len(number[1]) < 10 else -1
        if candidate in every and candidate not in taken:
            take(host, candidate, "by the number in its name")
        elif listed.get(bare(host)):
            doubled.append(host)
    return Identity(
        ids, guessed, tuple(host for host in open_hosts if host not in ids and host not in doubled), tuple(doubled)
    )


def _on_machine(
    called: set[str], ids: Mapping[str, tuple[int, ...]], listed: Mapping[str, list[int]], names: Mapping[str, set[str]]
) -> set[int]:
    """Return the brokers that are scraped or listed under one of the names ``called``, or whose machine has one of them."""
    found = {broker for host, brokers in listed.items() if called & _short(host) for broker in brokers}
    for host, brokers in ids.items():
        if called & (_short(host) | names.get(host, set())):
            found.update(brokers)
    return found


def _by_partitions(sizes: pl.DataFrame, topology: pl.DataFrame) -> dict[str, int]:
    """Return by host the broker whose replicas best match the partitions it reports, if one is clearly best."""
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
