"""The query profile: parameters, compute, and what ``report``, ``check`` and the screen show of it."""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np
import polars as pl

from engine.inputs import Inputs
from engine.problems import Problem
from engine.query_profile import tables
from engine.query_profile.estimators.attribution import Attribution
from engine.query_profile.estimators.design import Recipe
from engine.query_profile.insight import prediction
from engine.query_profile.insight.fits import Fits
from engine.query_profile.insight.stale_fit import carry
from engine.query_profile.insight.trust import NO_TRUST, UNTESTED
from engine.query_profile.parameters import QueryProfileParameters
from engine.query_profile.reading.kinds import KINDS
from engine.query_profile.reading.wlr_csv import WlrCsv
from engine.query_profile.result import listing as listed
from engine.query_profile.result import messages, result_tables
from engine.query_profile.result.detail import Detail
from engine.query_profile.wlr import printout
from engine.query_profile.wlr.regression import BLOCK, Moments, Sums, quality
from engine.query_profile.workloads import profile, sources
from engine.query_profile.workloads.workload import Workload
from engine.result import Headline, Result
from engine.view import Context, NoInput


class QueryProfile:
    """The view."""

    name = "query-profile"
    title = "Query profile"
    kinds = KINDS
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
        return _Computation(inputs, parameters, context).result()

    def upstream(self, result: Result, parameters: QueryProfileParameters) -> str | None:
        """Upstream's tables, by upstream's rules whatever the parameters say."""
        detail = result.detail
        if detail is None and any(problem.kind == "missing-target" for problem in result.problems):
            # to upstream a table without its target is one of zeros, all of which it skips
            nothing = np.zeros(0)
            return printout.text([], Sums.zero(0).lines(), nothing, nothing, quality(nothing, nothing))
        if not isinstance(detail, Detail) or detail.exact is None:
            return None
        return printout.text([info.name for info in detail.work.classes], *detail.exact())


VIEW = QueryProfile()


