/* replay_main: runs a fuzz target once for every file of the given corpus folders, and once for the empty input. The order
 * is by name, so that a failing run can be repeated. Exits 0 when no input crashed the target. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int is_visible(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

/* The block is exactly as large as the file, so that a sanitizer sees a read past its end. */
static int run_file(const char *path)
{
    struct stat st;
    FILE *file = fopen(path, "rb");
    uint8_t *data = NULL;
    int rc = -1;

    if (!file || fstat(fileno(file), &st) != 0)
        goto done;
    data = malloc(st.st_size > 0 ? (size_t)st.st_size : 1);
    if (!data || fread(data, 1, (size_t)st.st_size, file) != (size_t)st.st_size)
        goto done;
    rc = LLVMFuzzerTestOneInput(data, (size_t)st.st_size);
done:
    if (rc < 0)
        perror(path);
    free(data);
    if (file)
        fclose(file);
    return rc;
}

static int run_folder(const char *folder)
{
    struct dirent **entries = NULL;
    int count = scandir(folder, &entries, is_visible, alphasort);
    int failed = count < 0;

    if (count < 0)
        perror(folder);
    for (int i = 0; i < count; i++) {
        char path[4096];

        snprintf(path, sizeof(path), "%s/%s", folder, entries[i]->d_name);
        if (run_file(path) != 0)
            failed = 1;
        free(entries[i]);
    }
    free(entries);
    if (count >= 0)
        printf("%s: %d inputs\n", folder, count);
    return failed;
}

int main(int argc, char **argv)
{
    int failed = LLVMFuzzerTestOneInput((const uint8_t *)"", 0) != 0;

    for (int i = 1; i < argc; i++)
        failed |= run_folder(argv[i]);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
