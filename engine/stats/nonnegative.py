"""Solve non-negative least squares from normal equations, fast enough for hundreds of bootstrap fits."""

from __future__ import annotations

import numpy as np


def solve(gram: np.ndarray, right: np.ndarray, start: np.ndarray | None = None) -> np.ndarray:
    """Return the b >= 0 (P,) that minimises b'Gb/2 - c'b for a positive definite ``gram`` G (P, P) and ``right`` c (P,).

    Block principal pivoting from the positive set of ``start``: whole blocks of variables change sides at once, and only
    if that stops helping, one at a time (so it ends). ``scipy.optimize.nnls`` takes the rows instead of the normal equations
    and no starting set. Source: Portugal, Judice and Vicente 1994; Kim and Park 2011.
    """
    size = len(right)
    scale = np.sqrt(np.maximum(gram.diagonal(), 1e-300))
    g = gram / (scale[:, None] * scale)
    c = right / scale
    tolerance = 1e-10 * max(float(np.abs(c).max(initial=0.0)), 1e-300)
    passive = np.ones(size, bool) if start is None else start > 0
    fewest, patience = size + 1, 3
    for _ in range(20 + 5 * size):
        b = np.zeros(size)
        inside = slice(None) if passive.all() else np.flatnonzero(passive)
        block = g[inside][:, inside]
        try:
            b[inside] = np.linalg.solve(block, c[inside])
        except np.linalg.LinAlgError:  # columns that are copies of each other
            b[inside] = np.linalg.lstsq(block, c[inside], rcond=1e-12)[0]
        wrong = np.where(passive, b, g @ b - c) < -tolerance
        count = int(np.count_nonzero(wrong))
        if count == 0:
            break
        if count < fewest:
            fewest, patience = count, 3
            passive = passive ^ wrong
        elif patience > 0:
            patience -= 1
            passive = passive ^ wrong
        else:
            passive[np.flatnonzero(wrong)[-1]] ^= True
    return np.maximum(b, 0.0) / scale
