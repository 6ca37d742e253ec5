/* Numbers side by side, which a processor multiplies and adds at once. */
#ifndef DECIBAN_LANES_H
#define DECIBAN_LANES_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>

#include "compiler.h"

/* `lanes` are LANES numbers side by side. */
#define LANES 4
typedef double lanes __attribute__((vector_size(32), aligned(8), may_alias));
typedef float lanes_single __attribute__((vector_size(16), aligned(4), may_alias));
#define WIDEN(v) __builtin_convertvector(v, lanes)
#define TOTAL(v) (((v)[0] + (v)[1]) + ((v)[2] + (v)[3]))
#define MULTIPLIED(v) (((v)[0] * (v)[1]) * ((v)[2] * (v)[3]))

#define AT(address) (*(lanes *)(address))
#define FROM(address) (*(const lanes *)(address))
#define FROM_SINGLE(address) WIDEN(*(const lanes_single *)(address))
#define ZERO ((lanes){0.0})

typedef int64_t lanes_whole __attribute__((vector_size(32), aligned(8), may_alias));
typedef uint64_t lanes_bits __attribute__((vector_size(32), aligned(8), may_alias));
#define CHOSEN(mask, a, b) ((lanes)(((lanes_whole)(a) & (mask)) | ((lanes_whole)(b) & ~(mask))))
#define GREATER(a, b) CHOSEN((a) > (b), a, b)

INLINE double greatest(lanes v) {
    const double low = v[0] > v[1] ? v[0] : v[1], high = v[2] > v[3] ? v[2] : v[3];
    return low > high ? low : high;
}

/* exp(x) of x <= 0, to within 1e-14 of itself; below -708 it is that of -708, which is nearly 0.
 * exp(x) = 2^n exp(r), n = round(x / ln 2), |r| <= ln(2)/2, Taylor's series to r^11 (remainder below 7e-15). */
INLINE lanes exp_lanes(lanes x) {
    x = CHOSEN(x < -708.0, ZERO - 708.0, x);
    const lanes shifted = x * 1.4426950408889634 + 6755399441055744.0; /* the integer n sits in the low bits */
    const lanes whole = shifted - 6755399441055744.0;
    const lanes r = (x - whole * 6.93147180369123816490e-01) - whole * 1.90821492927058770002e-10;
    const lanes r2 = r * r, r4 = r2 * r2; /* few steps that wait for each other */
    const lanes low = (1.0 + r) + r2 * (0.5 + r * (1.0 / 6.0));
    const lanes middle = (1.0 / 24.0 + r * (1.0 / 120.0)) + r2 * (1.0 / 720.0 + r * (1.0 / 5040.0));
    const lanes high = (1.0 / 40320.0 + r * (1.0 / 362880.0)) + r2 * (1.0 / 3628800.0 + r * (1.0 / 39916800.0));
    return (low + r4 * (middle + r4 * high)) * (lanes)(((lanes_whole)shifted + 1023) << 52);
}

/* cos(x) to within 1e-14, of |x| below a million.
 * cos(x) = ±cos(r), r = x - n pi, n = round(x / pi), |r| <= pi/2, Taylor's series to r^20; odd n change the sign. */
INLINE lanes cos_lanes(lanes x) {
    const lanes shifted = x * 0.31830988618379067154 + 6755399441055744.0; /* the integer n sits in the low bits */
    const lanes whole = shifted - 6755399441055744.0;
    const lanes r = ((x - whole * 3.1415926218032836914) - whole * 3.1786509424591713469e-08) - whole * 1.2246467864107188502e-16;
    const lanes t = r * r, t2 = t * t, t4 = t2 * t2;
    const lanes low = (1.0 - t * 0.5) + t2 * (1.0 / 24.0 - t * (1.0 / 720.0));
    const lanes high = (1.0 / 40320.0 - t * (1.0 / 3628800.0)) + t2 * (1.0 / 479001600.0 - t * (1.0 / 87178291200.0));
    const lanes highest = (1.0 / 20922789888000.0 - t * (1.0 / 6402373705728000.0)) + t2 * (1.0 / 2432902008176640000.0);
    return (lanes)((lanes_bits)(low + t4 * (high + t4 * highest)) ^ ((lanes_bits)shifted << 63));
}

/* log(x) of normal numbers, to within a few units in the last place; of infinity it is infinity, of 0 minus infinity.
 * x = 2^n m, sqrt(1/2) <= m < sqrt(2), and log m = 2 atanh s, s = (m - 1)/(m + 1): the series to s^21. */
INLINE lanes log_lanes(lanes x) {
    const lanes_bits bits = (lanes_bits)x;
    const lanes_bits power = (bits + (0x0010000000000000u - 0x0006a09e667f3bcdu)) >> 52; /* of sqrt(2), one more */
    const lanes m = (lanes)(bits - ((power - 1023) << 52)), s = (m - 1.0) / (m + 1.0), t = s * s, t2 = t * t, t4 = t2 * t2;
    const lanes low = (1.0 / 3.0 + t * (1.0 / 5.0)) + t2 * (1.0 / 7.0 + t * (1.0 / 9.0));
    const lanes high = (1.0 / 11.0 + t * (1.0 / 13.0)) + t2 * (1.0 / 15.0 + t * (1.0 / 17.0));
    const lanes series = low + t4 * (high + t4 * (1.0 / 19.0 + t * (1.0 / 21.0)));
    const lanes n = (lanes)(power | 0x4330000000000000u) - (0x1p52 + 1023.0);
    const lanes out = n * 6.93147180559945286e-01 + 2.0 * (s + s * t * series);
    const lanes edge = CHOSEN(x > 0.0, x, CHOSEN(x == 0.0, ZERO - INFINITY, ZERO + NAN));
    return CHOSEN((x > 0.0) & (x < INFINITY), out, edge);
}

#endif
