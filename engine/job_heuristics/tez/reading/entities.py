"""Entities of Tez in a timeline server's shape, and the rows made of them; see docs/models/job-heuristics.md, "Tez"."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any

from engine.core.reading import Problem, Problems, Reading, clean
from engine.core.tables import Table
from engine.job_heuristics.tables import gathered
from engine.job_heuristics.tez import tables

_ID = re.compile(
    r"(tez_application|application|tez_appattempt|appattempt|dag|vertex|task|attempt)_(\d{1,18})_(\d{1,18})"
    r"(?:_(\d{1,18}))?(?:_(\d{1,18}))?(?:_(\d{1,18}))?(?:_(\d{1,18}))?"
)
_SHORT = frozenset(("dag", "vertex", "task", "attempt"))
"""Words of ids without an underscore; for these a pattern is not needed, which is slower."""
_CONTAINER = re.compile(r"(?:tez_)?container_(?:e\d{1,9}_)?(\d{1,18})_(\d{1,18})_\d+_\d+")
_MASK, _LOW, _HIGH = 2**64 - 1, -(2**63), 2**63 - 1
_ABSURD = 2**53  # times from here on are none
_PER_EDGE = re.compile(r"TaskCounter_(.{1,200}?)_(INPUT|OUTPUT)_(.{1,200})")
OFFICIAL = ("org.apache.tez.common.counters.TaskCounter", "org.apache.tez.common.counters.FileSystemCounter")
"""Tez's own groups of a task's counters."""
_OFFICIAL = frozenset(OFFICIAL)
_DAG_GROUPS = ("org.apache.tez.common.counters.DAGCounter", "org.apache.hadoop.hive.llap.counters.")
"""Groups of a DAG's counters that are kept."""
_INPUT = ("HDFS_BYTES_READ", "S3_BYTES_READ", "S3A_BYTES_READ", "S3N_BYTES_READ")
_COUNTERS = ("SHUFFLE_BYTES", "OUTPUT_RECORDS", "SPILLED_RECORDS", "GC_TIME_MILLIS", "CPU_MILLISECONDS",
             "PHYSICAL_MEMORY_BYTES", "VIRTUAL_MEMORY_BYTES")  # fmt: skip
_WANTED = frozenset((*_INPUT, *_COUNTERS))
_OWN = (*_COUNTERS, *tables.MORE_COUNTED.values())
_INPUT_SET = frozenset(_INPUT)
_NOT_COUNTED = (None,) * (2 * len(tables.COUNTED) + len(tables.MORE_COUNTED))
Counted = Mapping[str, Mapping[str, Any]]  # counters by group and name, as decoded
Events = Mapping[str, int]  # times of an entity's events by type


class BadCounters(ValueError):
    """Raised for counters over which Dr. Elephant fails; the message is its exception."""


def whole(value: Any) -> int | None:
    """Convert a JSON number to Java's 64 bits: fractions are cut, larger numbers wrap around, other values count as 0."""
    if value is None or (type(value) is int and _LOW <= value <= _HIGH):
        return value
    if isinstance(value, float):
        return int(max(-(2**63), min(value, 2**63 - 1))) if value == value else 0
    if not isinstance(value, int) or isinstance(value, bool):
        return 0
    return value if -(2**63) <= value < 2**63 else ((value + 2**63) & _MASK) - 2**63


def moment(value: Any) -> int | None:
    """Return a time (epoch ms), converted as by ``whole``; None if it is absurdly early or late."""
    if type(value) is int and 0 <= value < _ABSURD:
        return value
    number = whole(value)
    return number if number is not None and -_ABSURD < number < _ABSURD else None


def text(value: Any, most: int = 4096) -> str | None:
    """Return a text, harmless and cut to ``most`` characters; None for another value."""
    if type(value) is str and len(value) <= most and value.isascii() and value.isprintable():
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value) if abs(value) < 2**63 else None
    return clean(value, most) if isinstance(value, str) else None


