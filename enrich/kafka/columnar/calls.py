"""Calls of librdkafka and reads of its structs from compiled loops, which hold no Python object.

An address is a whole number here. The functions are given as addresses too, so that compiled code can be kept on disk.
"""

from collections.abc import Callable
from typing import Any, cast

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

Address = Any
"""Numbers in compiled loops follow numpy's rules, which mypy does not know."""

_WORD, _HALF, _BYTE = ir.IntType(64), ir.IntType(32), ir.IntType(8)


def _called(builder: Any, arguments: Any, bits: int) -> Any:
    function, *values = arguments
    kind = ir.FunctionType(ir.IntType(bits), [_WORD] * len(values))
    result = builder.call(builder.inttoptr(function, kind.as_pointer()), values)
    return builder.sext(result, _WORD) if bits < 64 else result


def _generate_call(_: Any, builder: Any, __: Any, arguments: Any) -> Any:
    return _called(builder, arguments, 64)


def _generate_half(_: Any, builder: Any, __: Any, arguments: Any) -> Any:
    return _called(builder, arguments, 32)


@intrinsic
def _call1(_: Any, function: Any, a: Any) -> Any:  # noqa: ARG001 - numba goes by the signature
    return types.int64(types.int64, types.int64), _generate_call


@intrinsic
def _call2(_: Any, function: Any, a: Any, b: Any) -> Any:  # noqa: ARG001
    return types.int64(*[types.int64] * 3), _generate_call


@intrinsic
def _call3(_: Any, function: Any, a: Any, b: Any, c: Any) -> Any:  # noqa: ARG001
    return types.int64(*[types.int64] * 4), _generate_call


@intrinsic
def _code2(_: Any, function: Any, a: Any, b: Any) -> Any:  # noqa: ARG001
    return types.int64(*[types.int64] * 3), _generate_half


@intrinsic
def _code5(_: Any, function: Any, a: Any, b: Any, c: Any, d: Any, e: Any) -> Any:  # noqa: ARG001
    return types.int64(*[types.int64] * 6), _generate_half


@intrinsic
def _word(_: Any, address: Any) -> Any:  # noqa: ARG001
    def generate(_: Any, builder: Any, __: Any, arguments: Any) -> Any:
        return builder.load(builder.inttoptr(arguments[0], _WORD.as_pointer()))

    return types.int64(types.int64), generate


@intrinsic
def _half(_: Any, address: Any) -> Any:  # noqa: ARG001
    def generate(_: Any, builder: Any, __: Any, arguments: Any) -> Any:
        return builder.sext(builder.load(builder.inttoptr(arguments[0], _HALF.as_pointer())), _WORD)

    return types.int64(types.int64), generate


@intrinsic
def _byte(_: Any, address: Any) -> Any:  # noqa: ARG001
    def generate(_: Any, builder: Any, __: Any, arguments: Any) -> Any:
        return builder.zext(builder.load(builder.inttoptr(arguments[0], _BYTE.as_pointer())), _WORD)

    return types.int64(types.int64), generate


@intrinsic
def _put_word(_: Any, address: Any, value: Any) -> Any:  # noqa: ARG001
    def generate(context: Any, builder: Any, _: Any, arguments: Any) -> Any:
        builder.store(arguments[1], builder.inttoptr(arguments[0], _WORD.as_pointer()))
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), generate


@intrinsic
def _put_half(_: Any, address: Any, value: Any) -> Any:  # noqa: ARG001
    def generate(context: Any, builder: Any, _: Any, arguments: Any) -> Any:
        half = builder.trunc(arguments[1], _HALF)
        builder.store(half, builder.inttoptr(arguments[0], _HALF.as_pointer()))
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), generate


@intrinsic
def _copy(_: Any, to: Any, source: Any, size: Any) -> Any:  # noqa: ARG001
    def generate(context: Any, builder: Any, _: Any, arguments: Any) -> Any:
        bytes_ = _BYTE.as_pointer()
        copy = builder.module.declare_intrinsic("llvm.memcpy", [bytes_, bytes_, _WORD])
        to, source, size = arguments
        places = [builder.inttoptr(each, bytes_) for each in (to, source)]
        builder.call(copy, [*places, size, ir.Constant(ir.IntType(1), 0)])
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), generate


call1 = cast(Callable[..., Address], _call1)
"""Calls the function at an address; the result has 64 bits."""
call2 = cast(Callable[..., Address], _call2)
call3 = cast(Callable[..., Address], _call3)
code2 = cast(Callable[..., Any], _code2)
"""Calls a function whose result is an int."""
code5 = cast(Callable[..., Any], _code5)
word = cast(Callable[[Address], Any], _word)
"""The eight bytes at an address."""
half = cast(Callable[[Address], Any], _half)
"""The int at an address."""
byte = cast(Callable[[Address], Any], _byte)
put_word = cast(Callable[[Address, Any], None], _put_word)
put_half = cast(Callable[[Address, Any], None], _put_half)
copy = cast(Callable[[Address, Address, Any], None], _copy)
