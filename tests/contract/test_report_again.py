"""A report asked for again prints the same bytes, whether its files were read or came from the cache."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path
from typing import Any

import pytest

from engine.live.cache.cache_session import CacheSession
from tui.__main__ import main

FILES = Path(__file__).parents[2] / "sample_data" / "job_heuristics" / "files"


@pytest.mark.parametrize(
    "words",
    [
        ["report", "job-heuristics", "--format", "json"],
        ["report", "job-heuristics", "--format", "text", "-o", "mode=published"],
        ["check", "job-heuristics", "--fail-on", "low"],
    ],
)
def test_again(
    words: list[str], tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(variable, str(tmp_path / variable))
    data = tmp_path / "data"
    shutil.copytree(FILES, data)
    old = time.time() - 60
    for path in data.rglob("*"):
        os.utime(path, (old, old))
    config = tmp_path / "config.toml"
    config.write_text("[live]\ncache-min-mb = 0.0\nworkers = 1\n")
    restored: list[int] = []
    real = CacheSession.restore

    def restore(self: CacheSession, *arguments: Any) -> Any:
        files = real(self, *arguments)
        restored.append(len(files))
        return files

    monkeypatch.setattr(CacheSession, "restore", restore)
    command, view, *options = words
    paths = [str(data), "--config", str(config), "--at", "2030-01-01T00:00:00Z"]
    seen = []
    for more in (["--no-cache"], [], []):
        code = main([command, view, *paths, *options, *more])
        seen.append((code, *capfdbinary.readouterr()))
    assert len(restored) == 2 and restored[0] == 0 < restored[1]
    assert seen[0][1]
    assert all(once == seen[0] for once in seen)
