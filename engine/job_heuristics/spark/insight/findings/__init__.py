"""Insights: what stands out in an application, each a number beside its limit, with the reason and the setting to change."""
