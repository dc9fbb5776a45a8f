/* Stands between a program and the C library (LD_PRELOAD): counts the file operations under one folder, writes them
 * to a log, and kills the process or fails at a chosen one. It also sets the clock wrong. Nothing happens until
 * `fault_arm` or `fault_clock` is called, by ctypes, in the process that shall suffer. See shim.py. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum { NOTHING, KILL, TEAR_AND_KILL, FAIL_ONCE, FAIL_FROM };
enum { OPEN = 1, WRITE, SYNC, RENAME, UNLINK, RMDIR, MKDIR, TRUNCATE, LINK, MARK };

static int armed, action, fail_with, with_contents, log_handle = -1;
static long at, counted;
static char prefix[PATH_MAX];
static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
static __thread int inside; /* the shim's own calls do not count */

#define REAL(type, name, ...)                                    \
    static type (*real)(__VA_ARGS__);                            \
    if (!real) real = (type(*)(__VA_ARGS__))dlsym(RTLD_NEXT, name)

void fault_arm(const char *folder, int what, long number, int error, const char *log, int contents) {
    strncpy(prefix, folder, sizeof prefix - 1);
    action = what, at = number, fail_with = error, counted = 0, with_contents = contents;
    if (log_handle >= 0) syscall(SYS_close, log_handle);
    log_handle = *log ? (int)syscall(SYS_openat, AT_FDCWD, log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600) : -1;
    armed = 1;
}

void fault_disarm(void) { armed = 0; }
long fault_count(void) { return counted; }

static int is_ours(const char *path) {
    size_t length = strlen(prefix);
    return strncmp(path, prefix, length) == 0 && (path[length] == '/' || path[length] == 0);
}

static int path_of_handle(int handle, char *path) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", handle);
    ssize_t length = readlink(link, path, PATH_MAX - 1);
    if (length < 0) return 0;
    path[length] = 0;
    return 1;
}

static void make_absolute(int folder, const char *name, char *path) {
    char base[PATH_MAX] = "";
    if (name[0] == '/') { snprintf(path, PATH_MAX, "%s", name); return; }
    if (folder == AT_FDCWD) { if (!getcwd(base, sizeof base)) base[0] = 0; }
    else path_of_handle(folder, base);
    size_t length = strlen(base);
    if (length + strlen(name) + 2 > PATH_MAX) { path[0] = 0; return; }
    memcpy(path, base, length), path[length] = 47, strcpy(path + length + 1, name);
}

static void put(const void *data, size_t length) {
    while (length) {
        ssize_t done = syscall(SYS_write, log_handle, data, length);
        if (done <= 0) return;
        data = (const char *)data + done, length -= (size_t)done;
    }
}

/* A record: kind, its number among all that were tried (one that failed is counted, too), inode, offset, length of
   path, of second path, of data, length; then path, second path, data. */
static void note(int kind, const char *path, const char *second, int handle, const void *data, size_t length) {
    if (log_handle < 0) return;
    struct stat about;
    int64_t offset = 0, inode = 0;
    if (handle >= 0 && fstat(handle, &about) == 0) {
        inode = (int64_t)about.st_ino;
        if (kind == WRITE) {
            int flags = fcntl(handle, F_GETFL);
            offset = flags & O_APPEND ? about.st_size : lseek(handle, 0, SEEK_CUR);
        }
    }
    int64_t sizes[8] = {kind, counted, inode, offset, (int64_t)strlen(path), second ? (int64_t)strlen(second) : 0,
                        with_contents && data ? (int64_t)length : 0, (int64_t)length};
    put(sizes, sizeof sizes);
    put(path, (size_t)sizes[4]);
    if (second) put(second, (size_t)sizes[5]);
    if (with_contents && data) put(data, length);
}

static void die(void) { syscall(SYS_kill, getpid(), SIGKILL); for (;;) pause(); }

/* Disks that are full can still remove and rename. */
static int fails(int kind) {
    if (fail_with != ENOSPC && fail_with != EDQUOT) return 1;
    return kind != UNLINK && kind != RMDIR && kind != RENAME;
}

/* Called before an operation, with the lock held. Returns 1 if it shall fail, 2 if half of a write shall come first. */
static int meet(int kind, const char *path) {
    counted++;
    if (action == KILL && counted == at) die();
    if (action == TEAR_AND_KILL && counted == at) { if (kind == WRITE) return 2; die(); }
    if ((action == FAIL_ONCE && counted == at) || (action == FAIL_FROM && counted >= at))
        if (fails(kind)) { errno = fail_with; return 1; }
    return 0;
}

#define BEGIN(found) int watched = 0, verdict = 0; char path[PATH_MAX]; char second[PATH_MAX]; path[0] = second[0] = 0; \
    if (armed && !inside) { inside = 1; found; watched = is_ours(path); \
        if (!watched) inside = 0; else pthread_mutex_lock(&turn); } \
    if (watched)
