"""The query profile: from inputs to workloads, to the fits of one of them, to a result.

The rules and formulas stand in docs/models/query-profile.md.
"""

from __future__ import annotations

from typing import Literal

import msgspec
import numpy as np
import polars as pl

from engine.core.reading import Problem
from engine.core.view import Context, Headline, Inputs, NoInput, Result, Trend
from engine.query_profile import tables
from engine.query_profile.estimators.design import FitOptions
from engine.query_profile.insight import prediction
from engine.query_profile.insight.all_methods import Fits
from engine.query_profile.insight.prediction import NO_PREDICTIONS, Predictions
from engine.query_profile.insight.profile import Profile, build_profile, compare, methods_side_by_side
from engine.query_profile.parameters import QueryProfileParameters
from engine.query_profile.reading.kinds import KINDS
from engine.query_profile.reading.wlr_csv import DEFAULT_TARGET
from engine.query_profile.result import detail, messages, result_tables
from engine.query_profile.result.detail import Detail
from engine.query_profile.result.messages import FIRST, GAUGES, scores, summary
from engine.query_profile.wlr import regression
from engine.query_profile.wlr.regression import Sums
from engine.query_profile.workloads import workload
from engine.query_profile.workloads.sources import Sources, find_sources
from engine.query_profile.workloads.workload import Workload, named, names_of

FITS_KEPT = 4  # number of workloads and parameters whose fits stay in memory, so that switching back is immediate


class QueryProfile:
    """The view."""

    name = "query-profile"
    title = "Query profile"
    kinds = KINDS
    gauges = GAUGES
    parameters = QueryProfileParameters
    tables = (
        tables.CLASSES,
        tables.PREDICTIONS,
        tables.INTERVALS,
        tables.METHODS_SIDE_BY_SIDE,
        tables.COMPARISON,
        tables.WHAT_IF,
        tables.SOURCES,
    )
    fail_on: Literal["severe"] = "severe"

    def compute(self, inputs: Inputs, parameters: QueryProfileParameters, context: Context) -> Result:
        """See ``View.compute``."""
        if not inputs.files:
            raise NoInput("no query tables, snapshots or logs")
        sources = _sources(inputs, parameters, context)
        if not sources.workloads:
            if inputs.table("matrix").height or inputs.problems:
                return _empty_result(inputs, parameters, context, sources)
            raise NoInput(
                "query classes with calls, but without times (*_seconds_total, total_exec_time, SUM_TIMER_WAIT)"
                if inputs.table("snapshots").height
                else "resource series, but no query tables, snapshots or logs that go with them"
            )
        return _Computation(inputs, parameters, context, sources).result()

    def upstream(self, result: Result, parameters: QueryProfileParameters) -> str | None:
        """Return what VividCortex' program prints, by its own rules whatever the parameters say."""
        detail = result.detail
        if detail is None and any(problem.kind == "missing-target" for problem in result.problems):
            learned = prediction.nothing_learned(parameters.predict, parameters.target or DEFAULT_TARGET)
            actual, predicted = (learned.frame[name].to_numpy() for name in ("actual", "predicted"))
            return regression.text([], Sums.zero(0).lines(), actual, predicted, learned.quality)
        return (
            regression.text([info.name for info in detail.profile.work.classes], *detail.exact())
            if isinstance(detail, Detail)
            else None
        )


VIEW = QueryProfile()


def _sources(inputs: Inputs, parameters: QueryProfileParameters, context: Context) -> Sources:
    """Find the workloads in the files. The attached table is used for training only if there is no other input; a table without
    the target column counts as input."""
    attachment, target, most = parameters.predict, parameters.target, parameters.max_intervals
    without = ("", 0) if attachment is None else (attachment.name.rsplit("/", 1)[-1], len(attachment.data))

    def find() -> Sources:
        context.progress(0.1, "joining snapshots")
        sources = find_sources(inputs, target, context, without, most)
        untaught = any(problem.kind == "missing-target" for problem in sources.problems)
        told = sources.workloads or untaught or not without[0]
        return sources if told else find_sources(inputs, target, context, most=most)

    return context.memo.value("sources", (inputs.version, target, without, most), find)


def _empty_result(inputs: Inputs, parameters: QueryProfileParameters, context: Context, sources: Sources) -> Result:
    """Return a result that explains why there is nothing to profile."""
    missing = next((p.reason for p in sources.problems if p.kind == "missing-target"), "")
    told = (p.reason for p in inputs.problems if p.kind in ("other-language", "no-durations"))
    reason = missing or next(told, "nothing to profile")
    predictions = (
        prediction.nothing_learned(parameters.predict, parameters.target or DEFAULT_TARGET)
        if missing and parameters.method == "wlr" and parameters.rules == "upstream"
        else NO_PREDICTIONS
    )
    return Result(
        view=VIEW.name,
        summary={**dict.fromkeys(FIRST), "rows_trained": 0, **scores(predictions)},
        tables={
            "classes": tables.CLASSES.empty(),
            "predictions": predictions.frame,
            "intervals": tables.INTERVALS.empty(),
        },
        headline=(Headline("CPU", "none", reason, "severe"),),
        findings=messages.unanswered(parameters.max_share, reason),
        notes=(reason,),
        problems=(*inputs.problems, *sources.problems),
        newest_ms=inputs.newest_ms,
        at_ms=context.at_ms,
    )


