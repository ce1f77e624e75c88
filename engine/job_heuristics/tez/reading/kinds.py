"""The file kinds of Tez applications: saved answers, archives, histories as text, and Tez's proto histories."""

from __future__ import annotations

import io
import re
import zipfile
import zlib
from collections.abc import Iterator
from typing import Any

import msgspec

from engine.core.compression import Budget, TooBig
from engine.core.reading import Document, FileKind, Log, Reading, Source, clean, from_first_character
from engine.core.tables import Table
from engine.formats import archives, json_text
from engine.job_heuristics.tez.reading import proto_history
from engine.job_heuristics.tez.reading.entities import Entities
from engine.job_heuristics.tez.tables import FACTS

_TEZ = re.compile(
    rb'"TEZ_(?:APPLICATION|APPLICATION_ATTEMPT|DAG_ID|DAG_EXTRA_INFO|VERTEX_ID|TASK_ID|TASK_ATTEMPT_ID|CONTAINER_ID)"'
    rb'|"tez_(?:application|container|appattempt)_|"tez\.[a-z]|"(?:dag|vertex)_\d{1,18}_\d|tez\.common\.counters'
)
_ENTITIES = re.compile(
    rb'\{\s*"(?:entities|events|entity|entityId|entity[tT]ype|starttime|domain|related[eE]ntities|primary[fF]ilters'
    rb'|other[iI]nfo)"\s*:'
)
_YARN = re.compile(
    rb'\{\s*"(?:app|apps)"\s*:|\{\s*"(?:appId|currentAppAttemptId)"\s*:\s*"app'
    rb'|\{\s*"(?:user|name|queue)"\s*:.{1,400}"appId"', re.DOTALL
)  # fmt: skip

_OF_TEZ = re.compile(rb'"(?:type|applicationType)"\s*:\s*"TEZ"', re.IGNORECASE)
_APPEARS = re.compile(rb'"application_\d{1,18}_\d')
_ERROR = re.compile(rb'\{\s*"exception"\s*:.{1,2000}(?:timeline|TEZ_)', re.DOTALL | re.IGNORECASE)
_NEXT = re.compile(rb'\}\s*\x01|\}\s*\{\s*"(?:ent|events|other|related|primary|start|domain)')
_LOG_NAME = re.compile(r"history\.txt\.|(?:summarylog|entitylog)-")
_RECORDS = (2, 1)
"""Brackets around a record of an answer: an entity of a list, or the entity itself."""


class Answer(Document):
    """One saved answer of ``/ws/v1/timeline/TEZ_...``, or of YARN about a Tez application."""

    id = "tez-answer"
    title = "Answers of the YARN timeline server and of YARN about Tez applications (JSON)"
    tables: tuple[Table, ...] = FACTS

    def recognise(self, name: str, head: bytes) -> bool:
        """Recognise it by its first key and the types, ids or settings of Tez in it."""
        head = from_first_character(head)
        if _ENTITIES.match(head):
            return _TEZ.search(head) is not None and not _is_log(name, head)
        if _YARN.match(head):
            return _OF_TEZ.search(head) is not None and _APPEARS.search(head) is not None
        return _ERROR.match(head) is not None

    def read(self, source: Source, data: bytes, state: Any, final: bool) -> Reading:
        """Read the whole answer."""
        to = Entities(source.path)
        document = json_text.decode(source, data, records=_RECORDS, ends_cut=True)
        if isinstance(document, Reading):
            if not final or not _records(to, data):
                return document
        else:
            to.problems += document.problems
            if document.cut:
                to.problem("cut-file", "the answer is cut: entities behind the cut are missing")
            to.answer(document.value, cut=document.cut)
        return to.reading(len(data))


def _is_log(name: str, head: bytes) -> bool:
    return _LOG_NAME.match(name) is not None or _NEXT.search(head) is not None


