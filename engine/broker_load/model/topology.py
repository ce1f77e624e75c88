"""Topology as arrays: which broker holds and leads which partition, in indices shared by all modules."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from functools import cached_property
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import polars as pl

from engine.core.view import FILE

Ints = npt.NDArray[np.int32]
Longs = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]


def tally(index: npt.NDArray[np.integer[Any]], weights: npt.NDArray[Any], size: int) -> Floats:
    """Return the sums [size] of ``weights`` by ``index``."""
    return np.bincount(index, weights=weights, minlength=size).astype(np.float64, copy=False)


def across(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the sums [P] of the rows of ``values`` [P, R]; flags are counted.

    Rows are a few replicas wide: adding columns is many times faster than NumPy's sum along them.
    """
    total = values[:, 0].astype(np.int32 if values.dtype == np.bool_ else values.dtype)
    for column in range(1, values.shape[1]):
        total += values[:, column]
    return total


def any_of(flags: Flags) -> Flags:
    """Return flags [P]: any flag in the row of ``flags`` [P, R] is set."""
    return np.asarray(across(flags) > 0, np.bool_)


def words_at(size: int, marks: Iterable[tuple[Flags, str | Callable[[int], str]]], between: str = ", ") -> list[str]:
    """Return for each of ``size`` places the words of the ``marks`` set there, in their order: flags [``size``] and what they
    mean, in words or as a function of the place."""
    said: list[list[str]] = [[] for _ in range(size)]
    for flags, word in marks:
        for place in np.flatnonzero(flags).tolist():
            said[place].append(word if isinstance(word, str) else word(place))
    return [between.join(each) for each in said]


def first_of(flags: Flags) -> Longs:
    """Return the position [P] of the first flag set in each row of ``flags`` [P, R], 0 without one."""
    return flags.argmax(axis=1)


class Broker(msgspec.Struct, frozen=True):
    """One broker as known from broker lists, scrapes or answers; ``rack`` None where nothing tells it, empty if none is set."""

    host: str
    rack: str | None
    alive: bool
    listed: bool


class Partitions(msgspec.Struct, frozen=True, eq=False):
    """P partitions: index [P] of each one's topic in ``topics``, and its number."""

    topics: tuple[str, ...]
    topic: Ints
    partition: Ints

    @property
    def size(self) -> int:
        """Number of partitions P."""
        return len(self.partition)


