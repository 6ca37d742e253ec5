/* Numbers side by side, which a processor multiplies and adds at once. */
#ifndef DECIBAN_LANES_H
#define DECIBAN_LANES_H

#include <stddef.h>

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

#endif
