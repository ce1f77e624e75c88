"""Shared statistics kernels."""