def _records(to: Entities, data: bytes) -> int:
    """Take JSON objects with anything between them. Return where the last one ends, 0 without any."""
    last = 0
    for begin, end in json_text.spans(data, 0):
        try:
            value = json_text.parse(to.path, data[begin:end]).value
        except json_text.ERRORS as error:
            to.problem("bad-record", f"{json_text.reason(error)}; the record is left out", byte=begin)
            continue
        if isinstance(value, dict):
            last = end
            to.entity(value)
    return last


class History(Log):
    """Tez's simple history (``history.txt.APPATTEMPT``) and entity files of timeline 1.5: one record after the other."""

    id = "tez-history"
    title = "Histories of Tez as text: history.txt.*, summarylog-* and entitylog-* of timeline 1.5"
    tables: tuple[Table, ...] = FACTS
    ends_cut = True

    def recognise(self, name: str, head: bytes) -> bool:
        """Recognise it by records of Tez that follow each other, or by the name that Tez gives such files."""
        head = from_first_character(head)
        return _ENTITIES.match(head) is not None and _TEZ.search(head) is not None and _is_log(name, head)

    def read(self, source: Source, data: bytes, state: Any, final: bool) -> Reading:
        """Read the new records. ``state``: number of facts and lines read before."""
        state = dict(state) if isinstance(state, dict) else {"seq": 0, "line": 0}
        to = Entities(source.path, state["seq"])
        end = data.rfind(b"\n") + 1
        for line in data[:end].split(b"\n")[:-1]:
            state["line"] += 1
            self._line(to, line, state["line"])
        tail = data[end:]
        if final or b"}{" in tail:
            end += _records(to, tail)
            if final and data[end:].strip(b" \t\r\x01\0"):
                to.problem("cut-file", "the history ends inside a record", line=state["line"] + 1)
        state["seq"] = to.seq
        return to.reading(end, state)

    def _line(self, to: Entities, line: bytes, number: int) -> None:
        line = line.strip(b" \t\r\x01\xef\xbb\xbf\0")
        if not line:
            return
        try:
            value = msgspec.json.decode(line)
            if isinstance(value, dict):
                to.entity(value)
            else:
                to.problem("bad-record", "a record that is no object is left out", line=number)
        except json_text.ERRORS as error:
            if not _records(to, line):  # several records without a line end between them, or an odd one
                to.problem("bad-record", f"{json_text.reason(error)}; the record is left out", line=number)


_ENTRY = re.compile(rb"(?:application|dag|dag-extra-info|vertices_part_\d+|tasks_part_\d+|task_attempts_part_\d+|hive_query_id"
                    rb"|error\..{1,100})\.json|dag_\d{1,18}_\d{1,18}_\d{1,18}|part-\d{1,20}\.json")  # fmt: skip
MOST_ENTRIES = 20_000


class Archive(Document):
    """``DAGID.zip`` of the Tez UI's "Download data" or of Tez's import tool: the entities of one DAG."""

    id = "tez-archive"
    title = "Archives of one DAG, as the Tez UI's Download data and Tez's import tool make them (DAGID.zip)"
    tables: tuple[Table, ...] = FACTS
    unpacks = True

    def recognise(self, name: str, head: bytes) -> bool:
        """Recognise a zip by its magic bytes and the name of its first entry."""
        return _ENTRY.fullmatch(archives.first_name(head) or b"") is not None

    def read(self, source: Source, data: bytes, state: Any, final: bool) -> Reading:
        """Read the entities of all entries; none is written anywhere."""
        to = Entities(source.path)
        budget = source.budget()
        try:
            with zipfile.ZipFile(io.BytesIO(data)) as archive:
                listed = archive.infolist()
                if len(listed) > MOST_ENTRIES:
                    to.problem("too-big", f"only the first {MOST_ENTRIES:,} of {len(listed):,} entries are read")
                for entry in listed[:MOST_ENTRIES]:
                    if not entry.is_dir():
                        _entry(to, archive, entry, budget)
        except TooBig as error:
            to.problem("too-big", f"{error}; the rest of the archive is left out")
        except (zipfile.BadZipFile, ValueError, NotImplementedError, OSError) as error:
            to.problem("damaged-archive", f"unreadable zip: {error}")
            for name, content in _without_directory(data, budget, to):
                _content(to, name, content)
            reading = to.reading(len(data))
            reading.complete = bool(reading.rows)
            return reading
        return to.reading(len(data))