class _Computation(msgspec.Struct):
    """One computation over the files' workloads, step by step; steps add to ``problems``."""

    inputs: Inputs
    parameters: QueryProfileParameters
    context: Context
    sources: Sources
    problems: list[Problem] = msgspec.field(default_factory=list)
    compared: tuple[str, str] | None = None

    def result(self) -> Result:
        """Choose workload and window, fit, predict, and build the result."""
        whole, notes = self.sources.choose(self.parameters.source)
        whole = named(whole, names_of(self.inputs, whole.kind))
        # drop problems of sources that are not shown; problems of tables have paths of their own
        others = {other.label for other in self.sources.workloads if other is not whole}
        self.problems += [p for p in self.sources.problems if p.path not in others]
        window = self._window(whole, self.parameters.window)
        if window is None:
            window = self._window(whole, "")
        assert window is not None
        work = whole if window.all() else whole.rows(window)
        profile = build_profile(self._fits(work), self.parameters.method, self.context)
        rows = self._to_predict(work)
        predictions = (
            prediction.predict(profile.fits, rows, profile.method) if profile.lines is not None else NO_PREDICTIONS
        )
        finished = self._tables(profile, predictions, whole, window)
        names = detail.labels(work.classes)
        classes = finished["classes"]
        sparks = detail.trends(profile, self.parameters, classes["class"].to_list())
        compared = () if self.compared is None else (f"{self.compared[0]} against {self.compared[1]}",)
        return Result(
            view=VIEW.name,
            summary=summary(profile, predictions, self.compared),
            tables=finished,
            headline=messages.headline(profile),
            findings=messages.findings(self.parameters.max_share, profile),
            notes=(*compared, *notes, *messages.notes(profile)),
            problems=(*self.inputs.problems, *self.problems),
            newest_ms=self.inputs.newest_ms,
            at_ms=self.context.at_ms,
            detail=Detail(
                profile=profile,
                exact=lambda: prediction.exactly(profile.fits, rows),
                listing=detail.rows(classes, sparks, names),
                names=names,
                token=(self.inputs.version, self.parameters, self.context.at_ms),
            ),
            answer=messages.answer(profile, classes, names),
            trend=Trend.of(messages.NAMES.get(profile.work.y_name, profile.work.y_name), finished["intervals"]["y"]),
        )

    def _window(self, work: Workload, text: str) -> np.ndarray | None:
        """Return the mask (T,) of the window, up to the chosen moment; None if ``text`` is no window."""
        try:
            mask = workload.window(work, text)
        except workload.BadWindow as error:
            self.problems.append(Problem.at(work.label, "bad-window", str(error)))
            return None
        if self.context.at_ms is not None and (work.end_ms >= 0).any():
            mask &= work.end_ms <= self.context.at_ms
        return mask

    def _fits(self, work: Workload) -> Fits:
        """Return the fits of the workload in its window, cached if nothing changed."""
        chosen = self.parameters
        options = FitOptions(draws=chosen.draws, seed=chosen.seed)
        key = (
            self.inputs.version, chosen.target, chosen.max_intervals, work.label, chosen.window, self.context.at_ms,
            chosen.rules, options, chosen.level, chosen.predict,
        )  # fmt: skip
        fits = self.context.memo.value(
            "fits", key, lambda: Fits(work, work.used, chosen.rules, options, chosen.level, self.context), FITS_KEPT
        )
        fits.context = self.context
        return fits

    def _to_predict(self, work: Workload) -> prediction.Rows:
        """Return the rows of the attached table, or the training rows."""
        attachment = self.parameters.predict
        if attachment is None:
            return prediction.Rows(work.x, work.calls, work.y, work.seconds, own=True)
        reading = self.context.memo.value("attached", attachment, lambda: prediction.read(attachment))
        rows, problems = prediction.attached(work, attachment.name, reading, self.parameters)
        self.problems += problems
        return rows

    def _tables(
        self, profile: Profile, predictions: Predictions, whole: Workload, window: np.ndarray
    ) -> dict[str, pl.DataFrame]:
        before = self._window(whole, self.parameters.compare) if self.parameters.compare else None
        finished = {
            "classes": result_tables.classes(self.parameters, profile),
            "predictions": predictions.frame,
            "intervals": result_tables.intervals(whole, window, before, profile.used),
            "sources": result_tables.sources(self.sources, whole),
        }
        if profile.attributable:
            finished["methods"] = methods_side_by_side(profile)
        if before is not None:
            finished["comparison"] = self._comparison(whole, window, before, profile.fits)
            self.compared = (workload.in_words(whole, window), workload.in_words(whole, before))
        if self.parameters.what_if:
            finished["what_if"] = result_tables.what_if(finished["classes"], self.parameters, profile)
            if not finished["what_if"].height:
                reason = f"there is no class {self.parameters.what_if!r}, or nothing is attributed to it"
                self.problems.append(Problem.at("-o what-if", "bad-option", reason))
        return finished

    def _comparison(self, whole: Workload, window: np.ndarray, before: np.ndarray, fits: Fits) -> pl.DataFrame:
        chosen = self.parameters
        key = (
            self.inputs.version, chosen.target, chosen.max_intervals, whole.label, window.tobytes(), before.tobytes(),
            chosen.method, chosen.rules, chosen.draws, chosen.seed, chosen.level,
        )  # fmt: skip
        return self.context.memo.value(
            "comparison", key, lambda: compare(whole, window, before, fits, chosen, self.context)
        )
