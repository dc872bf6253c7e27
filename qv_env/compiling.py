"""How functions are compiled: two decorators around numba's ``njit``, and a cache on disk.

:func:`compiled` and :func:`inlined` can be used by any package. They differ from
``njit(cache=True)`` in the behaviour of the cache:

* numba considers an entry valid as long as the source file of the function is unchanged. But the
  machine code also contains the functions that it calls and the globals (numbers, tables) that it
  reads, from whatever file they come. Here an entry carries a hash of the function, of all
  functions that it calls, directly or indirectly, and of the values of their globals, and is valid
  for exactly these.
* No fault of the cache stops a program. A damaged, truncated or unreadable entry is compiled again
  and replaced; where nothing can be written (no writable folder, a full disk), functions are
  compiled in memory.

The cache is in the same place as numba's: in ``NUMBA_CACHE_DIR`` if that is set, else beside the
sources or in the user's cache folder. It is first read when a function is first called, not on
import. With ``NUMBA_DISABLE_JIT=1``, functions remain plain Python.
"""

from __future__ import annotations

import contextlib
import enum
import hashlib
import os
import pickle
import secrets
import sys
import types
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
import numpy as np
from numba.core.caching import FunctionCache
from numba.core.dispatcher import Dispatcher
from numba.core.serialize import dumps
from numba.core.types.abstract import Type
from numba.core.types.containers import BaseTuple

Function = TypeVar("Function", bound=Callable[..., Any])


def inlined(function: Function) -> Function:
    """Compile a small function that is inlined into every compiled caller.

    Otherwise the same as :func:`compiled`.
    """
    return _compile(function, forceinline=True)


def compiled(function: Function) -> Function:
    """Compile a function with numba: no GIL, no Python objects, cached on disk where possible.

    Integer arithmetic on ``np.uint64`` wraps around, compiled or not. Globals are constants of the
    compiled code: it keeps the values that they have when it is first called.

    Args:
        function: A function of NumPy arrays, records, named tuples and numbers.

    Returns:
        The compiled function, or ``function`` itself (with wrapping arithmetic) where numba's JIT
        is switched off.
    """
    return _compile(function, forceinline=False)


def _compile(function: Function, forceinline: bool) -> Function:
    if numba.config.DISABLE_JIT:
        return np.errstate(over="ignore")(function)
    dispatcher = numba.njit(nogil=True, error_model="numpy", forceinline=forceinline)(function)
    # A numba version whose dispatchers do not use this attribute compiles in every process.
    dispatcher._cache = _DiskCache(function, dispatcher.targetoptions)
    return cast("Function", dispatcher)


# ------------------------------------------------------------- the contents of compiled code

# Objects of these modules are hashed by name alone: each entry also records numba's version.
_LIBRARIES = sys.stdlib_module_names | {"llvmlite", "numba", "numpy"}


def stamp(function: Callable[..., Any]) -> str:
    """Return a hash of everything that goes into the machine code of a function.

    This is the code and the options of the function and of all compiled functions that it refers
    to, directly or indirectly, and the values of the globals and closures that they read: numbers,
    strings, tuples, arrays, dtypes, the fields of named tuples. Anything else, such as a plain
    function for which numba has an overload, is represented by its source file.

    Args:
        function: A plain or compiled function.

    Returns:
        64 hexadecimal digits, the same in every process as long as all these are the same.
    """
    digest = hashlib.sha256()
    pending = [_plain(function)]
    seen = set(pending)
    while pending:
        own, referred = _references(pending.pop())
        digest.update(own)
        for other in referred:
            if other not in seen:
                seen.add(other)
                pending.append(other)
    return digest.hexdigest()


def _plain(function: Any) -> types.FunctionType:
    return function.py_func if isinstance(function, Dispatcher) else function


@cache
def _references(function: types.FunctionType) -> tuple[bytes, list[types.FunctionType]]:
    """Return the hash of one function, and the functions that it refers to."""
    reader = _Reader()
    reader.read_function(function)
    return reader.digest.digest(), reader.functions


