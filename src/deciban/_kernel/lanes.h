/* Numbers side by side, which a processor multiplies and adds at once. */
#ifndef DECIBAN_LANES_H
#define DECIBAN_LANES_H

#include <stddef.h>

/* A copy of each loop for processors that multiply and add at once. */
#if defined(__x86_64__) && defined(__gnu_linux__) && defined(__GNUC__) && !defined(__clang__)
#define FUSED __attribute__((target_clones("fma", "default")))
#else
#define FUSED
#endif

/* `lanes` are LANES numbers side by side; one where a compiler knows no vectors, and all below is plain C. */
#if defined(__GNUC__)
#define INLINE static inline __attribute__((always_inline))
#define LANES 4
typedef double lanes __attribute__((vector_size(32), aligned(8), may_alias));
typedef float lanes_single __attribute__((vector_size(16), aligned(4), may_alias));
#define WIDEN(v) __builtin_convertvector(v, lanes)
#define TOTAL(v) (((v)[0] + (v)[1]) + ((v)[2] + (v)[3]))
#define MULTIPLIED(v) (((v)[0] * (v)[1]) * ((v)[2] * (v)[3]))
#else
#define INLINE static inline
#define LANES 1
typedef double lanes;
typedef float lanes_single;
#define WIDEN(v) ((double)(v))
#define TOTAL(v) (v)
#define MULTIPLIED(v) (v)
#endif

#define AT(address) (*(lanes *)(address))
#define FROM(address) (*(const lanes *)(address))
#define FROM_SINGLE(address) WIDEN(*(const lanes_single *)(address))
#define ZERO ((lanes){0.0})

#if defined(__GNUC__)
#define FETCH(address) __builtin_prefetch(address)
#else
#define FETCH(address) ((void)0)
#endif

#endif
