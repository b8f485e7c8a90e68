#include "cesql/cesql_like.h"

#include <stdint.h>

#include "base/check.h"
#include "base/mem.h"
#include "base/utf8.h"

/* In a piece: one character, whichever. It occurs in no UTF-8, and a pattern that has it as a byte is not looked at as one. */
#define ANY ((char)0xff)

struct piece {
    struct str text; /* unescaped, ANY for `_` */
    bool has_any;
};

struct cesql_like {
    size_t n_pieces; /* at least one; a `%` between every two */
    struct piece pieces[];
};

static bool is_escape(struct str pattern, size_t at)
{
    return pattern.p[at] == '\\' && at + 1 < pattern.n && (pattern.p[at + 1] == '%' || pattern.p[at + 1] == '_');
}

static size_t count_pieces(struct str pattern)
{
    size_t n = 1;

    for (size_t i = 0; i < pattern.n; i++) {
        if (is_escape(pattern, i))
            i++;
        else
            n += pattern.p[i] == '%';
    }
    return n;
}

err cesql_like_compile(struct arena *a, struct str pattern, const struct cesql_like **out_like)
{
    size_t n = count_pieces(pattern);
    struct cesql_like *like = arena_alloc(a, MEM_CONFIG, sizeof *like + n * sizeof *like->pieces);
    char *text = arena_alloc(a, MEM_CONFIG, pattern.n);
    struct piece *piece = like->pieces;

    like->n_pieces = n;
    piece->text.p = text;
    for (size_t i = 0; i < pattern.n; i++) {
        if (pattern.p[i] == '%') {
            (++piece)->text.p = text;
            continue;
        }
        piece->has_any = piece->has_any || pattern.p[i] == '_';
        if (is_escape(pattern, i))
            *text++ = pattern.p[++i];
        else
            *text++ = pattern.p[i] == '_' ? ANY : pattern.p[i];
        piece->text.n++;
    }
    for (size_t i = 0; i < n; i++)
        if (like->pieces[i].has_any && like->pieces[i].text.n > CESQL_LIKE_PIECE_MAX)
            return E_LIMIT;
    *out_like = like;
    return E_OK;
}

static size_t character_bytes(struct str text)
{
    uint32_t code_point;
    unsigned n = utf8_read(text, &code_point);

    return n ? n : 1;
}

/* Whether `text` begins with the piece, and in how many bytes. */
static bool begins_with(const struct piece *piece, struct str text, size_t *out_bytes)
{
    size_t at = 0;

    if (!piece->has_any) {
        *out_bytes = piece->text.n;
        return str_starts_with(text, piece->text);
    }
    for (size_t i = 0; i < piece->text.n; i++) {
        if (at == text.n)
            return false;
        if (piece->text.p[i] == ANY)
            at += character_bytes(str_from_offset(text, at));
        else if (piece->text.p[i] == text.p[at])
            at++;
        else
            return false;
    }
    *out_bytes = at;
    return true;
}

/* Whether `text` ends with the piece. Characters are counted from the beginning, so the place is found by their number. */
static bool ends_with(const struct piece *piece, struct str text)
{
    size_t n_characters = 0, n_wanted = 0, bytes;

    if (!piece->has_any)
        return text.n >= piece->text.n && str_equal(str_from_offset(text, text.n - piece->text.n), piece->text);
    for (struct str rest = piece->text; rest.n; rest = str_from_offset(rest, rest.p[0] == ANY ? 1 : character_bytes(rest)))
        n_wanted++;
    for (struct str rest = text; rest.n; rest = str_from_offset(rest, character_bytes(rest)))
        n_characters++;
    for (; n_characters > n_wanted; n_characters--)
        text = str_from_offset(text, character_bytes(text));
    return begins_with(piece, text, &bytes) && bytes == text.n;
}

/* Finds the piece for the first time and leaves what is behind it. */
static bool find(const struct piece *piece, struct str *text)
{
    size_t bytes;

    if (piece->text.n == 0)
        return true;
    if (!piece->has_any) {
        const char *at = text->n ? memmem(text->p, text->n, piece->text.p, piece->text.n) : NULL;

        if (at)
            *text = str_from_offset(*text, (size_t)(at - text->p) + piece->text.n);
        return at != NULL;
    }
    for (;; *text = str_from_offset(*text, character_bytes(*text))) {
        if (begins_with(piece, *text, &bytes)) {
            *text = str_from_offset(*text, bytes);
            return true;
        }
        if (text->n == 0)
            return false;
    }
}

bool cesql_like_matches(const struct cesql_like *like, struct str text)
{
    const struct piece *last = &like->pieces[like->n_pieces - 1];
    size_t bytes;

    if (!begins_with(&like->pieces[0], text, &bytes))
        return false;
    if (like->n_pieces == 1)
        return bytes == text.n;
    text = str_from_offset(text, bytes);
    for (const struct piece *piece = &like->pieces[1]; piece < last; piece++)
        if (!find(piece, &text))
            return false;
    return ends_with(last, text);
}
