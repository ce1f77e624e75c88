"""A sixth view, small and complete: it sums numbers by name from ``.num`` files. The contract tests drive it."""

from __future__ import annotations

from typing import Annotated, Any

import polars as pl

from engine.core.parameters import Attachment, Parameters, option
from engine.core.reading import Problem, Reading, Source, clean, decode, fold
from engine.core.tables import Column, Table
from engine.core.view import Context, Finding, Headline, Inputs, Level, NoInput, Result, UnknownName

NUMBERS = Table(
    "numbers",
    "Numbers as read.",
    (Column("name", pl.String, "Whose number."), Column("value", pl.Float64, "The number.", kind="number")),
)
SUMS = Table(
    "sums",
    "The sum of the numbers of each name.",
    (
        Column("name", pl.String, "Whose numbers.", priority=0),
        Column("total", pl.Float64, "Their sum.", unit="kg", kind="number", priority=0),
        Column("share", pl.Float64, "Share of all.", kind="ratio"),
        Column("parts", pl.String, "The numbers.", kind="json", hidden=True),
    ),
    key=("name",),
    order=("-total", "name"),
)


class FakeParameters(Parameters, frozen=True, kw_only=True):
    """Choices of the fake view."""

    scale: Annotated[float, option("Multiplies every number", unit="1", low=0)] = 1.0
    mode: Annotated[str, option("How to sum", choices=("plain", "absolute"))] = "plain"
    limit: Annotated[float | None, option("A total above it is a finding", unit="kg")] = None
    only: Annotated[tuple[str, ...], option("Only these names")] = ()
    note: Annotated[Attachment | None, option("A file whose text becomes a note")] = None


class NumberLines:
    """Lines of ``name value``."""

    id = "number-lines"
    title = "Number lines (.num)"
    append = True
    version = 1
    tables = (NUMBERS,)

    def recognise(self, name: str, head: bytes) -> bool:
        return name.endswith(".num")

    def read(self, source: Source, data: bytes, state: Any, final: bool) -> Reading:
        end = len(data) if final else data.rfind(b"\n") + 1
        line = (state or {"line": 0})["line"]
        names: list[str] = []
        values: list[float] = []
        problems: list[Problem] = []
        for text in data[:end].splitlines():
            line += 1
            try:
                name, value = decode(text).rsplit(" ", 1)
                values.append(float(value))
                names.append(clean(name))
            except ValueError as error:
                problems.append(Problem.at(source.path, "bad-line", str(error), line=line))
        return Reading({"numbers": {"name": names, "value": values}}, problems, end, {"line": line})


class FakeView:
    """The view itself."""

    name = "fake-view"
    title = "Fake view"
    kinds = (NumberLines(),)
    parameters = FakeParameters
    tables = (SUMS,)
    fail_on: Level = "severe"

    def compute(self, inputs: Inputs, parameters: FakeParameters, context: Context) -> Result:
        numbers = inputs.table("numbers")
        if parameters.only:
            numbers = numbers.filter(pl.col("name").is_in(list(parameters.only)))
        if numbers.is_empty():
            raise (
                UnknownName(f"nothing is called {', '.join(parameters.only)}")
                if parameters.only
                else NoInput("no numbers")
            )
        value = pl.col("value").abs() if parameters.mode == "absolute" else pl.col("value")
        sums = (
            numbers.with_columns(value=value * parameters.scale)
            .group_by("name", maintain_order=True)
            .agg(total=pl.col("value").sum(), parts=pl.format("[{}]", pl.col("value").cast(pl.String).str.join(",")))
            .with_columns(share=pl.col("total") / pl.col("total").sum())
        )
        sums = SUMS.sorted(SUMS.frame(sums))
        total = float(numbers.get_column("value").sum()) * parameters.scale
        limit = parameters.limit
        findings = tuple(
            Finding("severe", name, f"total {value:g} kg is above {limit:g} kg")
            for name, value in sums.select("name", "total").iter_rows()
            if limit is not None and value > limit
        )
        return Result(
            self.name,
            {"total": total, "infinite": float("inf")},
            {"sums": sums},
            (Headline("total", f"{total:g} kg", f"{numbers.height} numbers"),),
            findings,
            notes=() if parameters.note is None else (clean(decode(parameters.note.data)),),
            problems=fold(inputs.problems),
            newest_ms=inputs.newest_ms,
            at_ms=context.at_ms,
        )

    def upstream(self, result: Result, parameters: FakeParameters) -> str | None:
        return "TOTAL\n" if parameters.mode == "plain" else None


VIEW = FakeView()
