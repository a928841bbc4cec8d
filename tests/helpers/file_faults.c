/* Faults of the file system for a process that runs under LD_PRELOAD: at the n-th operation that changes something below
   a directory the process is killed, a signal arrives, one operation fails, or the disk is full from there on.

   What Python, TensorFlow and HDF5 write all passes through here. A write that is killed is half done. Written data that
   was not yet forced onto the disk (fsync) is known by inode, so that a test can take it away as a power cut does. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum { COUNT = 0, KILL = 1, FULL = 2, FAIL = 3, SIGNAL = 4 };
enum { SPACE = 1, NAMES = 2 }; /* what an operation needs: a full disk still renames and deletes */

static char within[4096], unsynced_file[4096];
static long counter, moment;
static int action = COUNT, number; /* of the signal or of the error */
static int armed;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

#define MOST 65536
static struct { ino_t inode; off_t size; } unsynced[MOST];
static int unsynced_count;

#define REAL(name) ((__typeof__(&name))real(#name))
static void *real(const char *name) { return dlsym(RTLD_NEXT, name); }

/* To be called by the process that is to meet the fault; what happens before is not counted. */
void faults_arm(const char *directory, int what, long when, int which, const char *report) {
    snprintf(within, sizeof within, "%s", directory);
    snprintf(unsynced_file, sizeof unsynced_file, "%s", report);
    action = what, moment = when, number = which, counter = 0, unsynced_count = 0, armed = 1;
}

long faults_count(void) { return counter; }

static int is_within(const char *path) {
    size_t length = strlen(within);
    return armed && path && !strncmp(path, within, length) && (path[length] == '/' || !path[length]);
}

static int at_is_within(int directory, const char *path) {
    char link[64], base[8192];
    if (!armed || !path) return 0;
    if (path[0] == '/' || directory == AT_FDCWD) return is_within(path);
    snprintf(link, sizeof link, "/proc/self/fd/%d", directory);
    ssize_t length = readlink(link, base, sizeof base - 1);
    if (length < 0) return 0;
    base[length] = 0;
    return is_within(base);
}

static int fd_is_within(int fd) {
    return fd >= 0 && at_is_within(fd, "");
}

static void mark(int fd, int synced) {
    struct stat found;
    if (fstat(fd, &found)) return;
    pthread_mutex_lock(&lock);
    int i = 0;
    while (i < unsynced_count && unsynced[i].inode != found.st_ino) i++;
    if (synced && i < unsynced_count) unsynced[i] = unsynced[--unsynced_count];
    if (!synced && i == unsynced_count && i < MOST) {
        unsynced[i].inode = found.st_ino, unsynced[i].size = found.st_size;
        unsynced_count++;
    }
    pthread_mutex_unlock(&lock);
}

static void die(void) {
    armed = 0;
    FILE *file = fopen(unsynced_file, "w");
    if (file) {
        for (int i = 0; i < unsynced_count; i++)
            fprintf(file, "%lu %ld\n", (unsigned long)unsynced[i].inode, (long)unsynced[i].size);
        fclose(file);
    }
    kill(getpid(), SIGKILL);
    for (;;) pause();
}

/* Counts one operation; returns the error that it is to end with, 0 for none, -1 if it is to be killed. */
static int meet(int inside, int kind) {
    if (!inside) return 0;
    long now = __sync_add_and_fetch(&counter, 1);
    if (action == COUNT || now < moment) return 0;
    if (action == FULL) return kind == SPACE ? ENOSPC : 0;
    if (now > moment) return 0;
    if (action == KILL) return -1;
    if (action == SIGNAL) kill(getpid(), number);
    return action == FAIL ? number : 0;
}

#define FAULT(inside, kind, failed)                       \
    int fault = meet(inside, kind);                       \
    if (fault < 0) die();                                 \
    if (fault > 0) { errno = fault; return failed; }

#define CHANGES(flags) (((flags) & O_ACCMODE) != O_RDONLY || ((flags) & (O_CREAT | O_TRUNC)))
#define OPEN(name)                                                          \
    int name(const char *path, int flags, ...) {                            \
        va_list rest; va_start(rest, flags);                                \
        mode_t mode = va_arg(rest, mode_t); va_end(rest);                   \
        FAULT(CHANGES(flags) && is_within(path), SPACE, -1)                 \
        return REAL(name)(path, flags, mode);                               \
    }
#define OPENAT(name)                                                        \
    int name(int directory, const char *path, int flags, ...) {             \
        va_list rest; va_start(rest, flags);                                \
        mode_t mode = va_arg(rest, mode_t); va_end(rest);                   \
        FAULT(CHANGES(flags) && at_is_within(directory, path), SPACE, -1)   \
        return REAL(name)(directory, path, flags, mode);                    \
    }
