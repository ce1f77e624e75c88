"""``python -m tests.mutants ROOM``: make small mistakes in a folder of the engine, one at a time, and see which its tests miss.

A mutation tester of our own because Polars starts threads, which a fork does not survive: here all forks are made by one
process that has imported everything, collected the tests and computed nothing. A pass over the tests finds which modules of them
reach which function; a mutant gets those, the quickest first, until a test fails. A change inside a function is made in the
function's code in place; after any other (constants, defaults, what is called when a module is imported) everything is imported
once more and all tests are run. A mutant that takes ten times the processor time of the unchanged code counts as killed.
"""

from __future__ import annotations

import argparse
import ast
import gc
import importlib.machinery
import importlib.util
import os
import pickle
import random
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

# Before NumPy and Polars are imported: no threads that a forked child would miss.
os.environ["OPENBLAS_NUM_THREADS"] = os.environ["POLARS_MAX_THREADS"] = "1"

import hypothesis
import pytest
from _pytest.runner import runtestprotocol

from tests.mutants.sites import sites

ROOT = Path(__file__).parents[2]
OURS = ("engine", "sample_data", "tests", "tui")
PATIENCE = 10
"""How many times the processor time of the unchanged code a mutant may take."""
STUCK_S = 300
"""Seconds after which a waiting mutant is given up."""


class Mutant:
    """One changed module: its code, the function that is changed, and what to print."""

    def __init__(self, path: Path, index: int) -> None:
        tree = ast.parse(path.read_text())
        site = list(sites(tree))[index]
        before = ast.unparse(site.statement)
        site.change()
        after = ast.unparse(site.statement) if site.sort != "removed statement" else "pass"
        same = next((at for at, pair in enumerate(zip(before, after, strict=False)) if len(set(pair)) > 1), 0)
        shown = slice(max(0, same - 50), same + 50)
        self.path, self.owner, self.sort = path, site.owner, site.sort
        self.code = compile(ast.fix_missing_locations(tree), str(path), "exec")
        self.text = f"{path.relative_to(ROOT)}:{site.statement.lineno}: {site.sort}\n  - {before[shown]!r}\n  + {after[shown]!r}"


class Quick:
    """Settings of the tests for every mutant: the same random inputs, and no search for the smallest one that fails."""

    def pytest_configure(self) -> None:
        phases = (hypothesis.Phase.explicit, hypothesis.Phase.generate)
        hypothesis.settings.register_profile("mutants", phases=phases, database=None, derandomize=True, deadline=None)
        hypothesis.settings.load_profile("mutants")


class Loop(Quick):
    """Run the relevant tests once for each mutant, instead of all tests once."""

    def __init__(self, room: Path, count: int, seed: int, only: list[int]) -> None:
        self.room, self.only = room, only
        everything = [
            (path, index)
            for path in sorted(room.rglob("*.py"))
            for index, _ in enumerate(sites(ast.parse(path.read_text())))
        ]
        self.found = len(everything)
        self.tried, self.killed = Counter[str](), Counter[str]()
        self.slow = 0
        self.drawn = random.Random(seed).sample(everything, min(count, self.found))

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        names = [path.read_text().strip() for path in Path("/proc/self/task").glob("*/comm")]
        assert "polars-0" not in names, "collecting the tests has made Polars compute, which no fork survives"
        with tempfile.TemporaryDirectory() as folder:
            passes = Path(folder) / "passes"
            if child(lambda: self.reach(session, passes)):
                raise pytest.UsageError("the tests fail without any mutant")
            self.cost, self.reached = pickle.loads(passes.read_bytes())
        self.items = {item.nodeid: item for item in session.items}
        whole, self.dearest = Counter[str](), Counter[str]()
        for name, cost in self.cost.items():
            whole[module_of(name)] += cost
            self.dearest[module_of(name)] = max(self.dearest[module_of(name)], cost)
        self.order = sorted(self.cost, key=lambda name: (whole[module_of(name)], module_of(name), self.cost[name]))
        gc.unfreeze()
        functions = [each for each in gc.get_objects() if isinstance(each, FunctionType)]
        self.functions = {(each.__code__.co_filename, each.__code__.co_firstlineno): each for each in functions}
        gc.freeze()
        print(f"{len(session.items)} tests, {sum(self.cost.values()):.1f} s of processor time", flush=True)
        try:
            for number, (path, index) in enumerate(self.drawn, 1):
                if self.only and number not in self.only:
                    continue
                mutant = Mutant(path, index)
                ended = child(partial(self.judge, session, mutant))
                survived = ended == 0
                self.tried[mutant.sort] += 1
                self.slow += os.WIFSIGNALED(ended) and os.WTERMSIG(ended) in (signal.SIGPROF, signal.SIGALRM)
                self.killed[mutant.sort] += not survived
                if survived:
                    print(f"{number}: survived {mutant.text}", flush=True)
        finally:
            for sort, number in sorted(self.tried.items()):
                print(f"{sort}: {self.killed[sort]} of {number} killed")
            tried, killed = self.tried.total(), self.killed.total()
            slow = f"{self.slow} of them by taking too long"
            print(
                f"{killed} of {tried} killed ({killed / max(1, tried):.1%}), {slow}, drawn from {self.found}",
                flush=True,
            )
        return True

    def reach(self, session: pytest.Session, passes: Path) -> None:
        """Run every test once; write its processor time and the functions of the room that it calls."""
        cost: dict[str, float] = {}
        reached: dict[tuple[str, int], set[str]] = {}
        room, current = str(self.room), ""

        def called(frame: Any, event: str, argument: object) -> None:
            code = frame.f_code
            if code.co_filename.startswith(room):
                reached.setdefault((code.co_filename, code.co_firstlineno), set()).add(current)

        for item, after in zip(session.items, [*session.items[1:], None], strict=True):
            current, started = item.nodeid, time.process_time()
            sys.settrace(called)
            threading.settrace(called)
            if any(report.failed for report in runtestprotocol(item, nextitem=after, log=False)):
                os._exit(1)
            cost[current] = time.process_time() - started
        passes.write_bytes(pickle.dumps((cost, reached)))

    def judge(self, session: pytest.Session, mutant: Mutant) -> None:
        """Apply the mutant to this process and run tests until one fails; the exit code is 0 if all pass."""
        signal.alarm(STUCK_S)
        place = (str(mutant.path), mutant.owner or 0)
        names, function, code = self.reached.get(place), self.functions.get(place), code_at(mutant.code, mutant.owner)
        if not names or function is None or code is None or code.co_freevars != function.__code__.co_freevars:
            return again(mutant, self.order, sum(self.cost.values()))
        function.__code__ = code
        # What the tests of a module share is made by the first one that runs: so the others may reach the function, too.
        modules = {module_of(name) for name in names}
        items = [self.items[name] for name in self.order if module_of(name) in modules]
        for item, after in zip(items, [*items[1:], None], strict=True):
            cost = self.dearest[module_of(item.nodeid)] + PATIENCE * self.cost[item.nodeid]
            signal.setitimer(signal.ITIMER_PROF, 1 + cost)
            if any(report.failed for report in runtestprotocol(item, nextitem=after, log=False)):
                os._exit(1)


