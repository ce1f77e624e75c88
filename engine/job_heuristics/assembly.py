"""From events to the model: which attempt of a task counts, which file of a job, what state it is in."""

from __future__ import annotations

from engine.inputs import Inputs
from engine.job_heuristics.model import Model
from engine.view import Context


def assemble(inputs: Inputs, context: Context) -> Model:
    """The model of all jobs in ``inputs`` as of ``context.at_ms`` (later events do not exist). Pure."""
    return Model.empty()