#define END(ok, kind, two, handle, data, length) if (watched) { int kept = errno; if (ok) note(kind, path, two, handle, data, length); \
    pthread_mutex_unlock(&turn); inside = 0; errno = kept; }
#define REFUSE { pthread_mutex_unlock(&turn); inside = 0; return -1; }

void fault_mark(const char *text) {
    if (!armed) return;
    pthread_mutex_lock(&turn);
    note(MARK, text, NULL, -1, NULL, 0);
    pthread_mutex_unlock(&turn);
}

static int changes(int flags) { return flags & (O_CREAT | O_TRUNC); }

static int open_any(int folder, const char *name, int flags, mode_t mode) {
    if (!changes(flags)) return (int)syscall(SYS_openat, folder, name, flags | O_LARGEFILE, mode);
    BEGIN(make_absolute(folder, name, path)) {
        struct stat about;
        int there = lstat(path, &about) == 0;
        if (there && !(flags & O_TRUNC)) { pthread_mutex_unlock(&turn); inside = 0; watched = 0; } /* changes nothing */
        else if ((verdict = meet(OPEN, path)) == 1) REFUSE
    }
    int handle = (int)syscall(SYS_openat, folder, name, flags | O_LARGEFILE, mode);
    END(handle >= 0, OPEN, NULL, handle, NULL, 0)
    return handle;
}

#define MODE mode_t mode = 0; if (flags & (O_CREAT | __O_TMPFILE)) { va_list rest; va_start(rest, flags); mode = va_arg(rest, mode_t); va_end(rest); }
int open(const char *name, int flags, ...) { MODE return open_any(AT_FDCWD, name, flags, mode); }
int open64(const char *name, int flags, ...) { MODE return open_any(AT_FDCWD, name, flags, mode); }
int openat(int folder, const char *name, int flags, ...) { MODE return open_any(folder, name, flags, mode); }
int openat64(int folder, const char *name, int flags, ...) { MODE return open_any(folder, name, flags, mode); }
int creat(const char *name, mode_t mode) { return open_any(AT_FDCWD, name, O_CREAT | O_WRONLY | O_TRUNC, mode); }

FILE *fopen(const char *name, const char *how) {
    REAL(FILE *, "fopen", const char *, const char *);
    if (armed && !inside && strpbrk(how, "wa")) {
        int handle = open_any(AT_FDCWD, name, O_RDWR | O_CREAT | (strchr(how, 'w') ? O_TRUNC : 0), 0666);
        if (handle < 0) return NULL;
        syscall(SYS_close, handle);
    }
    return real(name, how);
}
FILE *fopen64(const char *name, const char *how) { return fopen(name, how); }

#define WRITING(tear, ...)                                                                  \
    BEGIN(path_of_handle(handle, path)) {                                                   \
        if ((verdict = meet(WRITE, path)) == 1) REFUSE                                      \
        if (verdict == 2) { tear; die(); }                                                  \
        note(WRITE, path, NULL, handle, data, length);                                      \
    }                                                                                       \
    ssize_t done = __VA_ARGS__;                                                             \
    END(0, WRITE, NULL, handle, NULL, 0)                                                    \
    return done;

ssize_t write(int handle, const void *data, size_t length) {
    WRITING(syscall(SYS_write, handle, data, length / 2), syscall(SYS_write, handle, data, length))
}
ssize_t pwrite(int handle, const void *data, size_t length, off_t place) {
    WRITING(syscall(SYS_pwrite64, handle, data, length / 2, place), syscall(SYS_pwrite64, handle, data, length, place))
}
ssize_t pwrite64(int handle, const void *data, size_t length, off_t place) { return pwrite(handle, data, length, place); }
ssize_t writev(int handle, const struct iovec *parts, int count) {
    ssize_t total = 0;
    if (!armed || inside) return syscall(SYS_writev, handle, parts, count);
    for (int i = 0; i < count; i++) {
        ssize_t done = parts[i].iov_len ? write(handle, parts[i].iov_base, parts[i].iov_len) : 0;
        if (done < 0) return total ? total : -1;
        total += done;
        if ((size_t)done < parts[i].iov_len) break;
    }
    return total;
}
/* Copies in the kernel: answered as "not here", so that the program writes by itself. */
ssize_t sendfile(int to, int from, off_t *place, size_t length) {
    if (armed) { errno = ENOTSUP; return -1; }
    return syscall(SYS_sendfile, to, from, place, length);
}
ssize_t sendfile64(int to, int from, off_t *place, size_t length) { return sendfile(to, from, place, length); }
ssize_t copy_file_range(int from, off_t *a, int to, off_t *b, size_t length, unsigned flags) {
    if (armed) { errno = EXDEV; return -1; }
    return syscall(SYS_copy_file_range, from, a, to, b, length, flags);
}

