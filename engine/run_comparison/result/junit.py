"""A comparison as JUnit XML, so that CI can show and gate on it."""

from __future__ import annotations

from xml.sax.saxutils import escape, quoteattr

from engine.result import Result


def junit(result: Result) -> str:
    """One test case for the comparison, one per metric: different is a failure, missing and not enough data are
    skipped. Deterministic; texts are already free of control characters."""
    summary = result.summary
    cases: list[str] = []
    failures = skipped = 0
    overall = next((finding for finding in result.findings if finding.subject == "comparison"), None)
    sentence = overall.text if overall is not None else str(summary.get("verdict"))
    body = ""
    if summary.get("pass") is False:
        failures += 1
        body = f"<failure message={quoteattr(sentence)}/>"
    elif summary.get("pass") is None:
        skipped += 1
        body = f"<skipped message={quoteattr(sentence)}/>"
    cases.append(_case("run-comparison", "whole comparison", body))
    texts = {finding.subject: finding.text for finding in result.findings}
    names = ("test", "verb", "resource", "subresource", "scope", "bucket", "verdict", "pooled", "metric")
    for row in result.tables["metrics"].select(*names).iter_rows():
        if row[7]:
            continue
        subject = " ".join(str(part) for part in row[:6] if part)
        name = " ".join(str(part) for part in row[1:6] if part) or "value"
        if row[8] and row[8] not in name:
            name += f" ({row[8]})"
        body = ""
        if row[6] == "different":
            failures += 1
            body = f"<failure message={quoteattr(texts.get(subject, 'different'))}/>"
        elif row[6] in ("missing", "not enough data"):
            skipped += 1
            body = f"<skipped message={quoteattr(row[6])}/>"
        cases.append(_case(f"run-comparison.{row[0] or 'metrics'}", name, body))
    head = (
        f"<testsuite name={quoteattr('run-comparison')} tests={quoteattr(str(len(cases)))} "
        f'failures={quoteattr(str(failures))} errors="0" skipped={quoteattr(str(skipped))}>'
    )
    properties = "".join(
        f"<property name={quoteattr(str(key))} value={quoteattr(str(value))}/>"
        for key, value in summary.items()
        if value is not None
    )
    lines = ['<?xml version="1.0" encoding="UTF-8"?>', head, f"<properties>{properties}</properties>", *cases]
    return "\n".join([*lines, f"<system-out>{escape(' '.join(result.notes))}</system-out>", "</testsuite>", ""])


def _case(group: str, name: str, body: str) -> str:
    start = f"<testcase classname={quoteattr(group)} name={quoteattr(name)}"
    return f"{start}>{body}</testcase>" if body else f"{start}/>"
