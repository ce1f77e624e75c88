"""Write test cases as JUnit XML, the format in which CI systems read results."""

from __future__ import annotations

import re
from collections.abc import Sequence

from engine.core.exports import Case, Suite
from engine.core.reading import harmless
from engine.core.view import LEVELS, Finding, Level


def suite_of_findings(view: str, findings: Sequence[Finding], failing: Level) -> Suite:
    """Return a suite with one case per finding; those at or above ``failing`` are failures. Never an empty suite."""
    limit = LEVELS.index(failing)
    cases = tuple(
        Case(f"loadlens.{view}", finding.subject, "failure", finding.text, finding.level)
        if LEVELS.index(finding.level) >= limit
        else Case(f"loadlens.{view}", finding.subject)
        for finding in findings
    )
    return Suite(f"loadlens {view}", cases or (Case(f"loadlens.{view}", "no findings"),))


def to_xml(suite: Suite) -> str:
    """Return the suite as an XML document; what XML cannot hold is replaced."""
    from xml.sax.saxutils import escape, quoteattr  # which loads HTTP and TLS

    counts = {outcome: sum(case.outcome == outcome for case in suite.cases) for outcome in ("failure", "skipped")}
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        f'<testsuite name={quoteattr(suite.name)} tests="{len(suite.cases)}" failures="{counts["failure"]}" errors="0" '
        f'skipped="{counts["skipped"]}">',
    ]
    if suite.properties:
        lines.append("  <properties>")
        lines += [f"    <property name={quoteattr(k)} value={quoteattr(v)}/>" for k, v in suite.properties.items()]
        lines.append("  </properties>")
    for case in suite.cases:
        start = f"  <testcase classname={quoteattr(case.group)} name={quoteattr(case.name)}"
        if case.outcome == "passed":
            lines.append(f"{start}/>")
            continue
        kind = f" type={quoteattr(case.kind)}" if case.kind else ""
        body = f">{escape(case.message)}</failure>" if case.outcome == "failure" else "/>"
        lines += [f"{start}>", f"    <{case.outcome}{kind} message={quoteattr(case.message)}{body}", "  </testcase>"]
    if suite.output:
        lines.append(f"  <system-out>{escape(suite.output)}</system-out>")
    return _NO_XML.sub("·", harmless("\n".join([*lines, "</testsuite>", ""])))


_NO_XML = re.compile("[\ufffe\uffff]")
