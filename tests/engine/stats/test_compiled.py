"""The compiled functions of scipy are the packages' own."""

from __future__ import annotations

import subprocess
import sys

CODE = """
import sys
from engine.stats import compiled
alone = {name: getattr(compiled, name) for name in compiled.HOMES}
assert "scipy.special" not in sys.modules and "scipy.optimize" not in sys.modules and "scipy._lib._array_api" not in sys.modules
import scipy.optimize, scipy.special
assert all(function is getattr(getattr(scipy, compiled.HOMES[name][0]), name) for name, function in alone.items())
"""


def test_the_functions_are_those_of_the_packages_which_can_still_be_loaded() -> None:
    subprocess.run([sys.executable, "-c", CODE], check=True)
