"""Workloads: what each query class did in each interval, and what the host used meanwhile."""
