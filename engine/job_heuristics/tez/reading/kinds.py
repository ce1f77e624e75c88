"""The file kinds of Tez applications: saved answers, archives, histories as text, and Tez's proto histories.

These are Hadoop sequence files whose values are protocol buffers, one per event. A header names classes and codec; a record is
its length, that of its key, the key, and the value; a length of -1 is followed by the sync mark. See
docs/models/job-heuristics.md, "Tez: proto histories".
"""

from __future__ import annotations

import io
import re
import zipfile
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from engine.core.compression import Budget, TooBig
from engine.core.reading import Document, FileKind, Log, Reading, Source, clean, from_first_character
from engine.core.tables import Table
from engine.formats import archives, json_text, protobuf
from engine.job_heuristics.tez.reading.entities import Entities
from engine.job_heuristics.tez.tables import FACTS

_ZLIB = {"org.apache.hadoop.io.compress.DefaultCodec": 15, "org.apache.hadoop.io.compress.DeflateCodec": 15,
         "org.apache.hadoop.io.compress.GzipCodec": 31}  # fmt: skip
"""Codecs that are read, with zlib's window bits."""
_SYNC = 16
MOST_RECORD = 256 << 20  # most bytes of a record; longer ones are taken for damage
_KINDS = (("TASK_ATTEMPT_", "TEZ_TASK_ATTEMPT_ID", 9), ("TASK_", "TEZ_TASK_ID", 8), ("VERTEX_", "TEZ_VERTEX_ID", 7),
          ("DAG_", "TEZ_DAG_ID", 6), ("CONTAINER_", "TEZ_CONTAINER_ID", 0), ("APP_", "TEZ_APPLICATION", 4))  # fmt: skip
"""Beginning of an event's type, the entity that it is about, and the field with its id."""


class _Damaged(ValueError):
    """Raised for a header that cannot be read; ``cut``: more bytes may mend it."""

    def __init__(self, reason: str, *, cut: bool) -> None:
        super().__init__(reason)
        self.cut = cut


def _text(data: bytes, at: int) -> tuple[str, int]:
    """Read a length and as many bytes of text. Raises _Damaged."""
    if at >= len(data):
        raise _Damaged("it ends inside its header", cut=True)
    length, at = data[at], at + 1
    if length >= 128:  # 256 - 112 - n, then n bytes
        more = 144 - length
        if not 0 < more <= 4:
            raise _Damaged("a length in its header is damaged", cut=False)
        length, at = int.from_bytes(data[at : at + more], "big"), at + more
    if length > 10_000:
        raise _Damaged("a text of its header is too long", cut=False)
    if at + length > len(data):
        raise _Damaged("it ends inside its header", cut=True)
    return data[at : at + length].decode("utf-8", "replace"), at + length


def _header(data: bytes) -> tuple[dict[str, Any], int]:
    """Return window bits of the codec (0: not compressed) and sync mark, and where records begin. Raises _Damaged."""
    _, at = _text(data, 4)
    _, at = _text(data, at)
    packed, blocks = data[at : at + 1] == b"\x01", data[at + 1 : at + 2] == b"\x01"
    codec, at = _text(data, at + 2) if packed else ("", at + 2)
    if blocks or (packed and codec not in _ZLIB):
        raise _Damaged(
            f"compressed {'in blocks' if blocks else f'by {clean(codec, 200)}'}, which is not read", cut=False
        )
    pairs, at = int.from_bytes(data[at : at + 4], "big"), at + 4
    for _ in range(2 * min(pairs, 1000)):
        _, at = _text(data, at) if int.from_bytes(data[at : at + 1], "big") else ("", at + 1)
    if at + _SYNC > len(data):
        raise _Damaged("it ends inside its header", cut=True)
    return {"bits": _ZLIB.get(codec, 0), "sync": data[at : at + _SYNC]}, at + _SYNC


def read(source: Source, data: bytes, state: Any, final: bool) -> Reading:
    """Read the new records of a file; ``state`` as left by the last call."""
    state = dict(state) if isinstance(state, dict) else {}
    to = Entities(source.path, state.get("seq", 0))
    at = 0
    if "sync" not in state:
        try:
            header, at = _header(data)
        except _Damaged as error:
            if error.cut and not final:
                return Reading()
            to.problem("cut-file" if error.cut else "bad-header", str(error))
            return to.reading(0 if error.cut else len(data), state)
        state |= header
    budget = source.budget()
    try:
        at = _proto_records(to, data, at, state, source.offset, budget)
    except TooBig as error:
        to.problem("too-big", f"{error}; the rest of the history is left out")
        at = len(data)
    if final and at < len(data):
        to.problem("cut-file", "the history ends inside a record", byte=source.offset + at)
    state["seq"] = to.seq
    return to.reading(at, state)


