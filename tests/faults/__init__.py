"""Faults of the machine: processes that are killed while they write, long runs, and what the kernel sees of the program."""
