"""What pyproject.toml cannot say: a build notes its commit, so that ``loadlens --version`` can name it."""

import importlib.util
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

ROOT = Path(__file__).parent


class BuildWithCommit(build_py):
    """Write the commit that is checked out beside the modules; a build outside a checkout notes none."""

    def run(self) -> None:
        """Build the modules, then add the note."""
        super().run()
        described = importlib.util.spec_from_file_location("build", ROOT / "tui/cli/build.py")
        if self.editable_mode or described is None or described.loader is None:
            return
        try:
            module = importlib.util.module_from_spec(described)
            described.loader.exec_module(module)
            commit = module.checked_out(ROOT)
        except (OSError, ValueError):
            return
        if commit:
            target = Path(self.build_lib) / "tui/cli/commit.txt"
            target.write_text(commit + "\n", encoding="ascii")


setup(cmdclass={"build_py": BuildWithCommit})
