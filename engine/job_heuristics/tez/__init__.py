"""Tez applications (Hive, Pig and others on Tez): Dr. Elephant's rules over their tasks, and each DAG in depth."""

ROOMS = ("reading", "model", "rules", "judging", "insight", "advice", "result")