class _Reader:
    """Hashes the code and the constants of one function.

    Attributes:
        digest: The hash so far.
        functions: The functions found so far.
    """

    def __init__(self) -> None:
        self.digest = hashlib.sha256()
        self.functions: list[types.FunctionType] = []
        self._names: list[str] = []  # all names in the function's code
        self._open: set[int] = set()  # containers and modules that are being read

    def _note(self, *parts: object) -> None:
        for part in parts:
            data = part if isinstance(part, bytes) else str(part).encode("utf-8", "surrogatepass")
            self.digest.update(b"%d:" % len(data))
            self.digest.update(data)

    def read_function(self, function: types.FunctionType) -> None:
        self._note(function.__module__, function.__qualname__)
        self.read(function.__code__)
        for name in self._names:
            if name in function.__globals__:
                self._note(name)
                self.read(function.__globals__[name])
        for cell in function.__closure__ or ():
            with contextlib.suppress(ValueError):  # a cell that is still empty
                self.read(cell.cell_contents)
        self.read(function.__defaults__)
        self.read(function.__kwdefaults__)

    def read(self, value: Any) -> None:
        """Add a value to the hash."""
        self._note(type(value).__qualname__)
        if isinstance(value, Dispatcher):
            self._note(value.py_func.__module__, value.py_func.__qualname__)
            self.read(value.targetoptions)
            self.functions.append(value.py_func)
        elif value is None or isinstance(value, (bool, int, float, complex, str, bytes)):
            self._note(repr(value) if not isinstance(value, enum.Enum) else repr(value.value))
        elif isinstance(value, np.dtype):
            self._note(repr(value), value.itemsize)
        elif isinstance(value, (np.generic, np.ndarray)) and not value.dtype.hasobject:
            self.read(value.dtype)
            self._note(value.shape, value.strides, value.tobytes())
        elif isinstance(value, types.CodeType):
            self._read_code(value)
        elif isinstance(value, types.ModuleType):
            self._read_module(value)
        elif isinstance(value, (tuple, list)):
            self._note(getattr(value, "_fields", ""))
            self._read_all(value, value)
        elif isinstance(value, dict):
            self._read_all(value, (part for item in value.items() for part in item))
        elif isinstance(value, (set, frozenset)):
            self._note(sorted(map(repr, value)))
        elif isinstance(value, type):
            self._note(value.__module__, value.__qualname__, getattr(value, "_fields", ""))
            if not issubclass(value, tuple):
                self._read_source(value.__module__)
        elif isinstance(value, Type):
            self._note(value)
        else:
            self._note(getattr(value, "__qualname__", getattr(value, "__name__", "")))
            if isinstance(value, types.FunctionType):
                self.functions.append(value)
            self._read_source(getattr(value, "__module__", None))
            self._read_source(type(value).__module__)

    def _read_all(self, owner: object, values: Iterable[Any]) -> None:
        if id(owner) not in self._open:
            self._open.add(id(owner))
            for value in values:
                self.read(value)
            self._open.remove(id(owner))

    def _read_code(self, code: types.CodeType) -> None:
        self._note(
            code.co_code, code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars,
            code.co_argcount, code.co_kwonlyargcount, code.co_flags, code.co_exceptiontable,
        )  # fmt: skip
        self._names += code.co_names
        for constant in code.co_consts:  # the code of inner functions is among them
            self.read(constant)

    def _read_module(self, module: types.ModuleType) -> None:
        """Add a module to the hash: those of its members whose names occur in the function."""
        self._note(module.__name__)
        if not _is_library(module.__name__):
            members = vars(module)
            self._read_all(module, (members[name] for name in self._names if name in members))

    def _read_source(self, name: str | None) -> None:
        if name is not None and not _is_library(name):
            self._note(name, _source_digest(getattr(sys.modules.get(name), "__file__", None)))


def _is_library(module: str) -> bool:
    return module.partition(".")[0] in _LIBRARIES


@cache
def _source_digest(file: str | None) -> bytes:
    try:
        return b"" if file is None else hashlib.sha256(Path(file).read_bytes()).digest()
    except OSError:
        return b""


def _fields(kinds: Iterable[Any]) -> Iterator[tuple[str, ...]]:
    """Yield the fields of all named tuples among numba types: compiled code has their positions."""
    for kind in kinds:
        if isinstance(kind, BaseTuple):
            yield getattr(kind, "fields", ())
            yield from _fields(kind)


# ---------------------------------------------------------------------------- the cache on disk


