"""Copies of things, in all the ways in which they come about."""

from __future__ import annotations

import copy
import pickle
from typing import TypeVar

WAYS = ["pickle", "buffers", "deepcopy"]

Thing = TypeVar("Thing")


def copied(thing: Thing, way: str) -> Thing:
    """Return a copy of a thing.

    Args:
        thing: Anything that can be pickled.
        way: One of WAYS; with ``"buffers"`` arrays are unpickled without copies, as Ray does it,
            from memory that cannot be written to.
    """
    if way == "deepcopy":
        return copy.deepcopy(thing)
    if way == "pickle":
        return pickle.loads(pickle.dumps(thing))
    buffers: list[pickle.PickleBuffer] = []
    data = pickle.dumps(thing, protocol=5, buffer_callback=buffers.append)
    assert buffers
    return pickle.loads(data, buffers=[buffer.raw().tobytes() for buffer in buffers])
