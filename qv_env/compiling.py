"""How the package's functions are compiled: one decorator around numba's ``njit``.

Two things make it more than an alias:

* numba's on-disk cache is keyed by the file a function stands in. Our compiled functions call each
  other across files, so every one of them is keyed by the sources of the whole package: a change
  to the rules recompiles the batch, too.
* A place without any writable folder must not stop an import: there, functions are compiled in
  memory only.

With ``NUMBA_DISABLE_JIT=1`` the functions stay plain Python.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
import numpy as np
from numba.core.caching import FunctionCache

Function = TypeVar("Function", bound=Callable[..., Any])


def _package_stamp() -> str:
    """A hash of every source file of the package that holds compiled code, or tables for it."""
    folder = Path(__file__).parent
    digest = hashlib.sha256()
    for path in sorted(folder.glob("*.py")):
        source = path.read_bytes()
        if b"qv_env.compiling" in source or path.name in ("compiling.py", "actions.py", "cards.py"):
            digest.update(path.name.encode())
            digest.update(source)
    return digest.hexdigest()


_STAMP = _package_stamp()


class _PackageCache(FunctionCache):
    """numba's cache of one function, stale as soon as any source of the package changed."""

    def __init__(self, py_func: Callable[..., Any]) -> None:
        super().__init__(py_func)
        index = self._cache_file
        index._source_stamp = (index._source_stamp, _STAMP)


def inlined(function: Function) -> Function:
    """Compile a small function that others call: each of its callers gets a copy of its code.

    Otherwise it is like :func:`compiled`.
    """
    return _compile(function, forceinline=True)


def compiled(function: Function) -> Function:
    """Compile a function with numba: no GIL, no Python objects, cached on disk where possible.

    Integer arithmetic on ``np.uint64`` wraps around, compiled or not.

    Args:
        function: A function of NumPy arrays, records and numbers.

    Returns:
        The compiled function, or ``function`` itself (with wrapping arithmetic) where numba's JIT
        is switched off.
    """
    return _compile(function, forceinline=False)


def _compile(function: Function, forceinline: bool) -> Function:
    if numba.config.DISABLE_JIT:
        return np.errstate(over="ignore")(function)
    dispatcher = numba.njit(nogil=True, error_model="numpy", forceinline=forceinline)(function)
    # Without a writable folder, or with a numba whose cache looks different: compile each time.
    with contextlib.suppress(RuntimeError, OSError, AttributeError):
        dispatcher._cache = _PackageCache(function)
    return cast("Function", dispatcher)