#define FOPEN(name)                                                         \
    FILE *name(const char *path, const char *mode) {                        \
        FAULT(mode[0] != 'r' && is_within(path), SPACE, NULL)               \
        return REAL(name)(path, mode);                                      \
    }
OPEN(open)
OPEN(open64)
OPENAT(openat)
OPENAT(openat64)
FOPEN(fopen)
FOPEN(fopen64)

ssize_t write(int fd, const void *data, size_t size) {
    int inside = fd_is_within(fd), fault = meet(inside, SPACE);
    if (inside) mark(fd, 0);
    if (fault < 0) { REAL(write)(fd, data, size / 2); die(); }
    if (fault > 0) { errno = fault; return -1; }
    return REAL(write)(fd, data, size);
}

ssize_t writev(int fd, const struct iovec *parts, int count) {
    int inside = fd_is_within(fd);
    FAULT(inside, SPACE, -1)
    if (inside) mark(fd, 0);
    return REAL(writev)(fd, parts, count);
}

#define PWRITE(name, offset_type)                                           \
    ssize_t name(int fd, const void *data, size_t size, offset_type at) {   \
        int inside = fd_is_within(fd), fault = meet(inside, SPACE);         \
        if (inside) mark(fd, 0);                                            \
        if (fault < 0) { REAL(name)(fd, data, size / 2, at); die(); }       \
        if (fault > 0) { errno = fault; return -1; }                        \
        return REAL(name)(fd, data, size, at);                              \
    }
PWRITE(pwrite, off_t)
PWRITE(pwrite64, off64_t)

size_t fwrite(const void *data, size_t size, size_t count, FILE *file) {
    int inside = armed && fd_is_within(fileno(file)), fault = meet(inside, SPACE);
    if (inside) mark(fileno(file), 0);
    if (fault < 0) { REAL(fwrite)(data, 1, size * count / 2, file); fflush(file); die(); }
    if (fault > 0) { errno = fault; return 0; }
    return REAL(fwrite)(data, size, count, file);
}

#define TRUNCATE(name, offset_type)                                         \
    int name(int fd, offset_type size) {                                    \
        int inside = fd_is_within(fd);                                      \
        FAULT(inside, SPACE, -1)                                            \
        if (inside) mark(fd, 0);                                            \
        return REAL(name)(fd, size);                                        \
    }
TRUNCATE(ftruncate, off_t)
TRUNCATE(ftruncate64, off64_t)

#define SENDFILE(name, offset_type)                                         \
    ssize_t name(int to, int from, offset_type *at, size_t size) {          \
        int inside = fd_is_within(to);                                      \
        FAULT(inside, SPACE, -1)                                            \
        if (inside) mark(to, 0);                                            \
        return REAL(name)(to, from, at, size);                              \
    }
ssize_t sendfile(int, int, off_t *, size_t);
ssize_t sendfile64(int, int, off64_t *, size_t);
SENDFILE(sendfile, off_t)
SENDFILE(sendfile64, off64_t)

#define SYNC(name)                                                          \
    int name(int fd) {                                                      \
        int inside = fd_is_within(fd);                                      \
        FAULT(inside, SPACE, -1)                                            \
        if (inside) mark(fd, 1);                                            \
        return REAL(name)(fd);                                              \
    }
SYNC(fsync)
SYNC(fdatasync)

int rename(const char *from, const char *to) {
    FAULT(is_within(from) || is_within(to), NAMES, -1)
    return REAL(rename)(from, to);
}

int renameat(int one, const char *from, int two, const char *to) {
    FAULT(at_is_within(one, from) || at_is_within(two, to), NAMES, -1)
    return REAL(renameat)(one, from, two, to);
}

int unlink(const char *path) {
    FAULT(is_within(path), NAMES, -1)
    return REAL(unlink)(path);
}

int unlinkat(int directory, const char *path, int flags) {
    FAULT(at_is_within(directory, path), NAMES, -1)
    return REAL(unlinkat)(directory, path, flags);
}

int rmdir(const char *path) {
    FAULT(is_within(path), NAMES, -1)
    return REAL(rmdir)(path);
}

int mkdir(const char *path, mode_t mode) {
    FAULT(is_within(path), SPACE, -1)
    return REAL(mkdir)(path, mode);
}

int mkdirat(int directory, const char *path, mode_t mode) {
    FAULT(at_is_within(directory, path), SPACE, -1)
    return REAL(mkdirat)(directory, path, mode);
}
