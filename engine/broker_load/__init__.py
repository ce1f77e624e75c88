"""Broker load: the workload model of LinkedIn Cruise Control over files, corrected beside it, and what failures do."""
