"""``kafka-topics.sh --describe`` → topology. Tabs or spaces, log lines in between, ELR columns, older ``-1`` leaders."""

from __future__ import annotations

import re
from typing import Any

import polars as pl

from engine.broker_load.reading.fields import MOST_REPLICAS, file_time, text_of
from engine.broker_load.tables.inputs import TOPOLOGY
from engine.core.problems import Problem
from engine.core.reading import Reading, Source
from engine.core.tables import Table
from engine.core.text import clean

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
_LOGGED = r"^\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}\] (?:TRACE|DEBUG|INFO|WARN) "
"""Lines of log4j that are no error: the tool warns of its settings before it answers."""
_UNCLEAN = r"(?:^|[\s,:])unclean\.leader\.election\.enable=(true|false)"


def _ids(column: str) -> pl.Expr:
    split = pl.col(column).str.replace_all(" ", "", literal=True).str.split(",")
    return split.list.eval(pl.element().filter(pl.element() != "").cast(pl.Int32, strict=False))


class TopicDescription:
    """Output of ``kafka-topics.sh --describe``."""

    id = "topic-description"
    title = "kafka-topics --describe"
    append = False
    version = 4
    tables: tuple[Table, ...] = (TOPOLOGY,)

    def recognise(self, name: str, head: bytes) -> bool:
        """Recognise by a line that begins with ``Topic:`` and goes on as a description does."""
        return _SEEN.search(head) is not None

    def read(self, source: Source, data: bytes, state: Any, final: bool) -> Reading:
        """Read one description to rows of ``topology``."""
        text = text_of(data)
        raw = text.split("\n")
        problems: list[Problem] = []
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
            pl.col("raw").str.extract(_TOPIC_ID).alias("topic_id"),
        ).unique("topic", keep="first", maintain_order=True)  # fmt: skip
        if stray.height:
            reason = f"not a line of a description: {stray['raw'][0].strip()[:100]}"
            problems.append(
                Problem.at(source.path, "stray-line", reason, line=int(stray["line"][0]), count=stray.height)
            )
        frame = rows.select(
            "line",
            pl.lit(file_time(source), pl.Int64).alias("time_ms"),
            pl.col("topic").map_elements(clean, return_dtype=pl.String) if _odd(rows) else pl.col("topic"),
            pl.col("partition").cast(pl.Int32, strict=False),
            pl.col("leader").replace("none", "-1").cast(pl.Int32, strict=False),
            _ids("replicas").alias("replicas"),
            _ids("isr").alias("isr"),
            pl.col("rest").str.extract(r"(?:^|\s)Offline(?:Replicas)?:\s*([0-9,]*)").alias("offline"),
            pl.col("rest").str.extract(r"(?:^|\s)Elr:[ \t]*((?:[0-9]+,?)*)").alias("elr"),
        )
        frame = frame.with_columns(
            pl.when(pl.col("offline").is_null()).then(pl.lit([], pl.List(pl.Int32))).otherwise(_ids("offline")).alias("offline"),
            pl.when(pl.col("elr").is_not_null()).then(_ids("elr")).alias("elr"),
        )  # fmt: skip
        subset = pl.col("isr").list.set_difference("replicas").list.len() == 0
        distinct = pl.col("replicas").list.n_unique() == pl.col("replicas").list.len()
        led = (pl.col("leader") < 0) | pl.col("replicas").list.contains(pl.col("leader"))
        fits = pl.col("replicas").list.len() <= MOST_REPLICAS
        for name in ("replicas", "isr", "offline", "elr"):
            fits &= ~pl.col(name).list.contains(None).fill_null(False)  # an id beyond 32 bits
        checked = frame.with_columns((subset & distinct & led & fits).fill_null(False).alias("sane"))
        if open_end and checked.height and int(checked["line"][-1]) == len(raw):
            # Without a line end the last list may be cut: only a full one can be trusted.
            full = checked.row(-1, named=True)
            if not full["sane"] or set(full["isr"]) != set(full["replicas"]):
                problems.append(
                    Problem.at(source.path, "cut-file", "the last line has no line end and is left out", line=len(raw))
                )
                checked = checked.head(-1)
        bad = checked.filter(~pl.col("sane"))
        if bad.height:
            reason = "leader or in-sync replicas are not among the replicas, a replica is listed twice, or an id is too large"
            problems.append(Problem.at(source.path, "bad-record", reason, line=int(bad["line"][0]), count=bad.height))
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
        if short.height:
            missing = int((short["count"] - short["len"]).sum())
            first = short.row(0, named=True)
            reason = f"topic {first['topic']}: {first['len']} of {first['count']} partitions are described"
            problems.append(Problem.at(source.path, "cut-file", reason, line=first["line"], count=missing))
        frame = frame.join(
            headers.select("topic", "min_isr", "unclean", "topic_id"), on="topic", how="left", maintain_order="left"
        ).drop("line", "sane")
        return Reading(rows={"topology": frame}, problems=problems, consumed=len(data), complete=final or not open_end)


def _odd(rows: pl.DataFrame) -> bool:
    return bool(rows["topic"].str.contains(r"[^ -~]").any())
