"""Scrapes, topology, capacities and answers: bytes to input tables."""
