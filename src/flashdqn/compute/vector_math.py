"""exp and log in float32 that the compiler can turn into vector instructions: a library's are called one by one.

Both are a polynomial on a small interval and an exponent put together from its bits (Cephes, Moshier 1989). They
are written in LLVM's own language, because Numba cannot read a float's bits as an integer. Their error is below
2e-7.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir  # type: ignore[import-untyped,unused-ignore]
from numba import types
from numba.core import cgutils

from flashdqn.compute.gemm import intrinsic

_FLOAT, _WORD = ir.FloatType(), ir.IntType(32)

#: Beyond these, exp is 0 or infinite in float32, or nearly.
LOWEST, HIGHEST = -87.0, 88.0
#: Adding it rounds a small number to a whole one, which is then in the last bits.
ROUNDER = 12582912.0
LOG2_E, LN2_HIGH, LN2_LOW = 1.44269504088896341, 0.693359375, -2.12194440e-4
EXP_TERMS = (
    1.9875691500e-4,
    1.3981999507e-3,
    8.3334519073e-3,
    4.1665795894e-2,
    1.6666665459e-1,
    5.0000001201e-1,
)
LOG_TERMS = (
    7.0376836292e-2,
    -1.1514610310e-1,
    1.1676998740e-1,
    -1.2420140846e-1,
    1.4249322787e-1,
    -1.6668057665e-1,
    2.0000714765e-1,
    -2.4999993993e-1,
    3.3333331174e-1,
)
#: The bits of 1 and of √½, and how far the exponent is from the last bit.
ONE_BITS, ROOT_HALF_BITS, EXPONENT = 0x3F800000, 0x3F3504F3, 23


class _Writer:
    """Writes float32 arithmetic."""

    def __init__(self, build: Any) -> None:
        self.build = build
        kind = ir.FunctionType(_FLOAT, [_FLOAT] * 3)
        self._fma = cgutils.get_or_insert_function(build.module, kind, "llvm.fmuladd.f32")

    def number(self, value: float) -> Any:
        return ir.Constant(_FLOAT, value)

    def multiply_add(self, a: Any, b: Any, c: Any) -> Any:
        return self.build.call(self._fma, [a, b, c])

    def polynomial(self, terms: tuple[float, ...], x: Any) -> Any:
        """The value at x, from the highest power to the lowest."""
        found = self.number(terms[0])
        for term in terms[1:]:
            found = self.multiply_add(found, x, self.number(term))
        return found

    def choose(self, comparison: str, a: Any, b: Any, yes: Any, no: Any) -> Any:
        return self.build.select(self.build.fcmp_ordered(comparison, a, b), yes, no)


@intrinsic
def exp_float(typing: Any, x: Any) -> Any:
    """e^x of a float32; at least e^−87, and at most e^88. NaN stays NaN."""

    def generate(context: Any, build: Any, signature: Any, arguments: Any) -> Any:
        write = _Writer(build)
        low, high = write.number(LOWEST), write.number(HIGHEST)
        x = write.choose("<", arguments[0], low, low, arguments[0])
        x = write.choose(">", x, high, high, x)
        shifted = write.multiply_add(x, write.number(LOG2_E), write.number(ROUNDER))
        whole = build.fsub(shifted, write.number(ROUNDER))
        rest = write.multiply_add(whole, write.number(-LN2_HIGH), x)
        rest = write.multiply_add(whole, write.number(-LN2_LOW), rest)
        value = write.multiply_add(
            write.polynomial(EXP_TERMS, rest), build.fmul(rest, rest), build.fadd(rest, write.number(1.0))
        )
        bits = build.shl(build.bitcast(shifted, _WORD), _WORD(EXPONENT))
        return build.fmul(value, build.bitcast(build.add(bits, _WORD(ONE_BITS)), _FLOAT))

    return types.float32(types.float32), generate


@intrinsic
def log_float(typing: Any, x: Any) -> Any:
    """The natural logarithm of a float32 > 0; of 0 it is a number near −88, so that 0 · log 0 is 0. NaN stays
    NaN."""

    def generate(context: Any, build: Any, signature: Any, arguments: Any) -> Any:
        write = _Writer(build)
        bits = build.bitcast(arguments[0], _WORD)
        exponent = build.ashr(build.sub(bits, _WORD(ROOT_HALF_BITS)), _WORD(EXPONENT))
        mantissa = build.bitcast(build.sub(bits, build.shl(exponent, _WORD(EXPONENT))), _FLOAT)
        power = build.sitofp(exponent, _FLOAT)
        part = build.fsub(mantissa, write.number(1.0))
        square = build.fmul(part, part)
        value = build.fmul(build.fmul(write.polynomial(LOG_TERMS, part), square), part)
        value = write.multiply_add(power, write.number(LN2_LOW), value)
        value = write.multiply_add(square, write.number(-0.5), value)
        value = write.multiply_add(power, write.number(LN2_HIGH), build.fadd(value, part))
        return build.select(build.fcmp_unordered("uno", arguments[0], arguments[0]), arguments[0], value)

    return types.float32(types.float32), generate
