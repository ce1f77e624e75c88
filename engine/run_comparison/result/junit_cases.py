"""Turn a comparison into JUnit test cases, so that CI can show and gate on it."""

from __future__ import annotations

from engine.core.result import Level, Result
from engine.output.export import at_least
from engine.output.junit import Case, Suite
from engine.run_comparison.insight.regressions import level_of
from engine.run_comparison.parameters import ComparisonParameters
from engine.run_comparison.result.findings import subject_of


def junit_suite(result: Result, parameters: ComparisonParameters, failing: Level) -> Suite:
    """Return one case for the comparison and one per metric.

    What fails is what makes ``check`` fail from level ``failing`` on: the verdict on the whole, and regressions. A missing
    metric and one that is undecided are skipped; a metric that became better passes.
    """
    summary = result.summary
    gates = {finding.subject: finding for finding in reversed(at_least(result.findings, failing))}
    overall = next(finding for finding in result.findings if finding.subject == "comparison")
    group, name = "run-comparison", "whole comparison"
    if gates.get("comparison") is overall:
        cases = [Case(group, name, "failure", overall.text, overall.level)]
    else:
        cases = [Case(group, name, "passed" if summary["pass"] is not None else "skipped", overall.text)]
    level = level_of(summary, parameters)
    worse_fails = bool(at_least((overall.__class__(level, "", ""),), failing))
    names = (
        "test",
        "verb",
        "resource",
        "subresource",
        "scope",
        "bucket",
        "verdict",
        "pooled",
        "metric",
        "regression",
        "muted",
    )
    for row in result.tables["metrics"].select(names).iter_rows(named=True):
        if row["pooled"]:
            continue
        words = [row[part] for part in names[1:6] if row[part]]
        name = " ".join(words) or "value"
        if row["metric"] and row["metric"] not in name:
            name += f" ({row['metric']})"
        group = f"run-comparison.{row['test'] or 'metrics'}"
        if row["regression"] and worse_fails:
            finding = gates.get(subject_of(row))
            cases.append(Case(group, name, "failure", finding.text if finding else "worse", level))
        elif row["muted"] or row["verdict"] in ("missing", "undecided"):
            cases.append(Case(group, name, "skipped", "muted" if row["muted"] else row["verdict"]))
        else:
            cases.append(Case(group, name))
    properties = {key: str(value) for key, value in summary.items() if value is not None}
    return Suite("run-comparison", tuple(cases), properties, " ".join(result.notes))
