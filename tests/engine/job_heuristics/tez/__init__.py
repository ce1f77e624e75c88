"""Tests of Tez applications."""
