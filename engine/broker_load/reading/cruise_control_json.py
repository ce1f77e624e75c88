"""Answers of Cruise Control as JSON."""

from __future__ import annotations

import re
from typing import Any

from engine.broker_load.reading.answer_rows import TABLES, AnswerRows, as_list, as_map
from engine.broker_load.reading.fields import integer, number, word
from engine.broker_load.tables.inputs import ANSWER_GOALS, LOG_DIRS
from engine.core.problems import Problem
from engine.core.reading import Reading, Source
from engine.core.tables import Table
from engine.core.text import clean
from engine.formats import json_text


class CruiseControlJson:
    """``load``, ``partition_load``, ``kafka_cluster_state`` and optimisation answers as JSON."""

    id = "cruise-control-json"
    title = "Cruise Control answers as JSON (load, partition_load, kafka_cluster_state, proposals)"
    append = False
    version = 4
    tables: tuple[Table, ...] = TABLES

    def recognise(self, name: str, head: bytes) -> bool:
        """Recognise by keys that only these answers have."""
        return head.lstrip()[:1] == b"{" and any(
            key in head
            for key in (
                b'"FollowerNwInRate"', b'"PnwOutRate"', b'"KafkaBrokerState"', b'"KafkaPartitionState"',
                b'"networkInbound"', b'"goalSummary"', b'"loadAfterOptimization"', b'"DiskMB"',
            )
        )  # fmt: skip

    def read(self, source: Source, data: bytes, state: Any, final: bool) -> Reading:
        """Read one answer to rows of the answer tables; a verbose cluster state also gives topology."""
        document = json_text.decode(source, data)
        if isinstance(document, Reading):
            return document
        content, rows = document.value, AnswerRows(source)
        rows.problems += document.problems
        if not isinstance(content, dict):
            rows.wrong()
            return rows.reading(len(data), "an answer")
        if re.search(rb"[:\[,]\s*-?(?:NaN|Infinity)\b", data):
            reason = (
                "NaN or Infinity in JSON, which Cruise Control itself refuses to print outside of optimisation answers"
            )
            rows.problems.append(Problem.at(source.path, "nan-in-json", reason))
        for answer in ("load", "loadBeforeOptimization", "loadAfterOptimization"):
            part = content if answer == "load" else as_map(content.get(answer))
            for item in as_list(part.get("brokers")):
                rows.broker(answer, item)
            for item in as_list(part.get("hosts")):
                rows.broker(answer, item, is_host=True)
        for record in as_list(content.get("records")):
            rows.partition(record)
        _cluster_state(rows, content)
        summary = as_map(content.get("summary"))
        overall = {
            "score_before": number(summary.get("onDemandBalancednessScoreBefore")),
            "score_after": number(summary.get("onDemandBalancednessScoreAfter")),
            "provision": word(summary.get("provisionStatus")),
        }
        for goal in as_list(content.get("goalSummary")):
            if not isinstance(goal, dict) or not isinstance(goal.get("goal"), str):
                rows.wrong()
                continue
            rows.add(ANSWER_GOALS, {"goal": clean(goal["goal"]), "status": word(goal.get("status"))} | overall)
        return rows.reading(len(data), "an answer")


_PARTS = ("offline", "with-offline-replicas", "urp", "under-min-isr", "other")


def _cluster_state(rows: AnswerRows, content: dict[str, Any]) -> None:
    partitions = as_map(content.get("KafkaPartitionState"))
    if "other" in partitions:
        # Only a verbose answer lists every partition; a short one would look like a tiny cluster.
        listed: set[tuple[str, int]] = set()
        for part in _PARTS:
            for item in as_list(partitions.get(part)):
                named = as_map(item)
                topic, partition = named.get("topic"), named.get("partition")
                if isinstance(topic, str) and isinstance(partition, int):
                    if (topic, partition) in listed:
                        continue
                    listed.add((topic, partition))
                rows.placement(item)
    brokers = as_map(content.get("KafkaBrokerState"))
    leaders, replicas = as_map(brokers.get("LeaderCountByBrokerId")), as_map(brokers.get("ReplicaCountByBrokerId"))
    for broker, count in replicas.items():
        number_of = integer(broker)
        if number_of is None:
            rows.wrong()
            continue
        rows.counts(number_of, integer(leaders.get(broker, 0)), integer(count))
    for key, error in (("OnlineLogDirsByBrokerId", None), ("OfflineLogDirsByBrokerId", "offline")):
        for broker, folders in as_map(brokers.get(key)).items():
            number_of = integer(broker)
            for folder in as_list(folders):
                if number_of is not None and isinstance(folder, str):
                    rows.add(
                        LOG_DIRS, {"time_ms": rows.time, "broker": number_of, "log_dir": clean(folder), "error": error}
                    )