@lru_cache(maxsize=512)
def hash_order(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return names in the order in which a Java ``HashMap`` yields them, filled in the order given."""
    slots = 8
    while len(names) > slots * 3 // 4:
        slots *= 2
    return tuple(sorted(names, key=lambda name: _spread(name) & (slots - 1)))


def _spread(name: str) -> int:
    value = 0
    units = name.encode("utf-16-be", "surrogatepass")
    for at in range(0, len(units), 2):
        value = (31 * value + (units[at] << 8 | units[at + 1])) & 0xFFFFFFFF
    return value ^ value >> 16


def counters_of(value: Any) -> dict[str, dict[str, Any]]:
    """Return counters by group and name from their JSON; groups without counters are left out. Raises BadCounters."""
    found: dict[str, dict[str, Any]] = {}
    groups = value.get("counterGroups") if isinstance(value, dict) else None
    try:
        for group in groups or ():
            if group.get("counters"):
                counts = {each["counterName"]: each["counterValue"] for each in group["counters"]}
                found.setdefault(group["counterGroupName"], {}).update(counts)
    except (KeyError, TypeError, AttributeError) as error:
        raise BadCounters("java.lang.NullPointerException: a counter without name, value or group") from error
    return found


def _sum(counts: Mapping[str, Any], names: Iterable[str]) -> int | None:
    values = [whole(counts[name]) for name in names if name in counts]
    return whole(sum(value or 0 for value in values)) if values else None


def _numbers(counts: Mapping[str, Any], names: Iterable[str]) -> tuple[int | None, ...]:
    return tuple(map(whole, map(counts.get, names)))


def counted(groups: Counted) -> tuple[int | None, ...]:
    """Return the counters of a task: those of Dr. Elephant's lookup (the first group in hash order that has a name), then
    those of Tez's own groups, then ``MORE_COUNTED``."""
    if not groups:
        return _NOT_COUNTED
    of_task, files = groups.get(OFFICIAL[0], {}), groups.get(OFFICIAL[1], {})
    own = {**of_task, **files}
    counts = _numbers(own, _OWN)
    usual = counts[: len(_COUNTERS)]
    read = [name for name in files if name.endswith("_BYTES_READ") and name != "FILE_BYTES_READ"]
    bytes_read = _sum(files, read)
    others = groups.keys() - _OFFICIAL
    if not others or all(groups[name].keys().isdisjoint(_WANTED) for name in others):
        same = _INPUT_SET.issuperset(read) and _INPUT_SET.isdisjoint(of_task)
        return (bytes_read if same else _sum(own, _INPUT), *usual, bytes_read, *counts)
    first: dict[str, Any] = {}
    for name in reversed(hash_order(tuple(groups))):
        first.update(groups[name])
    return (_sum(first, _INPUT), *_numbers(first, _COUNTERS), bytes_read, *counts)


class Entities:
    """Collects the facts of one reading: rows by table, and problems. ``seq`` is the place of the next one."""

    def __init__(self, path: str, seq: int = 0) -> None:
        self.path = path
        self.seq = seq
        self.rows: dict[str, list[tuple[Any, ...]]] = {table.name: [] for table in tables.FACTS}
        self.problems: list[Problem] = Problems()

    def problem(self, kind: str, reason: str, *, byte: int | None = None, line: int | None = None) -> None:
        """Note a problem."""
        self.problems.append(Problem.at(self.path, kind, reason, byte=byte, line=line))

    def reading(self, consumed: int, state: Any = None) -> Reading:
        """Return the facts so far."""
        return Reading(gathered(tables.FACTS, self.rows), self.problems, consumed, state)

    def answer(self, value: Any, *, cut: bool = False) -> None:
        """Take a decoded answer or file of an archive: one entity, lists of them, or YARN's applications. Of a ``cut`` one
        only what stands in lists is whole."""
        if not isinstance(value, dict):
            self.problem("bad-record", "not an answer of a timeline server")
            return
        if "exception" in value or "RemoteException" in value:
            reason = value.get("message") or value.get("exception") or value["RemoteException"]
            self.problem("error-answer", f"the server answered with an error: {text(reason) or 'unknown'}")
            return
        if cut:
            value = {key: one for key, one in value.items() if key in _LISTS and isinstance(one, list)}
        elif _type_of(value) or "entity" in value:
            self.entity(value)
            return
        elif "appId" in value:
            self.yarn(value)
            return
        known = False
        for key, one in value.items():
            for each in one if isinstance(one, list) else [one]:
                inner = each.get("app") if isinstance(each, dict) and key == "apps" else each
                for entity in inner if isinstance(inner, list) else [inner]:
                    if isinstance(entity, dict):
                        known = True
                        self.yarn(entity) if key in ("app", "apps") else self.entity(entity)
                    elif entity is not None and key in _LISTS:
                        self.problem("bad-record", "an entity that is no object is left out")
            known = known or key in _LISTS
        if not known and not cut:
            self.problem("bad-record", "neither entities nor applications are in it")

    def yarn(self, value: Mapping[str, Any]) -> None:
        """Take YARN's description of an application, from the history server or the resource manager."""
        app = text(value.get("appId") or value.get("id"))
        kind = text(value.get("type") or value.get("applicationType")) or "TEZ"
        found = _ID.fullmatch(app or "")
        if found is None or found[1] != "application":
            self.problem("bad-record", "an application without an id is left out")
        elif kind.upper() == "TEZ":
            final = text(value.get("finalAppStatus") or value.get("finalStatus"))
            state = text(value.get("appState") or value.get("state"))
            started, finished = (moment(value.get(key)) for key in ("startedTime", "finishedTime"))
            self._add(
                tables.APP_FACTS, app, *(text(value.get(key)) for key in ("name", "user", "queue")),
                final if state in ("FINISHED", None) and final != "UNDEFINED" else state, started, finished or None,
                None, None, None, None,
            )  # fmt: skip

    def entity(self, value: Mapping[str, Any]) -> None:
        """Take an entity of a timeline server, or a record of the histories that are merged to one."""
        kind, name = _type_of(value), value.get("entity", value.get("entityId"))
        info = value.get("otherinfo", value.get("otherInfo"))
        events = {}
        listed = value.get("events")
        for event in listed if isinstance(listed, list) else ():
            if isinstance(event, dict):
                word = event["eventtype"] if "eventtype" in event else event.get("eventType")
                at = moment(event["timestamp"] if "timestamp" in event else event.get("ts"))
                if at is not None and (word := text(word)):
                    events[word] = at
                if (more := event.get("eventinfo", event.get("eventInfo"))) and isinstance(more, dict):
                    info = {**more, **(info if isinstance(info, dict) else {})}
        facts = info if isinstance(info, dict) else {}
        filters = value.get("primaryfilters", value.get("primaryFilters")) if kind == "TEZ_DAG_ID" else None
        if isinstance(filters, dict):
            facts = dict(facts)
            for key, values in filters.items():
                if (
                    isinstance(values, list) and values and key != "status"
                ):  # a filter keeps every state that it ever had
                    facts.setdefault(key, values[-1])
        related = value.get("relatedEntities")
        for each in related if isinstance(related, list) else ():
            if isinstance(each, dict):
                facts.setdefault(
                    each.get("entitytype", each.get("entityType")), each.get("entity", each.get("entityId"))
                )
        self.take(kind, name, facts, events, moment(value.get("starttime", value.get("startTime"))))

    def take(self, kind: str, name: Any, facts: Mapping[str, Any], events: Events, order_ms: int | None = None) -> None:
        """Take facts about the entity ``name`` of a kind (``TEZ_TASK_ID``); others than Tez's are left out."""
        handle = _HANDLERS.get(kind)
        if handle is None:
            if not kind.startswith(("TEZ_", "HIVE_", "PIG_")):
                self.problem("unknown-entity", f"entities of type {clean(kind or '(none)', 100)} are not Tez's")
            return
        number, make = handle
        if not isinstance(name, str):
            name = ""
        if kind == "TEZ_CONTAINER_ID":
            found = _CONTAINER.fullmatch(name)
            parts = [*found.groups()] if found else []
        else:
            word, *parts = name.split("_")
            if word not in _SHORT or not all(part.isdecimal() and len(part) <= 18 for part in parts):
                found = _ID.fullmatch(name)
                parts = [part for part in found.groups()[1:] if part is not None] if found else []
        if len(parts) != number:
            self.problem("bad-record", f"{kind} {clean(name, 100)!r}: not an id of that type; it is left out")
            return
        make(self, (f"application_{parts[0]}_{parts[1]}", *map(int, parts[2:])), name, facts, events, order_ms)

    def _add(self, table: Table, *cells: Any) -> None:
        self.rows[table.name].append((self.seq, *cells))
        self.seq += 1

    def _application(
        self, ids: tuple[Any, ...], name: str, facts: Mapping[str, Any], events: Events, order: int | None
    ) -> None:
        conf, error = facts.get("config"), None
        if isinstance(conf, dict):
            bad = sorted(str(key) for key, value in conf.items() if not isinstance(value, str))
            error = f"java.lang.NullPointerException: {bad[0]} of the configuration is not a text" if bad else None
            conf = {clean(key, 400): clean(value) for key, value in conf.items() if isinstance(value, str)}
        version = facts.get("tezVersion")
        self._add(
            tables.APP_FACTS, ids[0], None, None, None, None, None, None, text(facts.get("user")),
            json.dumps(conf if isinstance(conf, dict) else {}), error,
            text(version.get("version") if isinstance(version, dict) else version),
        )  # fmt: skip

    def _dag(
        self, ids: tuple[Any, ...], name: str, facts: Mapping[str, Any], events: Events, order: int | None
    ) -> None:
        plan, names = facts.get("dagPlan"), facts.get("vertexNameIdMapping")
        counts = {}
        if "counters" in facts:
            try:
                groups = counters_of(facts["counters"])
                counts = {key: n for name in groups if name.startswith(_DAG_GROUPS) for key, n in groups[name].items()}
            except BadCounters:
                self.problem("bad-record", f"{name}: a counter without name, value or group")
        plan = plan if isinstance(plan, dict) else {}
        context = plan.get("dagContext") or plan.get("callerContext")
        context = context if isinstance(context, dict) else {}
        edges = [
            [clean(each["inputVertexName"], 400), clean(each["outputVertexName"], 400), text(each.get("dataMovementType"))]
            for each in (plan["edges"] if isinstance(plan.get("edges"), list) else ())
            if isinstance(each, dict) and all(isinstance(each.get(k), str) for k in ("inputVertexName", "outputVertexName"))
        ]  # fmt: skip
        self._add(
            tables.DAG_FACTS, *ids, text(facts.get("status")), order if order is not None else events.get("DAG_SUBMITTED"),
            _time(facts, "initTime", events, "DAG_INITIALIZED"), _time(facts, "startTime", events, "DAG_STARTED"),
            _time(facts, "endTime", events, "DAG_FINISHED"), text(facts.get("dagName") or plan.get("dagName")),
            text(facts.get("user")), text(facts.get("queueName")),
            text(facts.get("callerId") or context.get("callerId")), text(facts.get("callerType") or context.get("callerType")),
            text(facts.get("diagnostics")), json.dumps(edges) if edges else None,
            json.dumps([clean(str(each), 400) for each in names]) if isinstance(names, dict) else None,
            json.dumps({clean(str(key), 100): whole(value) for key, value in counts.items()}) if counts else None,
        )  # fmt: skip

    def _vertex(
        self, ids: tuple[Any, ...], name: str, facts: Mapping[str, Any], events: Events, order: int | None
    ) -> None:
        tasks = whole(facts.get("numTasks"))
        begun = "VERTEX_INITIALIZED" in events and "VERTEX_CONFIGURE_DONE" not in events
        self._add(
            tables.VERTEX_FACTS, *ids, text(facts.get("vertexName")), text(facts.get("processorClassName")), tasks,
            tasks if begun else None, text(facts.get("status")), _time(facts, "initTime", events, "VERTEX_INITIALIZED"),
            _time(facts, "startTime", events, "VERTEX_STARTED"), _time(facts, "endTime", events, "VERTEX_FINISHED"),
            text(facts.get("diagnostics")), text(facts.get("servicePlugin")),
        )  # fmt: skip

    def _task(
        self, ids: tuple[Any, ...], name: str, facts: Mapping[str, Any], events: Events, order: int | None
    ) -> None:
        broken, groups, chosen = None, {}, facts.get("successfulAttemptId")
        if (value := facts.get("counters")) is not None:
            try:
                groups = counters_of(value)
            except BadCounters as error:
                broken = str(error)
        if chosen is not None:
            of, _, number = chosen.rpartition("_") if isinstance(chosen, str) else ("", "", "")
            fits = of == f"attempt_{name[name.find('_') + 1 :]}" and number.isdecimal() and len(number) < 10
            chosen = int(number) if fits else -1
        self._add(
            tables.TASK_FACTS, *ids, text(facts.get("status")), chosen, moment(facts.get("scheduledTime")),
            _time(facts, "startTime", events, "TASK_STARTED"), _time(facts, "endTime", events, "TASK_FINISHED"),
            text(facts.get("diagnostics")) or None, broken, *counted(groups),
        )  # fmt: skip
        for group, counts in groups.items():
            if group.startswith("TaskCounter_") and (found := _PER_EDGE.fullmatch(group)):
                edge = json.dumps([clean(part, 200) for part in found.groups()])
                self._add(
                    tables.EDGE_FACTS, *ids, edge, *(whole(counts.get(each)) for each in tables.EDGE_COUNTED.values())
                )

    def _attempt(
        self, ids: tuple[Any, ...], name: str, facts: Mapping[str, Any], events: Events, order: int | None
    ) -> None:
        node, data = text(facts.get("nodeId"), 400), facts.get("lastDataEvents")
        last = data[-1] if isinstance(data, list) and data and isinstance(data[-1], dict) else {}
        self._add(
            tables.ATTEMPT_FACTS, *ids, text(facts.get("status")), moment(facts.get("creationTime")),
            moment(facts.get("allocationTime")), _time(facts, "startTime", events, "TASK_ATTEMPT_STARTED"),
            _time(facts, "endTime", events, "TASK_ATTEMPT_FINISHED"), text(facts.get("creationCausalAttempt"), 100),
            text(facts.get("taskAttemptErrorEnum"), 100), text(facts.get("taskFailureType"), 100),
            text(facts.get("diagnostics")) or None, node.rpartition(":")[0] or node if node else None,
            text(facts.get("containerId"), 100), moment(last.get("timestamp")), text(last.get("taskAttemptId"), 100),
        )  # fmt: skip

    def _container(
        self, ids: tuple[Any, ...], name: str, facts: Mapping[str, Any], events: Events, order: int | None
    ) -> None:
        self._add(
            tables.CONTAINER_FACTS, ids[0], name.removeprefix("tez_"), events.get("CONTAINER_LAUNCHED"),
            _time(facts, "endTime", events, "CONTAINER_STOPPED"), whole(facts.get("exitStatus")),
        )  # fmt: skip

    def _ignored(
        self, ids: tuple[Any, ...], name: str, facts: Mapping[str, Any], events: Events, order: int | None
    ) -> None:
        """Leave out an attempt of the application master: nothing is computed from it."""


def _time(facts: Mapping[str, Any], key: str, events: Events, event: str) -> int | None:
    return moment(facts[key]) if facts.get(key) is not None else events.get(event)


def _type_of(value: Mapping[str, Any]) -> str:
    kind = value.get("entitytype", value.get("entityType"))
    return kind if isinstance(kind, str) else ""


_LISTS = ("entities", "application", "dag", "vertices", "tasks", "task_attempts", "app", "apps")
_Handler = Callable[[Entities, tuple[Any, ...], str, Mapping[str, Any], Events, int | None], None]
_HANDLERS: dict[str, tuple[int, _Handler]] = {
    "TEZ_APPLICATION": (2, Entities._application),
    "TEZ_APPLICATION_ATTEMPT": (3, Entities._ignored),
    "TEZ_DAG_ID": (3, Entities._dag),
    "TEZ_DAG_EXTRA_INFO": (3, Entities._dag),
    "TEZ_VERTEX_ID": (4, Entities._vertex),
    "TEZ_TASK_ID": (5, Entities._task),
    "TEZ_TASK_ATTEMPT_ID": (6, Entities._attempt),
    "TEZ_CONTAINER_ID": (2, Entities._container),
}
"""Numbers in the id of each type of entity, and what makes its row."""