static int sync_any(long number, int handle) {
    BEGIN(path_of_handle(handle, path)) { if ((verdict = meet(SYNC, path)) == 1) REFUSE }
    int done = (int)syscall(number, handle);
    END(done == 0, SYNC, NULL, handle, NULL, 0)
    return done;
}
int fsync(int handle) { return sync_any(SYS_fsync, handle); }
int fdatasync(int handle) { return sync_any(SYS_fdatasync, handle); }

static int rename_any(int a, const char *from, int b, const char *to, unsigned flags) {
    BEGIN((make_absolute(a, from, path), make_absolute(b, to, second))) { if ((verdict = meet(RENAME, path)) == 1) REFUSE }
    int done = (int)syscall(SYS_renameat2, a, from, b, to, flags);
    END(done == 0, RENAME, second, -1, NULL, 0)
    return done;
}
int rename(const char *from, const char *to) { return rename_any(AT_FDCWD, from, AT_FDCWD, to, 0); }
int renameat(int a, const char *from, int b, const char *to) { return rename_any(a, from, b, to, 0); }
int renameat2(int a, const char *from, int b, const char *to, unsigned flags) { return rename_any(a, from, b, to, flags); }

static int unlink_any(int folder, const char *name, int flags) {
    int kind = flags & AT_REMOVEDIR ? RMDIR : UNLINK;
    BEGIN(make_absolute(folder, name, path)) { if ((verdict = meet(kind, path)) == 1) REFUSE }
    int done = (int)syscall(SYS_unlinkat, folder, name, flags);
    END(done == 0, kind, NULL, -1, NULL, 0)
    return done;
}
int unlink(const char *name) { return unlink_any(AT_FDCWD, name, 0); }
int remove(const char *name) { return unlink_any(AT_FDCWD, name, 0); }
int rmdir(const char *name) { return unlink_any(AT_FDCWD, name, AT_REMOVEDIR); }
int unlinkat(int folder, const char *name, int flags) { return unlink_any(folder, name, flags); }

int mkdirat(int folder, const char *name, mode_t mode) {
    BEGIN(make_absolute(folder, name, path)) { if ((verdict = meet(MKDIR, path)) == 1) REFUSE }
    int done = (int)syscall(SYS_mkdirat, folder, name, mode);
    END(done == 0, MKDIR, NULL, -1, NULL, 0)
    return done;
}
int mkdir(const char *name, mode_t mode) { return mkdirat(AT_FDCWD, name, mode); }

int ftruncate(int handle, off_t length) {
    BEGIN(path_of_handle(handle, path)) { if ((verdict = meet(TRUNCATE, path)) == 1) REFUSE }
    int done = (int)syscall(SYS_ftruncate, handle, length);
    END(done == 0, TRUNCATE, NULL, handle, NULL, (size_t)length)
    return done;
}
int ftruncate64(int handle, off_t length) { return ftruncate(handle, length); }

int linkat(int a, const char *from, int b, const char *to, int flags) {
    BEGIN((make_absolute(b, to, path), make_absolute(a, from, second))) { if ((verdict = meet(LINK, path)) == 1) REFUSE }
    int done = (int)syscall(SYS_linkat, a, from, b, to, flags);
    END(done == 0, LINK, second, -1, NULL, 0)
    return done;
}
int link(const char *from, const char *to) { return linkat(AT_FDCWD, from, AT_FDCWD, to, 0); }

/* The clock of the wall, not the steady one. */
static int clock_mode; /* 1: `shift` seconds off, after `clock_calls` questions; 2: stuck; 3: a second back each time */
static long clock_shift, clock_calls, clock_asked;
static struct timespec clock_stuck;

void fault_clock(int mode, long shift, long calls) {
    clock_mode = 0, clock_shift = shift, clock_calls = calls, clock_asked = 0;
    syscall(SYS_clock_gettime, CLOCK_REALTIME, &clock_stuck);
    clock_stuck.tv_sec += shift;
    clock_mode = mode;
}

int clock_gettime(clockid_t which, struct timespec *out) {
    int done = (int)syscall(SYS_clock_gettime, which, out);
    if (done || !clock_mode || which != CLOCK_REALTIME) return done;
    long asked = __sync_add_and_fetch(&clock_asked, 1);
    if (clock_mode == 1 && asked > clock_calls) out->tv_sec += clock_shift;
    if (clock_mode == 2) *out = clock_stuck;
    if (clock_mode == 3) out->tv_sec += clock_shift - asked;
    return 0;
}
time_t time(time_t *out) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (out) *out = now.tv_sec;
    return now.tv_sec;
}
int gettimeofday(struct timeval *restrict out, void *restrict zone) {
    struct timespec now;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &now);
    out->tv_sec = now.tv_sec, out->tv_usec = now.tv_nsec / 1000;
    return 0;
}
