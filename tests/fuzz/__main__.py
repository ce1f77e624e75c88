"""``python -m tests.fuzz``: damage sample files of every reader kind and check what their readers do.

Inputs follow from seed, view, kind and number alone, so that ``--kind K --seed S --only N`` repeats one of them. What failed is
saved below ``--save``, the smallest input for each mistake. The exit code is 1 if anything failed.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path

from tests.fuzz.attempt import Failure
from tests.fuzz.runner import Tried, run

SORTS = ("raises", "crash", "time-out", "memory", "super-linear", "rows", "problem", "text", "state", "split", "spread")


def table(results: Sequence[Tried]) -> str:
    """Return kinds, inputs and failures by sort."""
    rows = [("view", "kind", "inputs", "KB each", "MB/s", *SORTS)]
    for one in results:
        counts = [sum(failure.sort == sort for failure in one.failures) for sort in SORTS]
        size, speed = one.bytes / max(one.inputs, 1) / 1024, one.bytes / 1e6 / max(one.cpu_s, 1e-9)
        rows.append(
            (one.view, one.kind, f"{one.inputs:,}", f"{size:.1f}", f"{speed:.1f}", *(f"{n or '.'}" for n in counts))
        )
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def mistakes(results: Sequence[Tried], folder: Path | None, seed: int) -> list[str]:
    """Return a line for each different failure; save the smallest input of each below ``folder``."""
    lines = []
    for one in results:
        by_what: dict[tuple[str, str], list[Failure]] = {}
        for failure in one.failures:
            what = failure.what if failure.sort != "super-linear" else failure.what.split(":")[0]
            by_what.setdefault((failure.sort, what), []).append(failure)
        for (sort, _), failures in sorted(by_what.items()):
            least = min(failures, key=lambda failure: len(failure.data))
            lines.append(
                f"{one.view} {one.kind}: {sort}: {least.what} ({len(failures)} times; --seed {seed} --only {least.index})"
            )
            if folder is not None and least.data:
                stem = folder / f"{one.kind}.{sort}.{least.index}"
                folder.mkdir(parents=True, exist_ok=True)
                stem.with_suffix(stem.suffix + ".bin").write_bytes(least.data)
                if least.other is not None:
                    stem.with_suffix(stem.suffix + ".without").write_bytes(least.other)
                lines[-1] += f" {stem}.bin as {least.name!r}"
    return lines


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description="Damaged files for every reader kind.")
    parser.add_argument("--inputs", type=int, default=1000, metavar="N", help="inputs of each kind (1000)")
    parser.add_argument("--kind", action="append", default=[], metavar="K", help="only this kind; may be repeated")
    parser.add_argument("--seed", type=int, default=1, metavar="S")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, metavar="J", help="kinds tried at a time")
    parser.add_argument("--only", type=int, metavar="I", help="only the input of this number")
    parser.add_argument("--save", type=Path, metavar="DIR", help="folder for inputs that fail")
    given = parser.parse_args()
    results = run(given.kind, given.inputs, given.seed, given.jobs, given.only)
    print(table(results))
    lines = mistakes(results, given.save, given.seed)
    print("\n".join(["", *lines]))
    total, failed = sum(one.inputs for one in results), sum(len(one.failures) for one in results)
    print(f"\n{total:,} inputs of {len(results)} kinds, {failed:,} failed in {len(lines)} different ways")
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
