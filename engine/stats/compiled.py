"""Single functions of scipy, loaded without the rest of their packages.

The ``__init__`` of scipy.special and scipy.optimize read the documentation of hundreds of functions and ask for all of NumPy's
modules, which takes 0.1 and 0.3 seconds; the modules that hold the functions alone take a tenth of that.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import Any

import scipy

HOMES = {
    "nnls": ("optimize", "_nnls"),
    **dict.fromkeys(("fdtrc", "kolmogorov", "ndtr", "ndtri", "stdtr", "stdtrit"), ("special", "_ufuncs")),
}


def __getattr__(name: str) -> Any:
    """Return function ``name``; from the whole package if that is loaded already or lacks the single module."""
    if name not in HOMES:
        raise AttributeError(name)
    folder, module = HOMES[name]
    package = f"scipy.{folder}"
    if package not in sys.modules:
        sys.modules[package] = ModuleType(package)
        sys.modules[package].__path__ = [f"{scipy.__path__[0]}/{folder}"]
        try:
            return getattr(import_module(f"{package}.{module}"), name)
        except (ImportError, AttributeError):  # another version of scipy
            pass
        finally:
            del sys.modules[package]  # who needs the package loads it as ever
    return getattr(import_module(package), name)
