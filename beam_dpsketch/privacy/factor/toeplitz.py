"""Square-root factorization over the values of a domain: integers in, integers out, exactly.

A histogram h over n values is released as rows W h + noise, with W = L diag(g). L is the lower triangular Toeplitz
matrix with c_k (`square_root`), rounded to 2^-10, or 2^-12 above 2^17 values, and g are the gains, in units of
2^-7. Both are whole numbers, hence the bound covers the computed rows, rounding included. It costs 0.2 % of the error.

Guarantee: let D^2 be `squared_length`, the squared length of the longest column in W. For a unit that adds a histogram
f whose weights, with either sign, sum to K in size, |W f| <= K D, attained by a single value. Hence rows with discrete
Gaussian noise with parameter K^2 D^2 / (2 rho) are rho-zCDP if a unit is added or removed (Canonne, Kamath and Steinke
2020, Theorem 4). If it is replaced, the squared change is at most 2 K^2 D^2 without negative weights, otherwise 4 K^2
D^2.

Proof. W f is a sum of columns, each at most D long, times weights: at most K D by the triangle inequality. All entries
of W are at least 0, hence W f . W f' >= 0 for f and f' without negative entries, and |W f - W f'|^2 is at most
|W f|^2 + |W f'|^2. With signs it is at most (|W f| + |W f'|)^2. Value i once with weight K and once with -K attains
this in a longest column, hence 2 would be too little there.

An L1 norm bounds K. An L2 norm measures counters separately, which bounds no rows: it is refused.

Encoding is exact. Whole numbers x = g h are cut into limbs with 14 bits, and each is convolved with the coefficients by
a Fourier transform in float64. For n = 2^20 the limb has a length of at most 2^24, the coefficients at most 2^14, hence
the rounding error of a product is below 2^-6 by the usual bound (Higham 2002, Theorem 24.2), and `rint` is exact.

Rows wrap around at 2^63. `rows` refuses weights by which a row could come near that, before anything wraps. The refusal
depends on the exact data, and rho does not cover it: everyone who sees it learns that the weights are that large, at
least 2^27 records under a norm, and 2^32 without a norm, including the finer noise grid. Above 2^17 values, it is a
quarter of that.

Source of the scaled columns: the module `privacy.over_time.binned`, which scales columns over windows in the same way.
"""

from __future__ import annotations

import dataclasses
import functools
import math

import numpy as np

from beam_dpsketch import checks as _validate
from beam_dpsketch.errors import ArgumentError
from beam_dpsketch.privacy.factor.square_root import FRACTION_BITS, coefficients, gains_of

MAX_FACTOR_SIZE = 1 << 20
GAIN_BITS = 7
MAX_ROW = 1 << 62
_FEW, _FEW_BITS, _MANY_BITS = 1 << 17, 10, 12
_LIMB_BITS = 14
_LIMB = (1 << _LIMB_BITS) - 1
_ROUNDING = 1 + 2.0**-20


@dataclasses.dataclass(frozen=True)
class ToeplitzRoot:
    """Square-root factorization over `size` values, 1 to 2**20."""

    size: int

    def __post_init__(self) -> None:
        _validate.whole_fields(self, "size", low=1, high=MAX_FACTOR_SIZE)

    @property
    def coefficients(self) -> np.ndarray:
        """First column of L: int64, shape (size,), read-only, not ascending."""
        return _parts(self.size)[0]

    @property
    def gains(self) -> np.ndarray:
        """g: int64, shape (size,), read-only, not descending."""
        return _parts(self.size)[1]

    @property
    def squared_length(self) -> int:
        """D^2, the squared length of the longest column in W."""
        return _parts(self.size)[2]

    @property
    def total_cells(self) -> int:
        """Number of histogram counters whose sum has as much noise as the total has here, or slightly more."""
        return math.ceil((1 + math.log(self.size) / math.pi) ** 2)

    @property
    def dropped_bits(self) -> int:
        """Number of low row bits always far below the noise: less than 2**-10 of D, while sigma is at least D / 16."""
        return max(0, (self.squared_length >> 20).bit_length() - 1) // 2

    def room(self, bits: int) -> int:
        """Compute the weight below which rows fit, for any value, if a record counts 2**bits with the noise grid."""
        return int((MAX_ROW >> bits) / (_ROUNDING * int(self.coefficients[0]) * int(self.gains[-1])))

    def rows(self, counters: np.ndarray, grid_bits: int = 0) -> np.ndarray:
        """Compute W h, exactly: int64 of the shape of the counters, (size,).

        Args:
          counters: h, int64.
          grid_bits: bits by which rows will be shifted for their noise.

        Raises `ArgumentError` if a row may not fit.
        """
        most = max(int(counters.max(initial=0)), -int(counters.min(initial=0)))
        if most * int(self.gains[-1]) >= MAX_ROW:
            raise _too_heavy()
        scaled, spectrum, size = counters * self.gains, _spectrum(self.size), _padded(self.size)
        total, about = np.zeros(self.size, dtype=np.int64), np.zeros(self.size)
        last = max(0, (most * int(self.gains[-1])).bit_length() // _LIMB_BITS)
        for place in range(last + 1):
            shift = np.int64(place * _LIMB_BITS)
            limb = scaled >> shift if place == last else scaled >> shift & np.int64(_LIMB)
            found = np.rint(np.fft.irfft(np.fft.rfft(limb.astype(np.float64), size) * spectrum, size)[: self.size])
            total += found.astype(np.int64) << shift
            about += found * 2.0 ** (place * _LIMB_BITS)
        if np.abs(about).max(initial=0.0) * _ROUNDING >= MAX_ROW >> grid_bits:
            raise _too_heavy()
        return total


@functools.lru_cache(maxsize=16)
def _parts(size: int) -> tuple[np.ndarray, np.ndarray, int]:
    shift = FRACTION_BITS - (_FEW_BITS if size <= _FEW else _MANY_BITS)
    rounded = [(term + (1 << shift - 1)) >> shift for term in coefficients(size)]
    column = np.array(rounded, dtype=np.int64)
    gains, length = gains_of(np.cumsum(np.square(column))[::-1], GAIN_BITS)
    for each in (column, gains):
        each.flags.writeable = False
    return column, gains, length


@functools.lru_cache(maxsize=16)
def _spectrum(size: int) -> np.ndarray:
    return np.fft.rfft(_parts(size)[0].astype(np.float64), _padded(size))


def _padded(size: int) -> int:
    return 1 << (2 * size - 1).bit_length()


def _too_heavy() -> ArgumentError:
    return ArgumentError(
        "layout",
        "must be $tree, because this total weight could overflow the 64-bit rows of a square-root factorization. Or "
        "use larger units for weights",
        "E515",
    )
