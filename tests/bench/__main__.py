"""``python -m tests.bench [module ...]``: the timing suite. Prints what was measured beside a physical floor or an
upstream figure; asserts nothing. Every module here exposes ``run() -> list[Line]``."""

from __future__ import annotations

import importlib
import pkgutil
import sys
from pathlib import Path

from tests.bench.line import Line, show


def modules() -> list[str]:
    """Names of the bench modules."""
    skip = {"__main__", "line"}
    found = sorted(m.name for m in pkgutil.iter_modules([str(Path(__file__).parent)]) if m.name not in skip)
    return [n for n in found if not n.startswith("_")]


def main(wanted: list[str]) -> int:
    known = modules()
    unknown = [name for name in wanted if name not in known]
    if unknown:
        print(f"no such bench: {', '.join(unknown)}; there are: {', '.join(known)}", file=sys.stderr)
        return 2
    lines: list[Line] = []
    for name in wanted or known:
        print(f"{name} ...", file=sys.stderr, flush=True)
        lines += importlib.import_module(f"tests.bench.{name}").run()
    print(show(lines))
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