def module_of(name: str) -> str:
    """Return the file of a test by its id."""
    return name.partition("::")[0]


def again(mutant: Mutant, names: list[str], cost: float) -> None:
    """Forget all our modules, and import and test them with the mutant among them."""
    for name in [name for name in sys.modules if name.partition(".")[0] in OURS]:
        del sys.modules[name]
    module = ".".join(mutant.path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")

    class Changed(importlib.machinery.SourceFileLoader):
        def get_code(self, fullname: str) -> CodeType:
            return mutant.code

    class Finder:
        @staticmethod
        def find_spec(name: str, path: object = None, target: object = None) -> importlib.machinery.ModuleSpec | None:
            if name != module:
                return None
            return importlib.util.spec_from_file_location(name, mutant.path, loader=Changed(name, str(mutant.path)))

    sys.meta_path.insert(0, Finder)
    signal.setitimer(signal.ITIMER_PROF, 10 + PATIENCE * cost)
    os._exit(int(pytest.main(["-x", "-n", "0", "-p", "no:cacheprovider", *names], plugins=[Quick()])))


def code_at(code: CodeType, line: int | None) -> CodeType | None:
    """Return the code of the function that begins at a line of a module or of a class in it."""
    for inner in (each for each in code.co_consts if isinstance(each, CodeType)):
        if inner.co_firstlineno == line and not inner.co_name.startswith("<"):
            return inner
        if found := code_at(inner, line):
            return found
    return None


def child(work: Callable[[], None]) -> int:
    """Do something in a forked child that prints nothing; return how it ended, 0 for well."""
    process = os.fork()
    if process:
        return os.waitpid(process, 0)[1]
    try:
        silence = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silence, 1)
        os.dup2(silence, 2)
        work()
        os._exit(0)
    finally:
        os._exit(1)


def main() -> int:
    """Draw mutants, try them until interrupted, and print which survive and how many of each sort are killed."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("room", help="a folder below engine/, as query_profile/wlr")
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--tests", nargs="+", help="folders or files of tests (default: the room's)")
    parser.add_argument("--only", nargs="+", type=int, default=[], help="of the drawn mutants those with these numbers")
    options = parser.parse_args()
    loop = Loop(ROOT / "engine" / options.room, options.count, options.seed, options.only)
    tests = options.tests or [str(ROOT / "tests" / "engine" / options.room)]
    return int(pytest.main(["-s", "-n", "0", "-p", "no:cacheprovider", "-W", "ignore", *tests], plugins=[loop]))


if __name__ == "__main__":
    sys.exit(main())
