"""Read old build logs: PerfData printed between ``[Result:Performance]`` and ``[Finished:Performance]``."""

from __future__ import annotations

import re
from typing import Any

from engine.core.reading import Reading, Source
from engine.core.tables import Table
from engine.run_comparison.reading import go_json
from engine.run_comparison.reading.clusterloader import take_items
from engine.run_comparison.reading.metric_kinds import BY_NAME
from engine.run_comparison.reading.series import Collected
from engine.run_comparison.tables import MEASUREMENTS, RUN_FACTS

_BEGIN = re.compile(r"\[Result:Performance\]\s*(\{.*)?$")
_END = "[Finished:Performance]"
_PREFIX = re.compile(r"^[IWEF]\d{4} \d\d:\d\d:\d\d\.\d+\] ?")
_ESCAPE = re.compile(r"\x1b\[[0-9;]*m|\[\d+m")
_MARK = "[k8s.io]"
_TEST = re.compile(r"[A-Z][\w ]*")


def _test_named(line: str) -> str:
    """Return the name of the test that a line of Ginkgo's output begins, empty for another line."""
    if _MARK not in line:
        return ""
    rest = _ESCAPE.sub("", line).partition(_MARK)[2].strip()
    named = _TEST.match(rest)
    if named is None or rest[named.end() : named.end() + 1] not in ("", "[", "\x1b"):
        return ""
    return named[0].strip().lower()


class BuildLog:
    """Results that e2e tests printed into ``build-log.txt`` before there were report files."""

    id = "build-log"
    title = "build-log.txt with [Result:Performance] blocks"
    append = False
    version = 1
    tables: tuple[Table, ...] = (MEASUREMENTS, RUN_FACTS)

    def recognise(self, name: str, head: bytes) -> bool:
        """Recognise the file by its name: the blocks stand far behind the first bytes."""
        return name == "build-log.txt"

    def read(self, source: Source, data: bytes, state: Any, final: bool) -> Reading:
        """Read every closed block; an open one is waited for, or is a problem when nothing will follow."""
        out = Collected(source)
        out.count = []
        test = "build-log"
        block: list[str] | None = None
        opened = 0
        closed = False
        for number, raw in enumerate(data.decode("utf-8", errors="replace").split("\n"), start=1):
            line = _PREFIX.sub("", raw.rstrip("\r"))
            if block is None:
                test = _test_named(line) or test
                begun = _BEGIN.search(line)
                if begun:
                    block, opened = [begun[1] or ""], number
                elif _END in line:
                    if not closed:  # else a bare bracket has closed the block
                        out.problem("bad-record", "a result block has no beginning", line=number)
                    closed = False
                continue
            if _END in line or line.rstrip() == "}":
                if _END not in line:
                    block.append(line)
                self._take(out, "\n".join(block), test, opened)
                block, closed = None, _END not in line
                continue
            block.append(line)
        if block is not None and final:
            out.problem("cut-file", "a result block has no end", line=opened)
        return out.reading(len(data))

    def _take(self, out: Collected, text: str, test: str, line: int) -> None:
        document = go_json.decode(text.encode())
        if document.refused:
            out.problem("bad-record", f"result block: {document.refused}", line=line)
        pods = any(item.labels.get("Metric") == "pod_startup" for item in document.items)
        kind = BY_NAME["PodStartupLatency" if pods else "APIResponsiveness"]
        take_items(out, kind.name, f"{kind.name}_{test}", document, exact=True)
