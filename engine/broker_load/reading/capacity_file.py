"""``capacity.json`` in its three forms (plain, cores, JBOD): bytes to capacities."""

from __future__ import annotations

import json
import math
import re
from typing import Any

from engine.broker_load.reading.fields import integer, number, shown, word
from engine.broker_load.tables.inputs import CAPACITY
from engine.core.reading import Document, Problem, Problems, Reading, Source, clean, decode
from engine.core.tables import Table
from engine.formats import json_text


class CapacityFile(Document):
    """``capacity.json``: all values are texts; CPU may be ``{"num.cores": "16"}``, DISK a map of directories."""

    id = "capacity"
    title = "capacity.json of Cruise Control (plain, cores, JBOD)"
    tables: tuple[Table, ...] = (CAPACITY,)

    def recognise(self, name: str, head: bytes) -> bool:
        """Recognise by its only key, after comments, too."""
        return head.lstrip()[:1] in (b"{", b"/", b"#") and b"brokerCapacities" in head

    def read(self, source: Source, data: bytes, state: Any, final: bool) -> Reading:
        """Read one capacity file to rows of ``capacity``; an entry that Cruise Control would refuse is a problem."""
        document = json_text.decode(source, data)
        if isinstance(document, Reading):
            document = json_text.decode(source, _TOKEN.sub(_strict, decode(data)).encode())
        if isinstance(document, Reading):
            return document
        content, problems = document.value, Problems(document.problems)
        entries = content.get("brokerCapacities") if isinstance(content, dict) else None
        if not isinstance(entries, list):
            problems.append(Problem.at(source.path, "bad-record", "brokerCapacities is not a list"))
            return Reading(problems=problems, consumed=len(data))
        of_broker: dict[int, dict[str, Any]] = {}
        cores: set[bool] = set()
        for place, entry in enumerate(entries):
            try:
                row = _entry(entry)
            except ValueError as error:
                problems.append(Problem.at(source.path, "bad-record", f"entry {place + 1}: {error}"))
                continue
            cores.add(row.pop("_cores"))
            if row["broker"] in of_broker:
                reason = f"broker {row['broker']} is given twice; the last counts, as in Cruise Control"
                problems.append(Problem.at(source.path, "bad-record", reason))
            of_broker[row["broker"]] = row
        if len(cores) > 1:
            reason = "num.cores must be given for all brokers or for none; Cruise Control refuses this file"
            problems.append(Problem.at(source.path, "mixed-cores", reason))
        rows = {column.name: [row[column.name] for row in of_broker.values()] for column in CAPACITY.columns}
        return Reading(rows={"capacity": rows}, problems=problems, consumed=len(data))


# Possessive, and an open text or comment reaches to the end: no character is looked at twice.
_TOKEN = re.compile(
    r"""(?P<text>"(?:[^"\\]++|\\.)*+(?:"|\Z|\\\Z))|'(?P<single>(?:[^'\\]++|\\.)*+)(?:'|\Z|\\\Z)|"""
    r"""(?P<comment>(?://|\#)[^\n]*+|/\*(?:[^*]++|\*(?!/))*+(?:\*/)?)|(?P<colon>=>?)|(?P<comma>;)|"""
    r"""(?P<bare>[^\s{}\[\]:,;=#'"/]++)""", re.DOTALL
)  # fmt: skip
"""What Cruise Control's lenient reader (Gson) also takes: comments, texts in single or no quotes, ``=`` and ``;``."""
_PLAIN = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null")


def _strict(token: re.Match[str]) -> str:
    """Return a token of lenient JSON as strict JSON has it."""
    given = token[0]
    if token["single"] is not None:
        return json.dumps(token["single"].replace("\\'", "'"))
    if token["bare"] is not None:
        return given if _PLAIN.fullmatch(given) else json.dumps(given)
    return {"comment": " ", "colon": ":", "comma": ","}.get(str(token.lastgroup), given)


def _amount(value: Any, what: str) -> float:
    amount = number(value)
    if amount is None or not math.isfinite(amount) or amount < 0:
        raise ValueError(f"{what} is not a number: {shown(value)}"[:200])
    return amount


def _entry(entry: Any) -> dict[str, Any]:
    """Return one entry as a row. Raises ValueError saying what is wrong with it."""
    if not isinstance(entry, dict) or not isinstance(entry.get("capacity"), dict):
        raise ValueError("no capacity")
    broker = integer(entry.get("brokerId"), low=-1)
    if broker is None:
        raise ValueError(f"brokerId {shown(entry.get('brokerId'))} is not a broker id")
    capacity = entry["capacity"]
    missing = [name for name in ("DISK", "CPU", "NW_IN", "NW_OUT") if name not in capacity]
    if missing:
        raise ValueError(f"broker {broker} lacks {', '.join(missing)}")
    disk, dirs = capacity["DISK"], None
    if isinstance(disk, dict):
        amounts = {clean(str(path)): _amount(mb, f"DISK {path}") for path, mb in disk.items()}
        relative = [path for path in amounts if not path.startswith("/")]
        if relative:
            raise ValueError(f"log directory {relative[0]!r} is not absolute")
        dirs, total = json.dumps(amounts), _amount(sum(amounts.values()), "DISK")
    else:
        total = _amount(disk, "DISK")
    cpu, cores, has_cores = capacity["CPU"], None, False
    if isinstance(cpu, dict):
        if "num.cores" not in cpu:
            raise ValueError("CPU is a map without num.cores")
        cores, cpu, has_cores = _amount(cpu["num.cores"], "num.cores"), 100.0, True
    return {
        "broker": broker,
        "disk_mb": total,
        "cpu": _amount(cpu, "CPU"),
        "cores": cores,
        "nw_in_kbs": _amount(capacity["NW_IN"], "NW_IN"),
        "nw_out_kbs": _amount(capacity["NW_OUT"], "NW_OUT"),
        "log_dirs": dirs,
        "doc": word(entry.get("doc")) or "",
        "_cores": has_cores,
    }
