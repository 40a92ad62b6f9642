/* fuzz/main: runs a fuzz target over files, for builds without libFuzzer. Arguments: files and folders of files. Fails
   when one cannot be read; a broken invariant aborts. */
#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "fuzz.h"

#define SEED_MAX 1048576

static int runs;

static int run_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    if (!f) {
        perror(path);
        return 1;
    }
    uint8_t *bytes = xmalloc(SEED_MAX);
    size_t n = fread(bytes, 1, SEED_MAX, f);
    fclose(f);
    uint8_t *exact = xmalloc(n ? n : 1);
    if (n) memcpy(exact, bytes, n);
    free(bytes);
    fprintf(stderr, "%s\n", path);
    LLVMFuzzerTestOneInput(exact, n);
    free(exact);
    runs++;
    return 0;
}

static int run_folder(const char *path)
{
    struct dirent **entries;
    int n = scandir(path, &entries, NULL, alphasort), status = n < 0;
    if (n < 0) perror(path);
    for (int i = 0; i < n; i++) {
        char name[4096];
        snprintf(name, sizeof name, "%s/%s", path, entries[i]->d_name);
        if (entries[i]->d_name[0] != '.') status |= run_file(name);
        free(entries[i]);
    }
    if (n >= 0) free(entries);
    return status;
}

int main(int argc, char **argv)
{
    int status = 0;
    LLVMFuzzerTestOneInput((const uint8_t *)"", 0);
    for (int i = 1; i < argc; i++) {
        struct stat st;
        bool folder = stat(argv[i], &st) == 0 && S_ISDIR(st.st_mode);
        status |= folder ? run_folder(argv[i]) : run_file(argv[i]);
    }
    fprintf(stderr, "%d seeds\n", runs);
    return status || !runs;
}