class Topology(Partitions, frozen=True, eq=False, dict=True):
    """P partitions sorted by topic and number, at most R replicas each, B brokers sorted by id, T topics.

    ``replicas`` [P, R] broker index in assignment order, -1 beyond a partition's last; ``leader`` [P] broker index, -1
    without one; ``isr``, ``elr``, ``offline``, ``adding`` and ``removing`` (by a reassignment), ``observers`` [P, R] flags by
    position; ``moving`` [P] whether a reassignment is in progress; ``elr_known`` [P]; ``min_isr`` [P], -1 unknown;
    ``unclean`` [P] -1 unknown, 0, 1; ``hidden`` [P] number of further replicas that are, or may be, in sync on brokers that
    nothing names; ``short`` [P] whether fewer replicas are in sync than there are. ``norm`` [T] code of the topic's name with
    dots as underscores, by which metrics are found; codes index ``norm_names``.
    """

    leader: Ints
    replicas: Ints
    isr: Flags
    elr: Flags
    elr_known: Flags
    offline: Flags
    adding: Flags
    removing: Flags
    observers: Flags
    moving: Flags
    min_isr: Ints
    unclean: npt.NDArray[np.int8]
    hidden: Ints
    short: Flags
    ids: Ints
    hosts: tuple[str, ...]
    racks: tuple[str, ...]
    alive: Flags
    norm: Ints
    norm_names: tuple[str, ...]
    racks_told: bool = False

    @property
    def brokers(self) -> int:
        """Number of brokers B."""
        return len(self.ids)

    @cached_property
    def alone(self) -> Partitions:
        """Only the partitions, which take less memory."""
        return Partitions(self.topics, self.topic, self.partition)

    @cached_property
    def held(self) -> Flags:
        """[P, R] whether the position holds a replica."""
        return self.replicas >= 0

    @cached_property
    def in_sync(self) -> Ints:
        """[P] number of replicas in sync, also of those on brokers that nothing names."""
        return across(self.isr) + self.hidden

    @cached_property
    def whole(self) -> Flags:
        """[P, R] replicas that count: not those that a reassignment still copies. Without one, all that are ``held``."""
        return self.held & ~(self.adding & ~self.leads) if self.adding.any() else self.held

    @cached_property
    def count(self) -> Ints:
        """[P] number of replicas."""
        return across(self.held)

    @cached_property
    def leads(self) -> Flags:
        """[P, R] whether the replica at the position leads."""
        return np.asarray(self.held & (self.replicas == self.leader[:, None]), np.bool_)

    @cached_property
    def leader_slot(self) -> tuple[Longs, Flags]:
        """[P] flat position of the leader's replica in a [P, R] array, and whether there is one."""
        return np.arange(self.size, dtype=np.int64) * self.replicas.shape[1] + first_of(self.leads), any_of(self.leads)

    @cached_property
    def groups(self) -> tuple[Ints, Ints, Ints, Ints]:
        """Partitions of one topic led by one broker share every rate. Returns (group of each partition or -1, leader
        of each group, topic of each group, partitions in each group)."""
        key = self.leader.astype(np.int64) * len(self.topics) + self.topic
        led = self.leader >= 0
        names, index, counts = np.unique(key[led], return_inverse=True, return_counts=True)
        group = np.full(self.size, -1, np.int32)
        group[led] = index
        topics = max(len(self.topics), 1)
        return group, (names // topics).astype(np.int32), (names % topics).astype(np.int32), counts.astype(np.int32)

    @cached_property
    def topic_names(self) -> pl.Series:
        """[P] topic name of each partition."""
        return pl.Series("topic", list(self.topics), dtype=pl.String).gather(self.topic)

    @cached_property
    def slots(self) -> tuple[Ints, Ints, Ints, Longs]:
        """[N] broker index, topic code, partition and place in a flat [P, R] array of each of N replicas, sorted in this order.

        Topics whose names differ only in dots and underscores share a code, and so a reported size.
        """
        rows, _ = np.nonzero(self.held)
        broker, partition = self.replicas[self.held], self.partition[rows]
        code = self.norm[self.topic[rows]]
        order = np.lexsort((partition, code, broker))
        return broker[order], code[order], partition[order], np.flatnonzero(self.held)[order]

    @cached_property
    def topic_counts(self) -> tuple[Longs, Longs, Ints]:
        """Topic index, broker index and number of replicas, each [N], for the N pairs of topic and broker with replicas.

        Partitions without a leader are left out.
        """
        rows, columns = np.nonzero(self.whole & (self.leader >= 0)[:, None])
        pair = self.topic[rows].astype(np.int64) * self.brokers + self.replicas[rows, columns]
        names, counts = np.unique(pair, return_counts=True)
        width = max(self.brokers, 1)
        return names // width, names % width, counts.astype(np.int32)

    @cached_property
    def machines(self) -> tuple[int, Ints]:
        """Number of machines, and [B] the index of each broker's: live brokers of one host and rack share a machine, a dead
        broker has its own."""
        place: dict[tuple[str, str, int], int] = {}
        index = [
            place.setdefault((host, rack, -1 if living else broker), len(place))
            for host, rack, living, broker in zip(
                self.hosts, self.racks, self.alive.tolist(), self.ids.tolist(), strict=True
            )
        ]
        return len(place), np.array(index, np.int32)

    @cached_property
    def racks_known(self) -> bool:
        """Whether racks are known: a list of brokers tells them, even if none is set, or a live broker has one."""
        each = zip(self.racks, self.hosts, self.alive.tolist(), strict=True)
        return self.racks_told or any(living and rack not in ("", host) for rack, host, living in each)

    @cached_property
    def racks_index(self) -> tuple[tuple[str, ...], Ints]:
        """Rack names sorted, and [B] the index of each broker's rack."""
        names = sorted(set(self.racks))
        place = {name: number for number, name in enumerate(names)}
        return tuple(names), np.array([place[r] for r in self.racks], np.int32)

    def index_of(self, ids: npt.ArrayLike) -> Ints:
        """Return the broker indices of broker ``ids``; -1 for unknown ones."""
        wanted = np.asarray(ids, np.int64)
        if not len(self.ids):
            return np.full(wanted.shape, -1, np.int32)
        place = np.minimum(np.searchsorted(self.ids, wanted), len(self.ids) - 1)
        return np.where(self.ids[place] == wanted, place, -1).astype(np.int32)

    def ids_of(self, index: npt.NDArray[np.int32]) -> Ints:
        """Return the broker ids of ``index``; -1 stays -1."""
        return np.where(index >= 0, self.ids[np.maximum(index, 0)], -1).astype(np.int32) if len(self.ids) else index

    def partition_lists(self, flags: Flags | None = None) -> pl.Series:
        """Return for each partition [P] the broker ids of all replicas in assignment order, or of those that ``flags`` marks."""
        ids = self.ids_of(self.replicas if flags is None else np.where(flags, self.replicas, -1))
        lists = pl.Series(ids, dtype=pl.Array(pl.Int32, ids.shape[1])).cast(pl.List(pl.Int32))
        return lists.list.eval(pl.element().filter(pl.element() >= 0))

    @cached_property
    def replica_lists(self) -> pl.Series:
        """[P] lists of the broker ids of all replicas."""
        return self.partition_lists()

    @cached_property
    def rack_counts(self) -> tuple[Ints, Ints]:
        """Per partition with a leader: the most replicas in one rack, and the fewest over all racks of live brokers."""
        _, index = self.racks_index
        rows = np.flatnonzero(self.leader >= 0)
        held = self.whole[rows]
        rack = np.where(held, np.append(index, -1)[self.replicas[rows]], -1)
        live = np.unique(index[self.alive])
        counts = np.zeros(rack.shape, np.int32)
        distinct = np.zeros(len(rows), np.int32)
        alive = np.isin(rack, live)
        for column in range(rack.shape[1]):
            same = (rack == rack[:, column : column + 1]) & held
            counts[:, column] = np.where(held[:, column], across(same), 0)
            distinct += alive[:, column] & ~any_of(same[:, :column]) if column else alive[:, column]
        most = counts.max(axis=1, initial=0)
        # 0 if a rack of live brokers holds no replica, else the number in the least crowded one.
        crowd = np.where(alive, counts, np.iinfo(np.int32).max).min(axis=1, initial=np.iinfo(np.int32).max)
        return most, np.where(distinct == len(live), crowd, 0) if len(live) else np.zeros(len(rows), np.int32)

    def min_in_sync(self, default: int) -> Ints:
        """Return min.insync.replicas [P]: the topic's own, else the cluster's ``default``."""
        return np.where(self.min_isr >= 0, self.min_isr, default).astype(np.int32)

    def same(self, other: Topology) -> bool:
        """Return whether ``other`` is equal in every respect."""
        return all(np.array_equal(getattr(self, name), getattr(other, name)) for name in self.__struct_fields__)

    def spread(self, flags: Flags) -> Flags:
        """Return the flag of each replica's broker [P, R] from ``flags`` [B]; False without a replica."""
        # Position -1, "no replica", takes the value appended at the end.
        return np.append(flags, False)[self.replicas]

    def settled(self) -> Topology:
        """Return the topology once reassignments in progress are done: the leaving replicas gone, the added ones in sync."""
        stays = self.held & ~self.removing
        order = np.argsort(~stays, axis=1, kind="stable")
        kept, replicas, isr, elr, offline, observers = (
            np.take_along_axis(value, order, 1)
            for value in (
                stays, np.where(stays, self.replicas, -1), (self.isr | (self.adding & self.spread(self.alive))) & stays,
                self.elr & stays, self.offline & stays, self.observers & stays,
            )
        )  # fmt: skip
        heir = np.where(any_of(isr), replicas[np.arange(self.size), first_of(isr)], -1)
        leader = np.where((self.leader < 0) | any_of(self.leads & stays), self.leader, heir).astype(np.int32)
        none = np.zeros_like(kept)
        return msgspec.structs.replace(
            self, leader=leader, replicas=replicas, isr=isr, elr=elr, offline=offline, observers=observers, adding=none,
            removing=none,
        )  # fmt: skip

    @cached_property
    def offline_replicas(self) -> Flags:
        """[P, R] replicas that cannot serve: on a dead broker or an offline directory."""
        return self.held & (self.offline | ~self.spread(self.alive))


def newest(rows: pl.DataFrame, until_ms: int | None) -> pl.DataFrame:
    """Return one row per topic and partition of input table ``topology``: the newest not after ``until_ms``, else the
    oldest. Sorted by topic and partition."""
    if not rows.height:
        return rows
    return next(frame for _, frame in newest_at(rows, [2**62 if until_ms is None else until_ms]))


def newest_at(rows: pl.DataFrame, moments: Collection[int]) -> Iterator[tuple[int, pl.DataFrame]]:
    """Yield what ``newest`` returns until each of ``moments``, in ascending order, in one pass over the ``rows``.

    If a description says the same as the one before, the frame is the same object.
    """
    keys = ["topic", "partition"]
    later = rows if rows["time_ms"].is_sorted() else rows.sort("time_ms", maintain_order=True)
    described = iter([rows] if rows["time_ms"].n_unique() == 1 else later.partition_by("time_ms", maintain_order=True))
    one = next(described, None)
    state, oldest, made = rows.head(0), None, None
    for moment in sorted(moments):
        while one is not None and one["time_ms"][0] <= moment:
            fresh = one.unique(keys, keep="last", maintain_order=True)
            if not _says_the_same(state, fresh):
                if state.height:
                    fresh = pl.concat([state, fresh]).unique(keys, keep="last", maintain_order=True)
                state, made = fresh, None
            one = next(described, None)
        if made is None:
            made = state
            if one is not None:
                if oldest is None:  # of equally old rows the last one counts
                    oldest = (
                        later.reverse()
                        .sort("time_ms", maintain_order=True)
                        .unique(keys, keep="first", maintain_order=True)
                    )
                made = pl.concat([state, oldest.join(state, on=keys, how="anti", maintain_order="left")])
            made = made.sort(keys)
        yield moment, made


def _says_the_same(state: pl.DataFrame, fresh: pl.DataFrame) -> bool:
    """Return whether the rows ``fresh`` say the same about their partitions as ``state``."""
    if state.height < fresh.height:
        return False
    keys = ["topic", "partition"]
    said = [name for name in fresh.columns if name not in ("time_ms", FILE)]
    known = state.join(fresh, on=keys, how="semi", maintain_order="left").select(said)
    return known.height == fresh.height and known.sort(keys).equals(fresh.select(said).sort(keys))


def _dense(lists: pl.Series, width: int) -> Ints:
    """Return ``lists`` as rows [P, ``width``], filled up with -1."""
    places = (pl.col(lists.name).list.get(at, null_on_oob=True).fill_null(-1).alias(str(at)) for at in range(width))
    return lists.to_frame().select(places).to_numpy(order="c")


def _among(replicas: Ints, lists: pl.Series) -> Flags:
    among = np.zeros(replicas.shape, np.bool_)
    width = int(lists.list.len().max() or 0)  # type: ignore[arg-type]
    for named in _dense(lists, width).T if width else ():
        among |= (replicas == named[:, None]) & (named[:, None] >= 0)
    return among & (replicas >= 0)


def _identify(named: Ints, known: Mapping[int, Broker], active: AbstractSet[int]) -> dict[str, Any]:
    """Return ids, hosts, racks and ``alive`` of the brokers ``named`` in replica lists and the live ones ``known``.

    A dead broker without replicas is not in the cluster; one without a known host gets Cruise Control's placeholder and no rack.
    """
    listed = any(broker.listed for broker in known.values())
    living = active if not listed else {i for i, broker in known.items() if broker.listed and broker.alive}
    ids = np.union1d(named, np.array(sorted(living & known.keys()), np.int32)).astype(np.int32)
    hosts, racks, unknown = [], [], 0
    for broker_id in ids.tolist():
        broker = known.get(broker_id)
        host, rack = (broker.host, broker.rack or "") if broker is not None and broker.listed == listed else ("", "")
        if broker_id in living:
            hosts.append(host or f"broker-{broker_id}")
            racks.append(rack or hosts[-1])
            continue
        hosts.append(host or f"UNKNOWN_HOST-{unknown}")
        racks.append(rack)
        unknown += not host
    alive = np.array([broker_id in living for broker_id in ids.tolist()], np.bool_)
    told = any(broker.listed and broker.rack is not None for broker in known.values())
    return {"ids": ids, "hosts": tuple(hosts), "racks": tuple(racks), "alive": alive, "racks_told": told}


def build(rows: pl.DataFrame, known: Mapping[int, Broker], heard: frozenset[int] = frozenset()) -> Topology:
    """Build the arrays of the topology ``rows`` (as ``newest`` gives them).

    ``known`` brokers by id; ``heard``: ids that reported something. Without a broker list, brokers that lead, are in sync or
    were heard count as alive. With one, a broker that is not listed is dead, as in Cruise Control ("in some replica list, not
    among live nodes").
    """
    lists = rows["replicas"]
    width = int(lists.list.len().max() or 1) if rows.height else 1  # type: ignore[arg-type]
    replicas_ids = _dense(lists, width) if rows.height else np.empty((0, 1), np.int32)
    leader_ids = rows["leader"].fill_null(-1).to_numpy().astype(np.int32)

    def marked(name: str) -> Flags:
        given = rows.height and name in rows.columns
        return _among(replicas_ids, rows[name]) if given else np.zeros(replicas_ids.shape, np.bool_)

    def counted(name: str) -> Ints:
        given = rows[name].cast(pl.Int32).fill_null(0).to_numpy() if name in rows.columns else np.zeros(rows.height)
        return given.astype(np.int32)

    marks: dict[str, Any] = {
        name: marked(name) for name in ("isr", "elr", "offline", "adding", "removing", "observers")
    }
    moving = np.zeros(rows.height, np.bool_)
    active = set(np.unique(leader_ids[leader_ids >= 0]).tolist()) | set(np.unique(replicas_ids[marks["isr"]]).tolist())
    if "adding" in rows.columns:  # the controller only adds brokers that are registered
        active |= set(rows["adding"].drop_nulls().explode(empty_as_null=False).to_list())
        moving = (rows["adding"].is_not_null() | rows["removing"].is_not_null()).to_numpy()
    told = marks["observers"] & ~marks["offline"]  # an observer is never in sync
    active |= set(np.unique(replicas_ids[told]).tolist())
    who = _identify(np.unique(replicas_ids[replicas_ids >= 0]), known, active | heard)
    names = rows["topic"].unique().sort() if rows.height else pl.Series("topic", [], dtype=pl.String)
    dotless = names.str.replace_all(".", "_", literal=True)
    norm_names = dotless.unique().sort()
    empty = Topology(
        topics=tuple(names.to_list()),
        topic=rows["topic"].cast(pl.Enum(names)).to_physical().to_numpy().astype(np.int32),
        partition=rows["partition"].to_numpy().astype(np.int32),
        leader=leader_ids,
        replicas=replicas_ids,
        elr_known=rows["elr"].is_not_null().to_numpy(),
        moving=moving,
        min_isr=rows["min_isr"].fill_null(-1).to_numpy().astype(np.int32),
        unclean=rows["unclean"].cast(pl.Int8).fill_null(-1).to_numpy().astype(np.int8),
        hidden=counted("hidden"),
        short=counted("short") > 0,
        **who,
        **marks,
        norm=dotless.cast(pl.Enum(norm_names)).to_physical().to_numpy().astype(np.int32),
        norm_names=tuple(norm_names.to_list()),
    )
    leader = empty.index_of(leader_ids)
    inner = np.where(replicas_ids >= 0, empty.index_of(replicas_ids), -1).astype(np.int32)
    return msgspec.structs.replace(empty, leader=np.where(leader_ids >= 0, leader, -1).astype(np.int32), replicas=inner)
