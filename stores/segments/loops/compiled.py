"""Compiles the loops over rows with numba, cached on disk beside the source; they run without the GIL.

This module also has the processor operations that loops need and numba does not offer. Compiled code does not check
bounds: each loop must check what it reads from a file before it uses it.
"""

import hashlib
import shutil
import uuid
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
import numpy.typing as npt
from llvmlite import ir
from numba import types
from numba.core.caching import FunctionCache
from numba.core.errors import NumbaWarning
from numba.core.registry import cpu_target
from numba.extending import intrinsic

# Numbers in compiled loops follow numpy's rules, which mypy does not know: hence Any inside.
Bytes = npt.NDArray[Any]
Hashes = npt.NDArray[Any]
Integers = npt.NDArray[Any]
Flags = npt.NDArray[Any]
Records = npt.NDArray[Any]
Record = Any
Word = Any

_F = TypeVar("_F", bound=Callable[..., Any])
_WORD = ir.IntType(64)
_DOUBLE_WORD = ir.IntType(128)


_COMPILED = [
    source
    for file in sorted(Path(__file__).parents[1].rglob("*.py"))
    if b"@compiled" in (source := file.read_bytes()) or b"@inlined" in source or b"@intrinsic" in source
]
_SOURCES = hashlib.sha256(b"".join(_COMPILED)).hexdigest()


_KEPT: "list[tuple[Any, _Cache]]" = []
"""Each loop's dispatcher, with its cache on disk."""


class _Cache(FunctionCache):
    """numba drops cached code if its own source file changes, but not if that of an inlined function does."""

    def _index_key(self, signature: Any, codegen: Any) -> tuple[Any, ...]:
        return (*super()._index_key(signature, codegen), _SOURCES)  # type: ignore[no-untyped-call] # numba's own

    def take_over_from_image(self) -> None:
        """Copies compiled code from beside the source, if this user cannot write there, to the user's own cache."""
        beside_source = Path(self._py_func.__code__.co_filename).parent / "__pycache__"
        own = Path(self._cache_path)
        name = self._impl.filename_base
        if own == beside_source or (own / f"{name}.nbi").exists():
            return
        # The index last: a process that finds it must find the code.
        for file in sorted(beside_source.glob(f"{name}.*"), key=lambda file: file.suffix == ".nbi"):
            copy = own / f"{file.name}.{uuid.uuid4().hex[:8]}"
            shutil.copyfile(file, copy)
            copy.replace(own / file.name)

    def signatures(self) -> list[Any]:
        """The signatures with cached code for this kind of processor: all that tables need, or none."""
        processor = cpu_target.target_context.codegen().magic_tuple()
        kept = self._cache_file._load_index()  # type: ignore[no-untyped-call] # numba's own
        return [key[0] for key in kept if key[1] == processor and key[-1] == _SOURCES]


def are_loops_kept() -> bool:
    """Whether all loops are compiled and on disk, so that no process has to wait for compilation."""
    return all(cache.signatures() for _, cache in _KEPT)


def load_kept_loops() -> None:
    """Loads the cached code of all loops into memory. A process calls it before it forks others that need the loops."""
    for dispatcher, cache in _KEPT:
        for signature in cache.signatures():
            dispatcher.compile(signature)


def compiled(function: _F) -> _F:
    """The function as machine code, compiled at its first call on this kind of processor."""
    dispatcher: Any = numba.njit(nogil=True, error_model="numpy")(function)
    try:
        dispatcher._cache = _Cache(function)  # type: ignore[no-untyped-call] # numba's own
        dispatcher._cache.take_over_from_image()
        _KEPT.append((dispatcher, dispatcher._cache))
    except RuntimeError:
        # There is no writable directory for the code: each process then compiles for itself (seconds).
        warnings.warn("compiled code cannot be kept: set NUMBA_CACHE_DIR", NumbaWarning, stacklevel=2)
    return cast(_F, dispatcher)


def inlined(function: _F) -> _F:
    """For functions that are only called by compiled ones."""
    return cast(_F, numba.njit(nogil=True, error_model="numpy")(function))


def _load(data: Any, bits: int) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        address = builder.gep(array.data, [arguments[1]])
        value = builder.load(builder.bitcast(address, ir.IntType(bits).as_pointer()))
        value.align = 1  # keys begin anywhere
        return builder.zext(value, _WORD) if bits < 64 else value

    return types.uint64(data, types.intp), generate


@intrinsic
def _load64(_: Any, data: Any, index: Any) -> Any:  # noqa: ARG001 - numba goes by the signature
    return _load(data, 64)


@intrinsic
def _load32(_: Any, data: Any, index: Any) -> Any:  # noqa: ARG001 - numba goes by the signature
    return _load(data, 32)


@intrinsic
def _fold(_: Any, left: Any, right: Any) -> Any:  # noqa: ARG001 - numba goes by the signature
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        del context, signature
        product = builder.mul(*(builder.zext(argument, _DOUBLE_WORD) for argument in arguments))
        high = builder.lshr(product, ir.Constant(_DOUBLE_WORD, 64))
        return builder.xor(builder.trunc(product, _WORD), builder.trunc(high, _WORD))

    return types.uint64(types.uint64, types.uint64), generate


@intrinsic
def _store64(_: Any, data: Any, index: Any, word: Any) -> Any:  # noqa: ARG001 - numba goes by the signature
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        address = builder.gep(array.data, [arguments[1]])
        builder.store(arguments[2], builder.bitcast(address, _WORD.as_pointer())).align = 1
        return context.get_dummy_value()

    return types.void(data, types.intp, types.uint64), generate


load64 = cast(Callable[[Bytes, int], Word], _load64)
"""Eight bytes at any index, little-endian. The caller must make sure that they exist."""
load32 = cast(Callable[[Bytes, int], Word], _load32)
"""Four bytes, in the same way."""
store64 = cast(Callable[[Bytes, int, Word], None], _store64)
"""Writes eight bytes, in the same way."""
fold = cast(Callable[[Word, Word], Word], _fold)
"""The 128-bit product of two words, with its halves combined by xor: mixes every bit into every other."""
