/* What the kernels ask of a compiler, which is gcc or clang (clang-cl on Windows): vectors, inlining and prefetching.
 *
 * The package is compiled for the first processors of an architecture. Loops for which wider vectors pay are compiled a
 * second time, and the copy that fits the processor is chosen when the library is loaded. That takes gcc and an ELF
 * system with ifuncs; other compilers and systems get the plain loops. docs/decisions/0037 has the measurements. */
#ifndef DECIBAN_COMPILER_H
#define DECIBAN_COMPILER_H

#if !defined(__GNUC__) && !defined(__clang__)
#error "compile deciban with gcc or clang (on Windows: CC=clang-cl)"
#endif

#if defined(__x86_64__) && defined(__gnu_linux__) && !defined(__clang__) && !defined(DECIBAN_ONE_COPY)
#define CLONES __attribute__((target_clones("avx2", "default"))) /* wider vectors */
#define FUSED __attribute__((target_clones("fma", "default")))   /* and multiplications that add */
#else
#define CLONES
#define FUSED
#endif
#if defined(__x86_64__) && defined(__gnu_linux__) && !defined(__clang__) && !defined(DECIBAN_ONE_COPY) && __GNUC__ >= 12
#define MODERN __attribute__((target_clones("arch=x86-64-v3", "default"))) /* everything since 2013 */
#else
#define MODERN CLONES
#endif

#define INLINE static inline __attribute__((always_inline))
#define FETCH(address) __builtin_prefetch(address)

#endif
