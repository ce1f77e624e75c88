"""What keys do in the job heuristics tab."""

from __future__ import annotations

from tui.actions import Action, act

ACTIONS: tuple[Action, ...] = (
    act("job-heuristics.mode", "m", "Mode", "Switch between Dr. Elephant's code and its published "
           "description; the job's section 'notes' names each number that differs.",
           run="next('mode')", bar=22),
    act("job-heuristics.group", "b", "Group by", "Group the roll-up by user, queue, job type or hour.", bar=24),
    act("job-heuristics.what-if", "i", "What if", "Go to the what-if controls of the open job.", bar=14),
    act("job-heuristics.take", "t", "Take advice", "Take the recommendation under the cursor into the what-if "
           "scenario.", bar=18),
    act("job-heuristics.forget", "x", "Clear what-if", "Drop the what-if scenario of the open job.",
           run="clear_what_if"),
    act("job-heuristics.compare", "v", "Compare", "Compare the configuration of the open job with that of the run "
           "under the cursor (section history)."),
)  # fmt: skip


def __getattr__(name: str) -> tuple[str, ...]:
    """Return ``SIGNS``, what the tab's own signs mean, when the help asks for it.

    Its names of heuristics stand where heuristics are declared, which is loaded only then. Raises AttributeError.
    """
    if name != "SIGNS":
        raise AttributeError(name)
    from engine.job_heuristics.result.all_jobs import default_rules

    return (
        "Column verdicts has one letter per heuristic: . none, L low, M moderate, S severe, C critical, blank: no result for "
        f"this job. From left to right: {', '.join(default_rules().names)}.",
        "Verdicts of a running job: a certain one cannot change any more, one that can only get worse has its floor, a "
        "provisional one may still become anything.",
    )
