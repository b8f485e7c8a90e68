/* A file of LMDB that somebody has written over: examined without a crash. The input is laid over a file of 16 small pages that
 * is whole, at the places it says. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "store/store_pages.h"

enum { PAGE_BYTES = 512, PAGES = 16 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void put16(char *at, unsigned value)
{
    uint16_t n = (uint16_t)value;

    memcpy(at, &n, sizeof n);
}

static void put64(char *at, uint64_t value)
{
    memcpy(at, &value, sizeof value);
}

/* Two heads; the second, newer one has the main database's root on page 3, and a free list on page 2. */
static void make_file(char *file)
{
    for (uint64_t i = 0; i < PAGES; i++) {
        char *page = file + i * PAGE_BYTES;

        put64(page, i);
        put16(page + 10, i < 2 ? 0x08 : 0x02);
        put16(page + 12, 16);
        put16(page + 14, PAGE_BYTES);
    }
    for (uint64_t i = 0; i < 2; i++) {
        char *meta = file + i * PAGE_BYTES + 16;
        const uint32_t magic = 0xBEEFC0DE, version = 1, page_bytes = PAGE_BYTES;

        memcpy(meta, &magic, 4);
        memcpy(meta + 4, &version, 4);
        memcpy(meta + 24, &page_bytes, 4);
        put16(meta + 24 + 6, 1);
        put64(meta + 24 + 40, 2);
        put16(meta + 72 + 6, 1);
        put64(meta + 72 + 40, 3);
        put64(meta + 120, PAGES - 1);
        put64(meta + 128, i);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *file = calloc(PAGES, PAGE_BYTES);
    size_t n = PAGES * PAGE_BYTES;

    make_file(file);
    /* Triples: where (two bytes), what; the last byte left alone cuts the file off. */
    while (size >= 3) {
        file[(data[0] | data[1] << 8) % (PAGES * PAGE_BYTES)] = (char)data[2];
        data += 3;
        size -= 3;
    }
    if (size > 0)
        n = n * data[0] / 256 + 1;
    file = realloc(file, n);
    (void)store_pages_fault((struct str){file, n});
    free(file);
    return 0;
}
