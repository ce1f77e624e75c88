"""Output of Kafka's own tools: ``kafka-topics --describe``, ``kafka-log-dirs --describe``, ``kafka-reassign-partitions``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import polars as pl

from engine.broker_load.reading.fields import (
    MOST_REPLICAS,
    columns,
    file_time,
    id_list,
    integer,
    problems_at,
    text_of,
    word,
)
from engine.broker_load.tables.inputs import LOG_DIRS, PLANS, SIZES, TOPOLOGY
from engine.core.reading import Document, Problem, Problems, Reading, Source, clean
from engine.core.tables import Rows, Table
from engine.formats import json_text


class LogDirectories(Document):
    """Output of ``kafka-log-dirs.sh --describe``: two lines of text, then one line of JSON."""

    id = "log-directories"
    title = "kafka-log-dirs --describe"
    marks = ('"brokers"', '"logdirs"')
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
        time, bad = file_time(source), 0
        dirs: list[tuple[Any, ...]] = []
        sizes: list[tuple[Any, ...] | None] = []
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
                path, replicas = word(folder.get("logDir")) or "", folder.get("partitions")
                dirs.append((time, broker_id, path, word(folder.get("error"))))
                sizes += (
                    _size((time, broker_id, path), one) for one in (replicas if isinstance(replicas, list) else [])
                )
        bad += sizes.count(None)
        if bad or not isinstance(brokers, list):
            problems.append(
                Problem.at(source.path, "bad-record", "not a broker, directory or replica in the tool's format",
                           line=number, count=max(bad, 1))
            )  # fmt: skip
        rows: dict[str, Rows] = {
            "log_dirs": columns(LOG_DIRS, dirs),
            "log_dir_sizes": columns(SIZES, filter(None, sizes)),
        }
        return Reading(rows=rows, problems=problems, consumed=len(data))


def _answer(text: str, path: str, problems: list[Problem]) -> tuple[dict[str, Any] | None, int, str]:
    """Return the newest JSON object in ``text``, on one line or several, the line it begins on, and why it is missing."""
    lines = text.split("\n")
    first = next((number for number, line in enumerate(lines) if line.lstrip().startswith("{")), None)
    if first is None:
        return None, len(lines), "there is none"
    failure = ""
    # Usually one object to the end; with lines or a second answer after it, lines are tried one by one.
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


def _size(of: tuple[Any, ...], replica: Any) -> tuple[Any, ...] | None:
    """Return the row of a ``replica`` after the columns ``of`` its directory: empty for one that is to move here, None if it
    cannot be read."""
    try:
        topic, _, partition = replica["partition"].rpartition("-")
        size, lag, future = replica["size"], replica.get("offsetLag", 0), replica.get("isFuture", False)
    except (TypeError, KeyError, AttributeError, ValueError):
        return None
    if future is True:
        return ()
    whole = partition.isascii() and partition.isdecimal() and len(partition) <= 9
    if not topic or not whole or type(size) is not int or not 0 <= size < 2**63:
        return None
    return *of, clean(topic), int(partition), size, lag if type(lag) is int and -(2**63) <= lag < 2**63 else None


_PLAN = re.compile(
    rb'"version"\s*:\s*1\s*,\s*"partitions"\s*:|"partitions"\s*:\s*\[\s*\{\s*"(?:topic|partition|replicas|log_dirs)"'
)


class Reassignment(Document):
    """``kafka-reassign-partitions`` JSON, also as ``--generate`` prints it: twice, under two captions."""

    id = "reassignment"
    title = "kafka-reassign-partitions JSON"
    tables: tuple[Table, ...] = (PLANS,)

    def recognise(self, name: str, head: bytes) -> bool:
        """Recognise by its keys."""
        return _PLAN.search(head) is not None and b'"logDirs"' not in head and b'"leader"' not in head

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


def _entries(
    path: str, text: str, problems: list[Problem], placed: bool
) -> Iterator[tuple[str, str, int, list[int] | None]]:
    """Yield caption, topic, partition and replicas of each entry of the JSON in ``text``; ``placed``: an entry needs replicas."""
    for caption, content in _plans(path, text, problems):
        partitions = content.get("partitions") if isinstance(content, dict) else None
        if not isinstance(partitions, list):
            problems.append(Problem.at(path, "bad-record", "partitions is not a list"))
            continue
        bad = 0
        for item in partitions:
            one = item if isinstance(item, dict) else {}
            topic, partition, replicas = one.get("topic"), integer(one.get("partition")), id_list(one.get("replicas"))
            if isinstance(topic, str) and topic and partition is not None and (replicas or not placed):
                yield caption, clean(topic), partition, replicas
            else:
                bad += 1
        if bad:
            needed = "topic, partition or replicas" if placed else "topic and partition"
            problems.append(Problem.at(path, "bad-record", f"entries without {needed}", count=bad))


def read_plan(path: str, text: str) -> tuple[dict[str, list[Any]], list[Problem]]:
    """Return the rows of ``plans`` and the problems of the reassignment JSON in ``text`` (also with captions around it)."""
    problems = Problems()
    return columns(PLANS, _entries(path, text, problems, True)), problems


def read_election(path: str, text: str) -> tuple[set[tuple[str, int]], list[Problem]]:
    """Return the partitions (topic and number) of the election JSON in ``text``, and its problems."""
    problems = Problems()
    return {(topic, number) for _, topic, number, _ in _entries(path, text, problems, False)}, problems


_IDS = r"[0-9]+(?:, ?[0-9]+)*"
_ROW = (
    r"^\s*Topic: ?\s*(?P<topic>[A-Za-z0-9._-]{1,255})\s+Partition:\s*(?P<partition>[0-9]{1,9})\s+"
    r"Leader:\s*(?P<leader>none|-1|[0-9]{1,9})\s+Replicas:\s*(?P<replicas>" + _IDS + r")\s*"
    r"\s+Isr:[ \t]*(?P<isr>(?:" + _IDS + r")?)(?P<rest>(?:\s.*)?)$"
)
_HEADER = r"^\s*Topic: ?\s*(?P<topic>[A-Za-z0-9._-]{1,255})\s.*PartitionCount:\s*(?P<count>[0-9]{1,9})\s(?P<rest>.*)$"
_SEEN = re.compile(rb"^[ \t]*Topic:[ \t]*\S+[ \t]+(?:TopicId:|PartitionCount:|Partition:)", re.MULTILINE)
_MIN_ISR = r"(?:^|[\s,:])min\.insync\.replicas=([0-9]{1,6})"
_TOPIC_ID = r"\sTopicId:\s*([A-Za-z0-9_-]{1,40})\s"
_LOGGED = (
    r"^\s*(?:\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[.,]?\d*Z?\]? (?:main ERROR|(?:\S+ )?(?:TRACE|DEBUG|INFO|WARN(?:ING)?))\b|"
    r"SLF4J[:(]|log4j:|WARN(?:ING)?\b|DEPRECATED: |.{0,40} VM warning: |Picked up \w*_OPTIONS: |"
    r"(?:main |ERROR )+StatusLogger |Defaulted container |Unable to use a TTY )"
)
"""Lines that are no error: of log4j, SLF4J, the Java machine and kubectl before the tool answers, or between its lines."""
_UNCLEAN = r"(?:^|[\s,:])unclean\.leader\.election\.enable=(true|false)"


def _ids(text: pl.Expr) -> pl.Expr:
    split = text.str.replace_all(" ", "", literal=True).str.split(",")
    return split.list.eval(pl.element().filter(pl.element() != "").cast(pl.Int32, strict=False))


class TopicDescription(Document):
    """Output of ``kafka-topics.sh --describe``."""

    id = "topic-description"
    title = "kafka-topics --describe"
    marks = ("topic:", "partition:", "leader:", "replicas:")
    tables: tuple[Table, ...] = (TOPOLOGY,)

    def recognise(self, name: str, head: bytes) -> bool:
        """Recognise by a line of a description, which begins with ``Topic:``."""
        return _SEEN.search(head) is not None

    def read(self, source: Source, data: bytes, state: Any, final: bool) -> Reading:
        """Read one description to rows of ``topology``."""
        raw = text_of(data).split("\n")
        open_end = raw[-1].strip() != ""
        frame = pl.DataFrame({"raw": pl.Series("raw", raw, dtype=pl.String)}).with_row_index("line", offset=1)
        frame = frame.filter(pl.col("raw").str.strip_chars() != "")
        frame = frame.filter(~pl.col("raw").str.contains(_LOGGED))
        rows = frame.with_columns(pl.col("raw").str.extract_groups(_ROW).alias("p")).unnest("p")
        other = rows.filter(pl.col("topic").is_null()).select("line", "raw")
        rows = rows.filter(pl.col("topic").is_not_null())
        headers = other.with_columns(pl.col("raw").str.extract_groups(_HEADER).alias("p")).unnest("p")
        stray = headers.filter(pl.col("topic").is_null())
        headers = headers.filter(pl.col("topic").is_not_null()).with_columns(
            pl.col("rest").str.extract(_MIN_ISR).cast(pl.Int32, strict=False).alias("min_isr"),
            pl.col("rest").str.extract(_UNCLEAN).replace_strict(
                {"true": True, "false": False}, default=None, return_dtype=pl.Boolean
            ).alias("unclean"),
            pl.col("count").cast(pl.Int64, strict=False),
            pl.col("raw").str.extract(_TOPIC_ID).fill_null("").alias("topic_id"),
        ).unique("topic", keep="first", maintain_order=True)  # fmt: skip
        shown = "".join(stray["raw"][:1]).strip()[:100]
        problems = problems_at(source, "stray-line", f"not a line of a description: {shown}", stray)
        rest = pl.col("rest").str
        frame = rows.select(
            "line",
            pl.lit(file_time(source), pl.Int64).alias("time_ms"),
            "topic",
            pl.col("partition").cast(pl.Int32, strict=False),
            pl.col("leader").replace("none", "-1").cast(pl.Int32, strict=False),
            *(_ids(pl.col(name)).alias(name) for name in ("replicas", "isr")),
            _ids(rest.extract(r"(?:^|\s)Offline(?:Replicas)?:\s*([0-9,]*)")).alias("offline"),
            _ids(rest.extract(r"(?:^|\s)Elr:[ \t]*((?:[0-9]+,?)*)")).alias("elr"),
            _ids(rest.extract(r"Adding ?Replicas:[ \t]*([0-9]+(?:, ?[0-9]+)*)")).alias("adding"),
            _ids(rest.extract(r"Removing ?Replicas:[ \t]*([0-9]+(?:, ?[0-9]+)*)")).alias("removing"),
            _ids(rest.extract(r"(?:^|\s)(?:Live)?Observers:[ \t]*([0-9]+(?:, ?[0-9]+)*)")).alias("observers"),
        ).with_columns(pl.col("offline").fill_null(pl.lit([], pl.List(pl.Int32))))
        subset = pl.col("isr").list.set_difference("replicas").list.len() == 0
        distinct = pl.col("replicas").list.n_unique() == pl.col("replicas").list.len()
        led = (pl.col("leader") < 0) | pl.col("replicas").list.contains(pl.col("leader"))
        fits = pl.col("replicas").list.len() <= MOST_REPLICAS
        for name in ("replicas", "isr", "offline", "elr"):
            fits &= ~pl.col(name).list.contains(None).fill_null(False)  # an id beyond 32 bits
        checked = frame.with_columns((subset & distinct & led & fits).fill_null(False).alias("sane"))
        if open_end and checked.height and int(checked["line"][-1]) == len(raw):
            # Without a line end the last list may be cut: only a complete one is used.
            full = checked.row(-1, named=True)
            if not full["sane"] or set(full["isr"]) != set(full["replicas"]):
                problems.append(
                    Problem.at(source.path, "cut-file", "the last line has no line end and is left out", line=len(raw))
                )
                checked = checked.head(-1)
        reason = (
            "leader or in-sync replicas are not among the replicas, a replica is listed twice, or an id is too large"
        )
        problems += problems_at(source, "bad-record", reason, checked.filter(~pl.col("sane")))
        frame = checked.filter(pl.col("sane"))
        double = frame.height - frame.select(pl.struct("topic", "partition").n_unique()).item() if frame.height else 0
        if double:
            problems.append(
                Problem.at(
                    source.path, "duplicate-partition", "partitions described twice; the last counts", count=double
                )
            )
            frame = frame.unique(["topic", "partition"], keep="last", maintain_order=True)
        short = (
            headers.join(frame.group_by("topic").len(), on="topic", how="left", maintain_order="left")
            .with_columns(pl.col("len").fill_null(0))
            .filter(pl.col("len") < pl.col("count"))
        )
        missing = int((short["count"] - short["len"]).sum())
        for first in short.head(1).iter_rows(named=True):
            reason = f"topic {first['topic']}: {first['len']} of {first['count']} partitions are described"
            problems += problems_at(source, "cut-file", reason, short, missing)
        frame = frame.join(
            headers.select("topic", "min_isr", "unclean", "topic_id"), on="topic", how="left", maintain_order="left"
        ).drop("line", "sane")
        return Reading(rows={"topology": frame}, problems=problems, consumed=len(data), complete=final or not open_end)
