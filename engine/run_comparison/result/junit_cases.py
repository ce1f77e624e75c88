"""Turn a comparison into JUnit test cases, so that CI can show and gate on it."""

from __future__ import annotations

from engine.junit import Case, Outcome, Suite
from engine.result import Result


def junit_suite(result: Result) -> Suite:
    """Return one case for the comparison and one per metric.

    A different metric is a failure; a missing one and one with not enough data are skipped.
    """
    summary = result.summary
    overall = next((finding for finding in result.findings if finding.subject == "comparison"), None)
    sentence = overall.text if overall is not None else str(summary.get("verdict"))
    outcome: Outcome = {True: "passed", False: "failure"}.get(summary.get("pass"), "skipped")  # type: ignore[arg-type, assignment]
    cases = [Case("run-comparison", "whole comparison", outcome, sentence)]
    texts = {finding.subject: finding.text for finding in result.findings}
    names = ("test", "verb", "resource", "subresource", "scope", "bucket", "verdict", "pooled", "metric")
    for *key, verdict, pooled, metric in result.tables["metrics"].select(*names).iter_rows():
        if pooled:
            continue
        name = " ".join(part for part in key[1:] if part) or "value"
        if metric and metric not in name:
            name += f" ({metric})"
        group = f"run-comparison.{key[0] or 'metrics'}"
        if verdict == "different":
            subject = " ".join(part for part in key if part)
            cases.append(Case(group, name, "failure", texts.get(subject, "different")))
        elif verdict in ("missing", "not enough data"):
            cases.append(Case(group, name, "skipped", verdict))
        else:
            cases.append(Case(group, name))
    properties = {key: str(value) for key, value in summary.items() if value is not None}
    return Suite("run-comparison", tuple(cases), properties, " ".join(result.notes))