def _entry(to: Entities, archive: zipfile.ZipFile, entry: zipfile.ZipInfo, budget: Budget) -> None:
    """Read one entry. Raises TooBig."""
    name = clean(entry.filename, 400)

    def damaged(reason: str) -> None:
        to.problem("damaged-archive", f"{name}: {reason}")

    content = b"".join(archives.pieces(archive, entry, budget, damaged, packed=False))
    if content:
        _content(to, name, content)


def _content(to: Entities, name: str, content: bytes) -> None:
    if name.rpartition("/")[2].startswith("error."):
        said = clean(content[:200].decode("utf-8", "replace"))
        to.problem("partial-archive", f"the Tez UI could not fetch {name.rpartition('/')[2][6:]}: {said}")
        return
    if content.startswith(archives.MAGIC):
        to.problem("nested-archive", f"{name} is an archive within the archive: it is left out")
        return
    try:
        document = json_text.parse(to.path, content, records=_RECORDS, ends_cut=True)
    except json_text.ERRORS as error:
        to.problem("bad-json", f"{name}: {json_text.reason(error)}")
        return
    to.problems += document.problems
    if document.cut:
        to.problem("cut-file", f"{name} is cut: entities behind the cut are missing")
    to.answer(document.value, cut=document.cut)


def _without_directory(data: bytes, budget: Budget, to: Entities) -> Iterator[tuple[str, bytes]]:
    """Yield names and contents of the entries of a zip whose end is missing, from its start on, as far as they go."""
    at = 0
    while data[at : at + 4] == archives.MAGIC and len(data) >= at + 30:
        method, packed, named, more = (
            int.from_bytes(data[at + begin : at + end], "little")
            for begin, end in ((8, 10), (18, 22), (26, 28), (28, 30))
        )
        start = at + 30 + named + more
        name = clean(data[at + 30 : at + 30 + named].decode("utf-8", "replace"), 400)
        if method not in (0, 8) or (method == 0 and not packed):
            return
        content, at = data[start : start + packed] if packed else data[start:], start + packed
        if method == 8:
            inflate = zlib.decompressobj(-15)
            try:
                content = inflate.decompress(content, budget.limit - budget.taken + 1)
                budget.take(len(content))
            except (zlib.error, TooBig, ValueError) as error:
                to.problem("damaged-archive", f"{name}: {error}")
                return
            if not packed:  # its length stands behind it
                at = len(data) - len(inflate.unused_data)
                later = data.find(archives.MAGIC, at, at + 28)
                at = later if later >= 0 else len(data)
        yield name, content


class Proto(Log):
    """Tez's proto history: ``app_data`` and ``dag_data`` below ``tez.history.logging.proto-base-dir``."""

    id = "tez-proto-history"
    title = "Proto histories of Tez (app_data, dag_data): sequence files as HDP 3, CDP, Hive 3 and 4 write them"
    tables: tuple[Table, ...] = FACTS
    ends_cut = True
    unpacks = True

    def recognise(self, name: str, head: bytes) -> bool:
        """Recognise a sequence file of Tez's history events."""
        return head.startswith(b"SEQ") and b"dag.history.logging.proto.ProtoMessageWritable" in head[:400]

    def read(self, source: Source, data: bytes, state: Any, final: bool) -> Reading:
        """Read the new records. ``state``: the header and the number of facts read before."""
        return proto_history.read(source, data, state, final)


KINDS: tuple[FileKind, ...] = (Answer(), Archive(), Proto(), History())
"""In the order of the page of formats."""
