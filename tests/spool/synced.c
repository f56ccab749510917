/* Preloaded into a program: after each sync of a file of a spool, keep a copy of the file in $SYNCED.

   The copies are the least that is left after a power failure: everything that was not synced is
   lost, also the deletion of files whose directory was not synced.

   While the file $HOLD_SYNC is there, each sync waits before it begins, and there is a file
   $HOLD_SYNC.waiting. */

#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static const char *const names[] = {"spool.sqlite3", "spool.sqlite3-wal", "spool.sqlite3-journal"};

static void copy(int from, const char *to)
{
    static char buffer[1 << 20];
    char part[5000];
    snprintf(part, sizeof part, "%s.part", to);
    int out = open(part, O_CREAT | O_TRUNC | O_WRONLY, 0644);
    if (out < 0)
        abort();
    off_t at = 0;
    for (ssize_t got; (got = pread(from, buffer, sizeof buffer, at)) > 0; at += got)
        if (write(out, buffer, got) != got)
            abort();
    close(out);
    rename(part, to);
}

static void keep(int synced)
{
    const char *directory = getenv("SYNCED");
    char link[64], path[4000], live[4500], kept[4500];
    snprintf(link, sizeof link, "/proc/self/fd/%d", synced);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (directory == NULL || length <= 0)
        return;
    path[length] = 0;
    struct stat status;
    int is_directory = fstat(synced, &status) == 0 && S_ISDIR(status.st_mode);
    const char *base = strrchr(path, '/') + 1;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(live, sizeof live, "%s/%s", path, names[i]);
        snprintf(kept, sizeof kept, "%s/%s", directory, names[i]);
        if (is_directory && strcmp(base, "spool") == 0 && access(live, F_OK) != 0)
            unlink(kept);
        else if (!is_directory && strcmp(base, names[i]) == 0)
            copy(synced, kept);
    }
}

static void hold(void)
{
    const char *gate = getenv("HOLD_SYNC");
    char waiting[4500];
    if (gate == NULL || access(gate, F_OK) != 0)
        return;
    snprintf(waiting, sizeof waiting, "%s.waiting", gate);
    FILE *file = fopen(waiting, "a");
    if (file == NULL)
        abort();
    fprintf(file, "%d\n", (int)getpid());
    fclose(file);
    while (access(gate, F_OK) == 0)
        usleep(1000);
}

int fdatasync(int file)
{
    hold();
    int failed = syscall(SYS_fdatasync, file);
    if (!failed)
        keep(file);
    return failed;
}

int fsync(int file)
{
    hold();
    int failed = syscall(SYS_fsync, file);
    if (!failed)
        keep(file);
    return failed;
}
