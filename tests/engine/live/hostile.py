"""A view whose readers do what their files say: loop, allocate, crash. Worker processes can import it."""

from __future__ import annotations

import ctypes
import os
import re
import time
from collections.abc import Callable
from typing import Any

import polars as pl

from engine.core.reading import Reading, Source
from engine.live.pool import tasks
from tests.engine.live.fake import Choices, Doc, Log

tasks.CPU_S = 0.9  # in whatever process reads with these


def loop() -> None:
    while True:
        pass


def loop_in_c() -> None:
    re.match(r"(a|aa)+$", "a" * 80 + "b")  # exponential, and the interpreter's lock is never released


def allocate() -> None:
    held = []
    while True:
        held.append(bytearray(64 << 20))  # few calls: the bound on memory is met before that on time


def allocate_in_polars() -> None:
    frame = pl.DataFrame({"a": range(1 << 20)})
    while True:
        frame = pl.concat([frame, frame], rechunk=True)


def crash() -> None:
    ctypes.string_at(0)


def leave() -> None:
    os._exit(0)


def hang() -> None:
    time.sleep(1e6)


DEEDS: dict[bytes, Callable[[], None]] = {
    deed.__name__.encode(): deed for deed in (loop, loop_in_c, allocate, allocate_in_polars, crash, leave, hang)
}


def obey(data: bytes) -> None:
    for word in re.findall(rb"!(\w+)!", data):
        DEEDS[word]()


class HostileLog(Log):
    """Lines as of the log; one with the name of a deed does it."""

    def read(self, source: Source, data: bytes, state: Any, final: bool) -> Reading:
        obey(data)
        return super().read(source, data, state, final)


class HostileDoc(Doc):
    """Documents likewise."""

    def read(self, source: Source, data: bytes, state: Any, final: bool) -> Reading:
        obey(data)
        return super().read(source, data, state, final)


class HostileView:
    """A view of these readers."""

    name, title, parameters, tables, fail_on = "fake", "Hostile", Choices, (), "severe"

    def __init__(self) -> None:
        self.kinds = (HostileLog(), HostileDoc())

    def compute(self, inputs: Any, parameters: Any, context: Any) -> Any:
        raise NotImplementedError

    def upstream(self, result: Any, parameters: Any) -> str | None:
        return None


VIEW = HostileView()