class _Computation:
    """One compute, step by step."""

    def __init__(self, inputs: Inputs, parameters: QueryProfileParameters, context: Context) -> None:
        self.inputs = inputs
        self.parameters = parameters
        self.context = context
        self.problems: list[Problem] = []
        self.notes: list[str] = []
        self.fitted_rows: int | None = None  # of an earlier fit that stands for the one to be made

    def result(self) -> Result:
        """The whole."""
        given, context = self.parameters, self.context
        if not self.inputs.files:
            raise NoInput("no query tables, snapshots or logs")
        without = ("", 0)
        if given.predict is not None:
            without = (given.predict.name.rsplit("/", 1)[-1], len(given.predict.data))
        key = (self.inputs.version, given.target, without)
        kept = context.memo.get("gathered")
        if kept is None or kept[0] != key:
            context.progress(0.1, "joining snapshots")
            found = sources.gather(self.inputs, given.target, context, without)
            if not found.workloads and without[0]:
                found = sources.gather(self.inputs, given.target, context)
            kept = context.memo["gathered"] = (key, found)
        gathered: sources.Gathered = kept[1]
        if not gathered.workloads:
            if self.inputs.table("matrix").height or self.inputs.problems:
                return self._nothing(gathered)
            raise NoInput("resource series, but no query tables, snapshots or logs that go with them")
        work = self._choose(gathered)
        # problems of tables come with their path; those of other sources that are not shown do not matter here
        labels = {other.label for other in gathered.workloads if other is not work}
        self.problems += [p for p in gathered.problems if p.path not in labels]
        return self._profile(gathered, work)

    def _nothing(self, gathered: sources.Gathered) -> Result:
        problems = (*self.inputs.problems, *gathered.problems)
        empty: dict[str, pl.DataFrame] = {
            t.name: t.empty() for t in (tables.CLASSES, tables.PREDICTIONS, tables.INTERVALS)
        }
        reason = next((p.reason for p in gathered.problems if p.kind == "missing-target"), "nothing to profile")
        return Result(
            view=VIEW.name,
            summary={**dict.fromkeys(_SUMMARY), "rows_trained": 0, "rows_predicted": 0},
            tables=empty,
            headline=(Headline("CPU", "none", reason, "severe"),),
            findings=messages.unanswered(self.parameters.max_share, reason),
            notes=(reason,),
            problems=problems,
            newest_ms=self.inputs.newest_ms,
            at_ms=self.context.at_ms,
        )

    def _choose(self, gathered: sources.Gathered) -> Workload:
        wanted = self.parameters.source.lower()
        found = [w for w in gathered.workloads if wanted in w.label.lower()]
        found.sort(key=lambda w: w.label.lower() != wanted)  # the name itself before longer ones
        if not found:
            names = "; ".join(w.label for w in gathered.workloads[:6])
            raise NoInput(f"no source called {self.parameters.source!r}; there are: {names}")
        self.notes += found[0].notes
        if len(gathered.workloads) > 1:
            others = [w.label for w in gathered.workloads if w is not found[0]]
            self.notes.append(
                f"{found[0].label} is shown; {len(others)} other source{'s' if len(others) > 1 else ''} "
                f"({', '.join(others[:3])}{', …' if len(others) > 3 else ''}) "
                f"{'are' if len(others) > 1 else 'is'} not mixed in: one server at a time "
                "(choose with source=)"
            )
        return found[0]

    def _picked(self, work: Workload, window: str) -> np.ndarray | None:
        """Mask (T,) of the intervals in ``window``, up to the moment that is looked at; None if it cannot be read."""
        try:
            pick = profile.window(work, window)
        except profile.BadWindow as error:
            self.problems.append(Problem.at(work.label, "bad-window", str(error)))
            return None
        if self.context.at_ms is not None and (work.end_ms >= 0).any():
            pick &= work.end_ms <= self.context.at_ms
        return pick

    def _fits(self, work: Workload, used: np.ndarray) -> Fits:
        given = self.parameters
        rules = given.rules
        choices = (
            given.target, work.label, given.window, self.context.at_ms, rules, given.draws, given.seed, given.level,
            given.predict.name if given.predict is not None else "",
        )  # fmt: skip
        key = (choices, self.inputs.version, len(work.y))
        kept: dict[Any, Fits] = self.context.memo.setdefault("fits", {})
        if key in kept:
            kept[key].context = self.context
            return kept[key]
        fits = Fits(work, used, rules, Recipe(draws=given.draws, seed=given.seed), given.level, self.context)
        whole = not given.window and self.context.at_ms is None
        if whole and work.plain:
            classes = work.x.shape[1]
            if rules == "upstream" or not fits.large:
                fits.sums = self._carried(work, Sums.zero(classes))
            if rules == "safe" or not fits.large:
                fits.moments = self._carried(work, Moments.zero(classes))
        last = next((old for (chosen, *_), old in reversed(kept.items()) if chosen == choices), None)
        if self.context.quick and last is not None:
            self.fitted_rows = carry(last, fits)
            if self.fitted_rows is not None:
                return fits
        while len(kept) >= 4:
            kept.pop(next(iter(kept)))
        kept[key] = fits
        return fits

    def _carried(self, work: Workload, start: Sums | Moments) -> Any:
        """Sums or moments of all rows, carried on from the last time where rows were only added behind."""
        kinds = [info for info in self.inputs.files.values() if info.kind == WlrCsv.id]
        if len(kinds) != 1:
            return None
        name = type(start).__name__
        identity = (kinds[0].id, self.parameters.target, work.x.shape[1])
        kept = self.context.memo.get(name)
        done, sums = 0, start
        if kept is not None and kept[0] == identity and kept[1] <= len(work.y):
            done, sums = kept[1], kept[2]
        # whole blocks are kept, so that rounding is the same whether rows came at once or one by one
        whole = len(work.y) // BLOCK * BLOCK
        if done < whole:
            sums = sums.add(work.x[done:whole], work.y[done:whole])
            self.context.memo[name] = (identity, whole, sums)
        return sums.add(work.x[whole:], work.y[whole:])

    def _profile(self, gathered: sources.Gathered, whole: Workload) -> Result:
        given = self.parameters
        pick = self._picked(whole, given.window)
        if pick is None:
            pick = self._picked(whole, "")
        assert pick is not None
        work = whole if pick.all() else whole.rows(pick)
        used = work.used
        method = given.method
        y_known = bool(used.any())
        fits = self._fits(work, used)
        # without a resource the window is everything that is not doubtful, or simply everything
        shown = used if y_known else np.array([not r for r in work.reasons], bool)
        if not shown.any():
            shown = np.ones(len(work.y), bool)
        x_total = np.maximum(np.nan_to_num(work.x[shown]), 0).sum(axis=0) if not shown.all() else _sum(work.x)
        y = np.where(np.isfinite(work.y), work.y, 0.0)[shown]
        measured = float(y.sum()) if y_known else math.nan
        classes = len(work.classes)
        nothing = np.full(classes, np.nan)
        total = low = high = nothing
        by_class = np.zeros(work.x.shape)
        fitted = np.full(len(work.y), np.nan)
        attribution: Attribution | None = None
        methods = [method] if fits.large else list(tables.METHODS)
        totals: dict[str, np.ndarray] = {}
        background = math.nan
        if y_known:
            self.context.progress(0.3, "attributing")
            totals = {name: fits.total(name) for name in methods}
            total = totals[method]
            background = fits.background(method)
            if "default" in totals:
                attribution = fits.attribution()
            if method == "default" and attribution is not None:
                low, high = attribution.low, attribution.high
            fitted[used] = fits.fitted(method)
            if not fits.large:
                by_class = fits.by_class(method)
        # Upstream predicts zeros and scores them even where it had nothing to learn from.
        exactly = method == "wlr" and given.rules == "upstream" and work.plain
        lines, trained = fits.lines(given.rules) if y_known or exactly else (None, 0)
        summary, predictions, exact = prediction.NONE, tables.PREDICTIONS.empty(), None
        if y_known or exactly:
            rows = self._to_predict(work)
            summary, predictions = prediction.predicted(fits, rows, method, given.rules)
            exact = prediction.exactly(fits, rows)
        gauge = UNTESTED if y_known else NO_TRUST
        if y_known and not fits.large:
            self.context.progress(0.8, "testing the fit")
            gauge = fits.trust()
        if self.fitted_rows is not None:
            self.notes.insert(0, messages.note_on_earlier_fit(self.fitted_rows, len(fits.y)))
        self.notes += messages.notes_on(fits, work, method, gauge, attribution, measured, lines)

        frame = result_tables.classes(
            given, work, shown, x_total, total, low, high, totals, lines, fits, measured, attribution, y_known
        )
        seconds = work.seconds[shown]
        length = float(seconds.sum()) if len(seconds) and np.isfinite(seconds).all() else math.nan
        attributed = float(np.nansum(total)) if y_known else math.nan
        summary = summary | {
            "rows_trained": int(trained if method == "wlr" else used.sum()),
            "background": background,
            "unattributed": result_tables.rest(measured, attributed, background) if y_known else math.nan,
            "y_measured": measured,
            "attributed": attributed,
            "unattributed_share": (measured - attributed) / measured if y_known and measured > 0 else math.nan,
            "method": method,
            "rules": given.rules,
            "target": work.y_name,
            "source": work.label,
            "y_source": work.y_source,
            "classes": classes,
            "intervals": len(work.y),
            "intervals_used": int(used.sum()),
            "seconds": length,
            "cores": work.cores,
            "utilisation": measured / (work.cores * length * 1e6) if y_known else math.nan,
            "trust": gauge.score if y_known and gauge is not UNTESTED else math.nan,
            "trust_grade": gauge.grade,
            "blocked_mape": gauge.blocked_mape,
            "correlation": gauge.correlation,
            "disagreement": gauge.disagreement,
            "elbow": bool(attribution and attribution.elbow and attribution.elbow.found),
            "break_row": attribution.broken.row + 1
            if attribution and attribution.broken and attribution.broken.row > 0
            else None,
        }
        ordered = {name: summary.get(name) for name in (*_SUMMARY, *(k for k in summary if k not in _SUMMARY))}
        finished_tables = {
            "classes": frame,
            "predictions": predictions,
            "intervals": result_tables.intervals(work, used),
            "sources": result_tables.sources_found(gathered, whole),
        }
        if y_known:
            finished_tables["methods"] = result_tables.methods_side_by_side(fits, work, methods, totals, measured)
        if given.compare:
            comparison = self._comparison(whole, pick, method)
            if comparison is not None:
                finished_tables["comparison"] = comparison
        if given.what_if:
            saved = result_tables.what_if(frame, given, measured, length, work.cores)
            if not saved.height:
                reason = "what-if: there is no such class, or nothing is attributed to it"
                self.problems.append(Problem.at(given.what_if, "no-class", reason))
            finished_tables["what_if"] = saved
        names = listed.labels(work.classes)
        detail = Detail(
            work=work,
            used=used,
            by_class=by_class,
            fitted=fitted,
            exact=exact,
            measured=measured,
            seconds=length,
            listing=listed.rows(
                frame,
                {} if fits.large else self._trends(work, by_class, frame["class"].to_list()),
                names,
            ),
            names=names,
            token=(self.inputs.version, given, self.context.at_ms, self.fitted_rows),
        )
        return Result(
            view=VIEW.name,
            summary={name: _plain(value) for name, value in ordered.items()},
            tables=finished_tables,
            headline=messages.headline(work, used, measured, attributed, gauge, length, method, self.fitted_rows),
            findings=messages.findings(given.max_share, work, total, low, measured, y_known, method, high),
            notes=tuple(self.notes),
            problems=(*self.inputs.problems, *self.problems),
            newest_ms=self.inputs.newest_ms,
            at_ms=self.context.at_ms,
            detail=detail,
            provisional=self.fitted_rows is not None,
        )

    def _trends(self, work: Workload, by_class: np.ndarray, shown: list[str]) -> dict[str, list[float]]:
        """Sparklines of the rows shown: classes, groups of them, and what is joined into Others."""
        place, names = profile.group(work, self.parameters.group)
        wanted = self.parameters.filter
        keep = np.array([not wanted or profile.matches(info, wanted) for info in work.classes], bool)
        known = set(shown)
        others = next((name for name in shown if name.startswith(profile.OTHERS) and name not in names), "")
        row = {name: i for i, name in enumerate([*names, others])}
        to = np.array([row[names[p]] if names[p] in known or not others else len(names) for p in place], np.int64)
        used = by_class if by_class.any() else np.maximum(np.nan_to_num(work.x), 0)
        return listed.trends(used, to, keep, [*names, others])

    # --- pieces ------------------------------------------------------------------------------------------------------

    def _to_predict(self, work: Workload) -> prediction.Rows:
        """The rows of the attached table, or those that are trained on."""
        attachment = self.parameters.predict
        if attachment is None:
            return prediction.trained_on(work)
        kept = self.context.memo.get("attached")
        if kept is None or kept[0] is not attachment:
            kept = self.context.memo["attached"] = (attachment, prediction.read(attachment))
        rows, problems = prediction.attached(work, attachment.name, kept[1], self.parameters)
        self.problems += problems
        return rows

    def _comparison(self, whole: Workload, now_in: np.ndarray, method: str) -> pl.DataFrame | None:
        """The window (the intervals ``now_in``) beside the one that it is compared with. Both are attributed by one fit of
        both: two fits would differ also where nothing did."""
        before_in = self._picked(whole, self.parameters.compare)
        if before_in is None:
            return None
        either = before_in | now_in
        work = whole.rows(either)
        used, clear = work.used, np.array([not r for r in work.reasons], bool)
        by_class = None
        if used.any():
            recipe = Recipe(draws=0)
            by_class = Fits(work, used, self.parameters.rules, recipe, self.parameters.level, self.context).by_class(
                method
            )

        def side(inside: np.ndarray) -> profile.Side:
            part = inside[either]
            best = next((part & good for good in (used, clear) if (part & good).any()), part)
            return profile.side(work, best, by_class if (part & used).any() else None)

        now, before = side(now_in), side(before_in)
        return result_tables.comparison(work, now, before)


_SUMMARY = (
    "rows_trained", "rows_predicted", "slope", "intercept", "r2", "mape", "background", "unattributed",
)  # fmt: skip


def _sum(values: np.ndarray) -> np.ndarray:
    with np.errstate(invalid="ignore"):
        total = values.sum(axis=0)
    return np.asarray(total if np.isfinite(total).all() else np.nan_to_num(values).sum(axis=0))


def _plain(value: Any) -> Any:
    """Numbers as JSON knows them: not finite becomes None."""
    if isinstance(value, float | np.floating):
        return float(value) if math.isfinite(value) else None
    return value
