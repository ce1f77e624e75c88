"""The compiled functions of scipy.special are the package's own."""

from __future__ import annotations

import subprocess
import sys

CODE = """
import sys
from engine.stats import special
assert "scipy.special" not in sys.modules and "scipy._lib._array_api" not in sys.modules
import scipy.special
assert all(getattr(special, name) is getattr(scipy.special, name) for name in special.__all__)
"""


def test_the_functions_are_those_of_the_package_which_can_still_be_loaded() -> None:
    subprocess.run([sys.executable, "-c", CODE], check=True)
