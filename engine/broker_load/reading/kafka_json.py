"""JSON of Kafka's own tools: ``kafka-log-dirs --describe`` and ``kafka-reassign-partitions``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from engine.broker_load.reading.fields import file_time, id_list, integer, text_of, word
from engine.broker_load.tables.inputs import LOG_DIRS, PLANS, SIZES
from engine.core.problems import Problem, Problems
from engine.core.reading import Reading, Source
from engine.core.tables import Table
from engine.core.text import clean
from engine.formats import json_text


class LogDirectories:
    """Output of ``kafka-log-dirs.sh --describe``: two lines of text, then one line of JSON."""

    id = "log-directories"
    title = "kafka-log-dirs --describe"
    append = False
    version = 2
    tables: tuple[Table, ...] = (LOG_DIRS, SIZES)

    def recognise(self, name: str, head: bytes) -> bool:
        """Recognise by its keys, wherever the JSON line starts."""
        return b'"logDirs"' in head or b'"logDir"' in head

    def read(self, source: Source, data: bytes, state: Any, final: bool) -> Reading:
        """Read one answer to rows of ``log_dirs`` and ``log_dir_sizes``."""
        problems = Problems()
        content, number, reason = _answer(text_of(data), source.path, problems)
        if content is None:
            problem = Problem.at(source.path, "bad-json", f"the JSON line cannot be read: {reason}", line=number)
            return Reading(problems=[problem], complete=False)
        dirs: dict[str, list[Any]] = {column.name: [] for column in LOG_DIRS.columns}
        sizes: dict[str, list[Any]] = {column.name: [] for column in SIZES.columns}
        bad = 0
        brokers = content.get("brokers")
        for broker in brokers if isinstance(brokers, list) else []:
            broker_id = integer(broker.get("broker")) if isinstance(broker, dict) else None
            folders = broker.get("logDirs") if isinstance(broker, dict) else None
            if broker_id is None or not isinstance(folders, list):
                bad += 1
                continue
            for folder in folders:
                if not isinstance(folder, dict):
                    bad += 1
                    continue
                path = word(folder.get("logDir")) or ""
                dirs["broker"].append(broker_id)
                dirs["log_dir"].append(path)
                dirs["error"].append(word(folder.get("error")))
                replicas = folder.get("partitions")
                bad += _sizes(sizes, broker_id, path, replicas if isinstance(replicas, list) else [])
        time = file_time(source)
        dirs["time_ms"] = [time] * len(dirs["broker"])
        sizes["time_ms"] = [time] * len(sizes["broker"])
        if bad or not isinstance(brokers, list):
            problems.append(
                Problem.at(source.path, "bad-record", "not a broker, directory or replica as the tool writes it",
                           line=number, count=max(bad, 1))
            )  # fmt: skip
        return Reading(rows={"log_dirs": dirs, "log_dir_sizes": sizes}, problems=problems, consumed=len(data))


def _answer(text: str, path: str, problems: list[Problem]) -> tuple[dict[str, Any] | None, int, str]:
    """Return the newest JSON object of a ``text``, on one line or over many, the line it begins on, and why there is none."""
    lines = text.split("\n")
    first = next((number for number, line in enumerate(lines) if line.lstrip().startswith("{")), None)
    if first is None:
        return None, len(lines), "there is none"
    failure = ""
    # Mostly it is one object to the end; lines after it, or a second answer below, leave the lines to be tried one by one.
    whole = "\n".join(lines[first:])
    trials = [(first, whole[: whole.rfind("}") + 1])]
    trials += [(place, lines[place]) for place in range(len(lines) - 1, first - 1, -1)]
    for place, trial in trials:
        if '"brokers"' in trial and trial.lstrip().startswith("{"):
            try:
                document = json_text.parse(path, trial.encode())
            except json_text.ERRORS as error:
                failure = failure or str(error)
                continue
            content = document.value
            problems += document.problems
            if isinstance(content, dict) and "brokers" in content:
                return content, place + 1, ""
    return None, first + 1, failure or "no list of brokers"


def _sizes(sizes: dict[str, list[Any]], broker: int, path: str, replicas: list[Any]) -> int:
    """Append the replicas ``replicas`` in one directory; returns how many could not be read."""
    bad = 0
    for replica in replicas:
        try:
            topic, _, partition = replica["partition"].rpartition("-")
            size, lag, future = replica["size"], replica.get("offsetLag", 0), replica.get("isFuture", False)
            if future is True:
                continue
            if not topic or not partition.isascii() or not partition.isdecimal() or len(partition) > 9:
                raise ValueError
            if type(size) is not int or not 0 <= size < 2**63:
                raise ValueError
        except (TypeError, KeyError, AttributeError, ValueError):
            bad += 1
            continue
        sizes["broker"].append(broker)
        sizes["log_dir"].append(path)
        sizes["topic"].append(clean(topic))
        sizes["partition"].append(int(partition))
        sizes["size"].append(size)
        sizes["lag"].append(lag if type(lag) is int and -(2**63) <= lag < 2**63 else None)
    return bad


_PLAN = re.compile(
    rb'"version"\s*:\s*1\s*,\s*"partitions"\s*:|"partitions"\s*:\s*\[\s*\{\s*"(?:topic|partition|replicas|log_dirs)"'
)


class Reassignment:
    """``kafka-reassign-partitions`` JSON, also as ``--generate`` prints it: twice, under two captions."""

    id = "reassignment"
    title = "kafka-reassign-partitions JSON"
    append = False
    version = 2
    tables: tuple[Table, ...] = (PLANS,)

    def recognise(self, name: str, head: bytes) -> bool:
        """Recognise by its keys."""
        return _PLAN.search(head) is not None and b'"logDirs"' not in head

    def read(self, source: Source, data: bytes, state: Any, final: bool) -> Reading:
        """Read one file to rows of ``plans``; the caption above a JSON line tells current from proposed."""
        rows, problems = read_plan(source.path, text_of(data))
        return Reading(rows={"plans": rows}, problems=problems, consumed=len(data), complete=bool(rows["plan"]))


def _plans(path: str, text: str, problems: list[Problem]) -> Iterator[tuple[str, Any]]:
    """Yield the JSON documents in ``text``, each with whether it is the ``current`` or the ``proposed`` plan."""
    try:
        whole = json_text.parse(path, text.encode())
        problems += whole.problems
        yield "proposed", whole.value
        return
    except json_text.ERRORS:
        pass  # captions stand around it, or it is cut
    caption = "proposed"
    for number, line in enumerate(text.split("\n"), 1):
        stripped = line.strip()
        if stripped.startswith("{"):
            try:
                document = json_text.parse(path, stripped.encode())
            except json_text.ERRORS as error:
                problems.append(Problem.at(path, "bad-json", f"not JSON: {error}", line=number))
                continue
            problems += document.problems
            yield caption, document.value
        elif stripped.lower().startswith("current"):
            caption = "current"
        elif stripped:
            caption = "proposed"


def read_plan(path: str, text: str) -> tuple[dict[str, list[Any]], list[Problem]]:
    """Return the rows of ``plans`` and the problems of the reassignment JSON in ``text`` (also with captions around it)."""
    rows: dict[str, list[Any]] = {column.name: [] for column in PLANS.columns}
    problems = Problems()
    for caption, content in _plans(path, text, problems):
        partitions = content.get("partitions") if isinstance(content, dict) else None
        if not isinstance(partitions, list):
            problems.append(Problem.at(path, "bad-record", "partitions is not a list"))
            continue
        bad = 0
        for item in partitions:
            topic = item.get("topic") if isinstance(item, dict) else None
            partition = integer(item.get("partition")) if isinstance(item, dict) else None
            replicas = id_list(item.get("replicas")) if isinstance(item, dict) else None
            if not isinstance(topic, str) or not topic or partition is None or not replicas:
                bad += 1
                continue
            rows["plan"].append(caption)
            rows["topic"].append(clean(topic))
            rows["partition"].append(partition)
            rows["replicas"].append(replicas)
        if bad:
            problems.append(Problem.at(path, "bad-record", "entries without topic, partition or replicas", count=bad))
    return rows, problems
