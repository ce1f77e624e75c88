"""Make JUnit test cases of a result."""

from __future__ import annotations

from engine.core.view import Level, Result
from engine.output.export import at_least
from engine.output.junit import Case, Suite
from engine.run_comparison.insight.statistical import level_of
from engine.run_comparison.parameters import ComparisonParameters
from engine.run_comparison.tables import METRICS
from engine.run_comparison.words import title_of


def junit_suite(result: Result, parameters: ComparisonParameters, failing: Level) -> Suite:
    """Return one case for the comparison and one per metric.

    The overall verdict and regressions fail exactly if they make ``check`` fail at level ``failing``. Missing and undecided
    metrics are skipped; improvements pass.
    """
    summary = result.summary
    failed = at_least(result.findings, failing)
    gates = {finding.row[1]: finding for finding in failed if finding.row is not None}
    overall = next(finding for finding in result.findings if finding.subject == "comparison")
    group, name = "run-comparison", "whole comparison"
    if overall in failed:
        cases = [Case(group, name, "failure", overall.text, overall.level)]
    else:
        cases = [Case(group, name, "passed" if summary["pass"] is not None else "skipped", overall.text)]
    level = level_of(summary, parameters)
    worse_fails = bool(at_least((overall.__class__(level, "", ""),), failing))
    for row in (
        result.tables["metrics"].select(*METRICS.key, "verdict", "pooled", "regression", "muted").iter_rows(named=True)
    ):
        if row["pooled"]:
            continue
        group, finding = (
            f"run-comparison.{row['test'] or 'metrics'}",
            gates.get(tuple(row[name] for name in METRICS.key)),
        )
        name = title_of(row)
        if finding is not None or (row["regression"] and worse_fails):
            cases.append(
                Case(group, name, "failure", finding.text if finding else "worse", finding.level if finding else level)
            )
        elif row["muted"] or row["verdict"] in ("missing", "undecided"):
            cases.append(Case(group, name, "skipped", "muted" if row["muted"] else row["verdict"]))
        else:
            cases.append(Case(group, name))
    properties = {key: str(value) for key, value in summary.items() if value is not None}
    return Suite("run-comparison", tuple(cases), properties, " ".join(result.notes))
