"""Findings over time: what changed between results, what is new since the operator's last look, whom to call."""
