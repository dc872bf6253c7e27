"""Comparing what environments hand out: values, types, shapes and dtypes, bit for bit."""

from __future__ import annotations

import numpy as np


def assert_same(left, right, where: str = "") -> None:
    """See that two things are alike all the way down; ``where`` names the place that is not."""
    assert type(left) is type(right), (where, type(left), type(right))
    if isinstance(left, dict):
        assert set(left) == set(right), (where, set(left) ^ set(right))
        for key in left:
            assert_same(left[key], right[key], f"{where}/{key}")
    elif isinstance(left, (list, tuple)):
        assert len(left) == len(right), where
        for k, (one, two) in enumerate(zip(left, right, strict=True)):
            assert_same(one, two, f"{where}[{k}]")
    elif isinstance(left, np.ndarray):
        assert left.dtype == right.dtype, (where, left.dtype, right.dtype)
        assert left.shape == right.shape, (where, left.shape, right.shape)
        if left.dtype == object:
            assert_same(left.tolist(), right.tolist(), where)
        else:
            assert left.tobytes() == right.tobytes(), (where, left, right)
    else:
        assert left == right, (where, left, right)