class _DiskCache:
    """The cache of one function, as a numba dispatcher uses it; every error counts as a miss.

    Args:
        function: The plain function.
        options: The dispatcher's options.
    """

    def __init__(self, function: Callable[..., Any], options: dict[str, Any]) -> None:
        self._function = function
        self._options = options
        self._opened: _StampedCache | None = None
        self._enabled = True

    def _open(self) -> _StampedCache:
        """Return the cache itself, opened on first use, when all globals are defined."""
        if self._opened is None:
            self._opened = _StampedCache(self._function, self._options)
        return self._opened

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the compiled code for some argument types, or None."""
        if self._enabled:
            with _errors_are_misses():
                return self._open().load_overload(sig, target_context)
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Store compiled code for some argument types, if possible."""
        if self._enabled:
            with _errors_are_misses():
                self._open().save_overload(sig, data)

    @property
    def cache_path(self) -> str | None:
        """The folder of the cache, or None if there is none."""
        with _errors_are_misses():
            return self._open().cache_path
        return None

    def enable(self) -> None:
        """Use the cache."""
        self._enabled = True

    def disable(self) -> None:
        """Stop using the cache."""
        self._enabled = False

    def flush(self) -> None:
        """Empty the cache."""
        with _errors_are_misses():
            self._open().flush()


@contextlib.contextmanager
def _errors_are_misses() -> Iterator[None]:
    """Suppress every error: reading a damaged entry may raise nearly any exception."""
    try:
        yield
    except Warning:  # raised only where the user turned warnings into errors
        raise
    except Exception:
        pass


class _StampedCache(FunctionCache):
    """numba's cache of one function, whose entries are valid for a hash of their contents."""

    def __init__(self, function: Callable[..., Any], options: dict[str, Any]) -> None:
        super().__init__(function)
        made_of = (
            numba.__version__,
            self._impl.locator.get_source_stamp(),
            sorted(options.items()),
            stamp(function),
        )
        self._cache_file = _Entries(Path(self._cache_path) / self._impl.filename_base, made_of)

    def _index_key(self, sig: Any, codegen: Any) -> Any:
        return super()._index_key(sig, codegen), tuple(_fields(getattr(sig, "args", sig)))


class _Entries:
    """The files of one function's cache: an index, and one for each tuple of argument types.

    Each begins with a checksum and records what it was compiled from and its key. A file that is
    damaged, or was compiled from something else, counts as missing; the next ``save`` replaces it.

    Args:
        base: Folder and first part of the names of the files.
        made_of: Identifies what valid entries are compiled from: versions, options, hashes.
    """

    def __init__(self, base: Path, made_of: Any) -> None:
        self._base = base
        self._index = base.with_name(base.name + ".nbi")
        self._made_of = made_of

    def _file(self, number: int) -> Path:
        return self._base.with_name(f"{self._base.name}.{number}.nbc")

    def load(self, key: Any) -> Any:
        """Return the data saved under a key, or None."""
        number = self._numbers().get(key)
        return None if number is None else _read(self._file(number), (self._made_of, key))

    def save(self, key: Any, data: Any) -> None:
        """Save data under a key.

        Raises:
            OSError: A file cannot be written.
        """
        numbers = self._numbers()
        number = numbers.get(key, 1 + max(numbers.values(), default=0))
        _write(self._file(number), (self._made_of, key), data)
        if key not in numbers:
            _write(self._index, self._made_of, {**numbers, key: number})

    def flush(self) -> None:
        """Forget all entries."""
        _write(self._index, self._made_of, {})

    def _numbers(self) -> dict[Any, int]:
        return _read(self._index, self._made_of) or {}


_CHECKSUM_SIZE = hashlib.sha256().digest_size


def _read(file: Path, owner: Any) -> Any:
    """Return a cache file's data, or None if it is missing, damaged or of another owner."""
    with contextlib.suppress(Exception):
        content = file.read_bytes()
        checksum, payload = content[:_CHECKSUM_SIZE], content[_CHECKSUM_SIZE:]
        if checksum == hashlib.sha256(payload).digest():
            found, data = pickle.loads(payload)
            return data if found == owner else None
    return None


def _write(file: Path, owner: Any, data: Any) -> None:
    payload = dumps((owner, data))
    temporary = file.with_name(f".{file.name}.{secrets.token_hex(8)}.tmp")
    try:
        temporary.write_bytes(hashlib.sha256(payload).digest() + payload)
        os.replace(temporary, file)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
