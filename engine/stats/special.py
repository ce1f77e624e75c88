"""The functions of scipy.special that tests of samples need, loaded without the rest of the package.

Its ``__init__`` reads the documentation of a hundred functions and asks for all of NumPy's modules, which takes a tenth of a
second; the compiled functions alone take a tenth of that.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import scipy


def _compiled() -> Any:
    """Return the module of the compiled functions; the whole package where it is loaded already, or not as known here."""
    if "scipy.special" not in sys.modules:
        package = ModuleType("scipy.special")
        package.__path__ = [f"{scipy.__path__[0]}/special"]
        sys.modules["scipy.special"] = package
        try:
            from scipy.special import _ufuncs

            if all(hasattr(_ufuncs, name) for name in __all__):
                return _ufuncs
        except ImportError:
            pass
        finally:
            del sys.modules["scipy.special"]  # who needs the package loads it as ever
    from scipy import special

    return special


__all__ = ["fdtrc", "kolmogorov", "ndtr", "ndtri", "stdtr", "stdtrit"]
_functions = _compiled()
fdtrc, kolmogorov, ndtr, ndtri, stdtr, stdtrit = (getattr(_functions, name) for name in __all__)
