from __future__ import annotations

from pathlib import Path

from engine.findings.notify import NotifySettings, Threshold
from tui.settings import load


def test_levels_and_rules() -> None:
    rules = (
        "job-heuristics/*Mapper GC=never",
        "job-heuristics/*=critical",
        "*/loss of *=low",
        "ring-placement=moderate",
    )
    threshold = Threshold(NotifySettings(level="severe", rules=rules))
    assert threshold.complaints == []
    assert threshold.calls("query-profile", "q1", "severe") and not threshold.calls("query-profile", "q1", "moderate")
    assert threshold.calls("broker-load", "loss of broker 4", "low")
    assert threshold.calls("ring-placement", "node-3", "moderate")
    assert not threshold.calls("job-heuristics", "job_1 Mapper Speed", "severe")
    assert threshold.calls("job-heuristics", "job_1 Mapper GC", "critical"), "the last rule that fits counts"
    never = Threshold(NotifySettings(rules=("job-heuristics/*=critical", "job-heuristics/*Mapper GC=never")))
    assert not never.calls("job-heuristics", "job_1 Mapper GC", "critical")


def test_what_cannot_be_understood_is_a_problem_and_the_rest_stands(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text('[notify]\nlevel = "awful"\nbell = true\nrules = ["x", "ring-placement=low", "a/b=ok"]\n')
    settings = load(path)
    notify = settings.of(NotifySettings)
    assert notify.bell and notify.level == "severe"
    reasons = " ".join(problem.reason for problem in settings.problems)
    assert "awful" in reasons and "'x'" in reasons and "'a/b=ok'" in reasons and len(settings.problems) == 3
    assert Threshold(notify).calls("ring-placement", "n", "low")