def _proto_records(to: Entities, data: bytes, at: int, state: dict[str, Any], offset: int, budget: Budget) -> int:
    """Take whole records from ``at`` on; return where they end. Raises TooBig."""
    bits, mark = state["bits"], b"\xff\xff\xff\xff" + state["sync"]
    while at + 8 <= len(data):
        length = int.from_bytes(data[at : at + 4], "big", signed=True)
        key = int.from_bytes(data[at + 4 : at + 8], "big", signed=True)
        if length == -1 and data.startswith(mark, at):
            at += len(mark)
            continue
        if length == -1 and at + len(mark) > len(data):
            break
        end = at + 8 + length
        if not 0 <= key <= length <= MOST_RECORD or (end > len(data) and data.find(mark, at) >= 0):
            to.problem(
                "bad-record", "a length is damaged; records up to the next sync mark are left out", byte=offset + at
            )
            later = data.find(mark, at + 1)
            at = later if later >= 0 else len(data)
            continue
        if end > len(data):
            break
        try:
            value = data[at + 8 + key : end]
            _event(to, _inflated(value, bits, budget) if bits else value)
        except (zlib.error, protobuf.WireError) as error:
            to.problem("bad-record", f"{error}; the record is left out", byte=offset + at)
        at = end
    return at


def _inflated(value: bytes, bits: int, budget: Budget) -> bytes:
    """Decompress one value. Raises zlib.error, TooBig."""
    made = zlib.decompressobj(bits).decompress(value, max(1, budget.limit - budget.taken + 1))
    budget.take(len(made))
    return made


_PAIR, _KEY = 10 << 3 | protobuf.BYTES, 1 << 3 | protobuf.BYTES  # tags of a pair, and of the key in it


def _chunk(value: bytes, at: int, end: int) -> tuple[int, int]:
    """Return begin and end of the content of a length-delimited field. Raises WireError."""
    size, start = value[at + 1] if at + 1 < end else 0x80, at + 2
    if size > 0x7F:
        size, start = protobuf.varint(value, at + 1, end)
    if start + size > end:
        raise protobuf.WireError("a field is longer than the data", at)
    return start, start + size


def _event(to: Entities, value: bytes) -> None:
    """Take one event. Raises WireError."""
    length, at = protobuf.varint(value, 0, len(value))
    if at + length > len(value):
        raise protobuf.WireError("an event is longer than its record", at)
    found: dict[int, str] = {}
    pairs: dict[str, bytes] = {}
    moment, end = 0, at + length
    while at < end:
        tag = value[at]
        if tag & 7 == protobuf.BYTES and tag < 0x80:
            start, at = _chunk(value, at, end)
            if tag == _PAIR and start < at and value[start] == _KEY:
                begin, until = _chunk(value, start, at)
                text = _chunk(value, until, at)[0] if until < at else at
                pairs[value[begin:until].decode("utf-8", "replace")] = value[text:at]
            else:
                found[tag >> 3] = value[start:at].decode("utf-8", "replace")
        else:
            number, _, start, at = next(protobuf.fields(value, at, end))
            moment = start if number == 2 else moment
    event = found.get(1, "")
    for begins, entity, field in _KINDS:
        if event.startswith(begins):
            facts = {key: fact for key, data in pairs.items() if (fact := _value(key, data, entity)) is not None}
            if 3 in found and entity != "TEZ_TASK_ATTEMPT_ID":
                facts.setdefault("user", found[3])
            name = found.get(field) or str(facts.get("containerId", ""))
            name = f"tez_{name}" if entity == "TEZ_APPLICATION" else name
            to.take(entity, name, facts, {event: moment}, moment if event == "DAG_SUBMITTED" else None)
            return
    if not event.startswith("AM_"):
        to.problem("unknown-event", f"events of type {clean(event or '(none)', 100)} are not known")


_PARSED: dict[str, Callable[[bytes], Any]] = {
    **dict.fromkeys(("config", "dagPlan", "vertexNameIdMapping", "lastDataEvents", "counters", "tezVersion"),
                    msgspec.json.decode),
    **dict.fromkeys(("startTime", "endTime", "initTime", "creationTime", "allocationTime", "scheduledTime", "numTasks",
                     "exitStatus"), int),
}  # fmt: skip
"""How the text of a value is parsed; others stay texts."""


def _value(key: str, data: bytes, entity: str) -> Any:
    if key == "counters" and entity in ("TEZ_TASK_ATTEMPT_ID", "TEZ_VERTEX_ID"):
        return None  # not used, and most of the bytes
    parse = _PARSED.get(key)
    if parse is None:
        return data.decode("utf-8", "replace")
    try:
        return parse(data) if len(data) < 20 or parse is not int else None
    except json_text.ERRORS:
        return None


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
_RECORDS = (2, 1)  # brackets around a record of an answer: an entity of a list, or the entity itself


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
        return (
            _OF_TEZ.search(head) is not None and _APPEARS.search(head) is not None
            if _YARN.match(head)
            else _ERROR.match(head) is not None
        )

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
        return read(source, data, state, final)


KINDS: tuple[FileKind, ...] = (Answer(), Archive(), Proto(), History())  # in the order of the page of formats
