#include "config/nearest.h"

enum { MAX_BYTES = 64 };

static size_t min3(size_t a, size_t b, size_t c)
{
    size_t least = a < b ? a : b;

    return least < c ? least : c;
}

/* Optimal string alignment, of which only the last three rows are kept. */
static size_t distance(struct str a, struct str b)
{
    size_t rows[3][MAX_BYTES + 1];

    for (size_t j = 0; j <= b.n; j++)
        rows[0][j] = j;
    for (size_t i = 1; i <= a.n; i++) {
        size_t *row = rows[i % 3], *above = rows[(i - 1) % 3];

        row[0] = i;
        for (size_t j = 1; j <= b.n; j++) {
            row[j] = min3(above[j] + 1, row[j - 1] + 1, above[j - 1] + (a.p[i - 1] != b.p[j - 1]));
            if (i > 1 && j > 1 && a.p[i - 1] == b.p[j - 2] && a.p[i - 2] == b.p[j - 1]) {
                size_t swapped = rows[(i - 2) % 3][j - 2] + 1;

                if (swapped < row[j])
                    row[j] = swapped;
            }
        }
    }
    return rows[a.n % 3][b.n];
}

/* Whether one is the other cut short, by a word that is long enough to mean something. */
static bool is_part(struct str a, struct str b)
{
    return a.n >= 3 && b.n >= 3 && (str_starts_with(a, b) || str_starts_with(b, a));
}

void nearest_offer(struct nearest *n, struct str candidate)
{
    size_t d;

    if (n->word.n > MAX_BYTES || candidate.n > MAX_BYTES || candidate.n == 0)
        return;
    d = distance(n->word, candidate);
    if (d > 1 && is_part(n->word, candidate))
        d = 1;
    if (n->best.n && d >= n->distance)
        return;
    n->best = candidate;
    n->distance = d;
}

struct str nearest_result(const struct nearest *n)
{
    size_t longer = n->word.n > n->best.n ? n->word.n : n->best.n;

    /* Two changes in five letters are a typing error, three are another word. */
    return n->distance * 5 <= longer * 2 ? n->best : (struct str){0};
}
