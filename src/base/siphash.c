#include "base/siphash.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

static struct siphash_key process_key;
static pthread_once_t key_once = PTHREAD_ONCE_INIT;

struct state {
    uint64_t v0, v1, v2, v3;
};

static inline uint64_t rotate(uint64_t x, unsigned bits)
{
    return x << bits | x >> (64 - bits);
}

static inline void round_once(struct state *s)
{
    s->v0 += s->v1;
    s->v1 = rotate(s->v1, 13) ^ s->v0;
    s->v0 = rotate(s->v0, 32);
    s->v2 += s->v3;
    s->v3 = rotate(s->v3, 16) ^ s->v2;
    s->v0 += s->v3;
    s->v3 = rotate(s->v3, 21) ^ s->v0;
    s->v2 += s->v1;
    s->v1 = rotate(s->v1, 17) ^ s->v2;
    s->v2 = rotate(s->v2, 32);
}

static inline void mix(struct state *s, uint64_t word)
{
    s->v3 ^= word;
    round_once(s);
    s->v0 ^= word;
}

/* The last word: what is left of the text, and its length in the top byte. */
static uint64_t last_word(struct str s)
{
    uint64_t word = (uint64_t)s.n << 56;
    size_t from = s.n & ~(size_t)7;

    for (size_t i = from; i < s.n; i++)
        word |= (uint64_t)(unsigned char)s.p[i] << (8 * (i - from));
    return word;
}

uint64_t siphash_with(struct siphash_key key, struct str s)
{
    struct state st = {key.k0 ^ 0x736f6d6570736575u, key.k1 ^ 0x646f72616e646f6du, key.k0 ^ 0x6c7967656e657261u,
                       key.k1 ^ 0x7465646279746573u};

    for (size_t i = 0; i + 8 <= s.n; i += 8) {
        uint64_t word;

        memcpy(&word, s.p + i, sizeof word); /* little-endian machines only, as everything built for here */
        mix(&st, word);
    }
    mix(&st, last_word(s));
    st.v2 ^= 0xff;
    round_once(&st);
    round_once(&st);
    round_once(&st);
    return st.v0 ^ st.v1 ^ st.v2 ^ st.v3;
}

static void make_key(void)
{
    if (getrandom(&process_key, sizeof process_key, 0) != (ssize_t)sizeof process_key) {
        perror("getrandom");
        abort();
    }
}

static struct siphash_key key(void)
{
    pthread_once(&key_once, make_key);
    return process_key;
}

uint64_t siphash(struct str s)
{
    return siphash_with(key(), s);
}

uint64_t siphash_pair(struct str a, struct str b)
{
    struct siphash_key k = key();

    /* The first hash becomes part of the second one's key, so where a ends and b begins matters. */
    k.k0 ^= siphash_with(k, a);
    return siphash_with(k, b);
}
