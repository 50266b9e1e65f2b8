/* SPDX-License-Identifier: BSD-3-Clause */
/* Harness of the C tests: include it in the one file of a program.
 *
 *   int main(int argc, char **argv)
 *   {
 *       check_seed(argc, argv);             prints the seed of check_random()
 *       CHECK(f(x) == 0, "f(%d)", x);       counts; prints file, line and message of a failure
 *       return check_done();                "N passed, N failed"; exit code 0, 1, or 77 if all was skipped
 *   } */
#ifndef FZM_CHECK_H
#define FZM_CHECK_H

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One random generator for data, one set of counts. */
static struct {
    uint64_t seed, state;
    unsigned long n_passed, n_failed;
    int skipped;
} check_state;

/* splitmix64 */
static inline uint64_t check_random(void)
{
    uint64_t z = check_state.state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

/* 0 .. n - 1 */
static inline uint64_t check_random_below(uint64_t n) { return n ? check_random() % n : 0; }

/* [0, 1) */
static inline double check_random_unit(void) { return (double)(check_random() >> 11) * 0x1p-53; }

static inline void check_fill_random(void *data, size_t nbytes)
{
    uint8_t *const p = (uint8_t *)data;
    for (size_t i = 0; i < nbytes; i++)
        p[i] = (uint8_t)check_random();
}

/* Restarts the random sequence, so that one case does not depend on those before it. */
static inline void check_reseed(uint64_t salt) { check_state.state = check_state.seed * 31 + salt; }

/* Sets and prints the seed: --seed=N, else FZM_TEST_SEED, else a fixed one. Returns it. */
static inline uint64_t check_seed(int argc, char **argv)
{
    const char *text = getenv("FZM_TEST_SEED");
    for (int i = 1; i < argc; i++)
        if (strncmp(argv[i], "--seed=", 7) == 0)
            text = argv[i] + 7;
    check_state.seed = text ? strtoull(text, NULL, 0) : 20240601;
    check_reseed(0);
    printf("seed %llu\n", (unsigned long long)check_state.seed);
    return check_state.seed;
}

/* Value of an option --name=VALUE, or NULL. */
static inline const char *check_option(int argc, char **argv, const char *name)
{
    const size_t n = strlen(name);
    for (int i = 1; i < argc; i++)
        if (strncmp(argv[i], "--", 2) == 0 && strncmp(argv[i] + 2, name, n) == 0 && argv[i][2 + n] == '=')
            return argv[i] + 3 + n;
    return NULL;
}

#if defined(__GNUC__)
__attribute__((format(printf, 4, 5)))
#endif
static inline int
check_that(int ok, const char *file, int line, const char *format, ...)
{
    if (ok) {
        check_state.n_passed++;
        return 1;
    }
    check_state.n_failed++;
    if (check_state.n_failed <= 50) { /* enough to see the pattern */
        va_list args;
        printf("FAILED %s:%d: ", file, line);
        va_start(args, format);
        vprintf(format, args);
        va_end(args);
        printf("\n");
        fflush(stdout);
    }
    return 0;
}

/* CHECK(condition, format, ...): is 1 if the condition holds. */
#define CHECK(condition, ...) check_that((condition) ? 1 : 0, __FILE__, __LINE__, __VA_ARGS__)

/* Notes that a part did not run; with no check at all the program counts as skipped. */
static inline void check_skip(const char *why)
{
    check_state.skipped = 1;
    printf("skipped: %s\n", why);
}

static inline int check_done(void)
{
    printf("%lu passed, %lu failed\n", check_state.n_passed, check_state.n_failed);
    if (check_state.n_failed)
        return 1;
    return check_state.n_passed == 0 && check_state.skipped ? 77 : 0;
}

#endif
