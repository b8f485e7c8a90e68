#include "base/jsonw.h"

#include "base/utf8.h"

static err put_escape(struct buf *out, enum mem_sub sub, char c)
{
    if (c == '"' || c == '\\')
        return buf_append(out, sub, (struct str){(char[]){'\\', c}, 2});
    return buf_printf(out, sub, "\\u%04x", (unsigned)(unsigned char)c);
}

static bool needs_escape(char c)
{
    return (unsigned char)c < 0x20 || c == '"' || c == '\\' || c == 0x7f;
}

err jsonw_string(struct buf *out, enum mem_sub sub, struct str text)
{
    size_t start = 0, i = 0;
    err e = buf_append(out, sub, STR("\""));

    /* Plain stretches go out in one piece. */
    while (e == E_OK && i < text.n) {
        uint32_t code_point;
        unsigned n = utf8_read(str_from_offset(text, i), &code_point);

        if (n > 0 && !needs_escape(text.p[i])) {
            i += n;
            continue;
        }
        e = buf_append(out, sub, (struct str){text.p + start, i - start});
        if (e == E_OK)
            e = n ? put_escape(out, sub, text.p[i]) : buf_append(out, sub, STR("\xef\xbf\xbd"));
        start = ++i;
    }
    if (e == E_OK)
        e = buf_append(out, sub, (struct str){text.p + start, i - start});
    return e == E_OK ? buf_append(out, sub, STR("\"")) : e;
}
