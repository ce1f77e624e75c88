"""Options and fixtures of the whole suite."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import os
import sys
from compileall import compile_file
from pathlib import Path
from typing import Any

import pytest

# Read by Textual when it is imported; no test may wait for an animation.
os.environ.setdefault("TEXTUAL_ANIMATIONS", "none")
os.environ.setdefault("TEXTUAL_FPS", "15")  # as over SSH; 60 frames a second are a tenth of the screen tests
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # read by NumPy, which a test may import before the engine sets it
if os.environ.get("PYTEST_XDIST_WORKER", "gw0") != "gw0":
    # Read by Polars when it is imported. More threads than processors cost a tenth more time; one worker has them all, to show
    # whether the order of rows depends on threads.
    os.environ.setdefault("POLARS_MAX_THREADS", "1")
if sys.dont_write_bytecode:
    # Keep bytecode in a folder of its own: compiling Textual and Polars in every worker and in every program under test
    # is a fifth of the suite. Workers and programs inherit this from the environment.
    sys.pycache_prefix = str(Path(__file__).parents[1] / ".pytest_cache" / "bytecode")
    sys.dont_write_bytecode = False
    os.environ["PYTHONPYCACHEPREFIX"] = sys.pycache_prefix
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

if (mallopt := getattr(ctypes.CDLL(None), "mallopt", None)) is not None:
    # Tests make arrays, drop them and make them again: glibc keeps what is free instead of getting it from the kernel page by
    # page each time, which is a twentieth of the time of the engine's tests.
    for option, mebibytes in ((-1, 256), (-2, 16), (-3, 32)):  # M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_THRESHOLD
        mallopt(option, mebibytes << 20)

from hypothesis import settings

from tests.chance import tries

settings.register_profile("suite", tries(20))
settings.load_profile("suite")


def pytest_xdist_auto_num_workers() -> int:
    """Two more processes than there are processors: many tests wait for a terminal, a clock or a disk."""
    return (os.cpu_count() or 1) + 2


HEAVY = (
    ("polars",),
    ("textual.app",),
    ("hypothesis.strategies",),
    ("numpy", "scipy.optimize", "pygments.lexers.python"),
)
"""Libraries that a worker imports first."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    """Let each worker begin elsewhere: in a fresh checkout all would compile the same at the same time, twenty seconds in all."""
    worker = os.environ.get("PYTEST_XDIST_WORKER", "")[2:]
    if not worker or session.config.args != session.config.getini("testpaths"):
        return
    root, place, workers = session.config.rootpath, int(worker), int(os.environ["PYTEST_XDIST_WORKER_COUNT"])
    for name in HEAVY[place] if place < len(HEAVY) else ():
        importlib.import_module(name)
    product = sorted(path for part in ("engine", "tui", "sample_data") for path in (root / part).rglob("*.py"))
    for path in product[place::workers]:
        compile_file(path, quiet=2)
    others = {*session.config.getini("norecursedirs")}
    tests = sorted(path for path in (root / "tests").rglob("test_*.py") if not others.intersection(path.parts))
    for path in tests[place::workers]:
        with contextlib.suppress(Exception, pytest.skip.Exception):  # whatever it is, the collection tells it
            importlib.import_module(".".join(path.relative_to(root).with_suffix("").parts))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the short files of the engine last, so that all workers finish together; screen tests first: they are the longest."""
    items.sort(key=lambda item: (item.nodeid.startswith("tests/engine/"), not item.nodeid.startswith("tests/tui/")))


gc.disable()  # importing all tests makes half a million permanent objects


def pytest_collection_finish() -> None:
    """Keep imported objects out of garbage collection and collect rarely: it was a third of the screen tests."""
    gc.freeze()
    gc.set_threshold(200_000, 20)
    gc.enable()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-goldens",
        action="store_true",
        default=False,
        help="write what the screens show now as the new goldens",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Let workers tell of a passed test once, not of its fixtures too: that took a second for a thousand tests."""
    worker: Any = next(
        (one for one in config.pluginmanager.get_plugins() if type(one).__name__ == "WorkerInteractor"), None
    )
    if worker is None or config.option.durations or config.option.xmlpath:
        return
    send = worker.sendevent

    def tell(name: str, **words: Any) -> None:
        data = words.get("data")
        if name != "testreport" or data["when"] == "call" or data["outcome"] != "passed":
            send(name, **words)

    worker.sendevent = tell
