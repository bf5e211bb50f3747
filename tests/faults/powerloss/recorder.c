/* Records every change to files under one directory, in the order in which they happened.
 *
 * Loaded with LD_PRELOAD. POWERLOSS_ROOT names the directory (absolute, without links), POWERLOSS_LOG
 * the file to append to. Each call is carried out and logged under one lock, across threads and
 * processes, so the log is a total order. Syncs are logged and not carried out: what they promise is
 * judged by the replay (disk.py), and the recording is fast. With POWERLOSS_FAIL_EVERY=n every n-th
 * sync of a file fails with EIO, once the program has made its first mark. As on Linux, everybody
 * else who has the file open then is told of that failure too, by the next sync of their own.
 *
 * A record is: kind (1 byte), inode (8), number (8), lengths of path, second path and data (4 each),
 * then those three. Little-endian, as the machine writes it; disk.py reads it on the same machine.
 */

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int log_fd = -1;
static pid_t log_owner;
static const char *root;
static size_t root_length;
static unsigned long fail_every, syncs, marked;

enum { FILES = 256, DESCRIPTORS = 1024 };
static struct { uint64_t inode; unsigned long count; } failures[FILES];
static unsigned long told[DESCRIPTORS]; /* of how many failures of its file each descriptor knows */

static void die(const char *what) {
    dprintf(2, "powerloss recorder: %s: %s\n", what, strerror(errno));
    _exit(97);
}

/* A forked child needs a log descriptor of its own, or it would share its parent's lock. */
static void lock(void) {
    pthread_mutex_lock(&mutex);
    if (log_owner != getpid()) {
        root = getenv("POWERLOSS_ROOT");
        const char *path = getenv("POWERLOSS_LOG");
        if (!root || !path) die("POWERLOSS_ROOT and POWERLOSS_LOG must be set");
        root_length = strlen(root);
        const char *every = getenv("POWERLOSS_FAIL_EVERY");
        fail_every = every ? strtoul(every, NULL, 10) : 0;
        log_fd = syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
        if (log_fd < 0) die(path);
        log_owner = getpid();
    }
    if (flock(log_fd, LOCK_EX)) die("flock");
}

static void unlock(void) {
    int saved = errno;
    flock(log_fd, LOCK_UN);
    pthread_mutex_unlock(&mutex);
    errno = saved;
}

static unsigned long *failures_of(uint64_t inode) {
    for (int i = 0; i < FILES; i++) {
        if (!failures[i].inode) failures[i].inode = inode;
        if (failures[i].inode == inode) return &failures[i].count;
    }
    errno = 0;
    die("too many files");
    return NULL;
}

/* A new descriptor has no part in failures that were before it. */
static void opened(int fd, uint64_t inode) {
    if (fail_every && fd < DESCRIPTORS) told[fd] = *failures_of(inode);
}

static int inside(const char *path) {
    return strncmp(path, root, root_length) == 0 &&
           (path[root_length] == '/' || path[root_length] == 0);
}

static void put(char kind, uint64_t inode, uint64_t number, const char *path, const char *second,
                const void *data, size_t size) {
    int saved = errno;
    unsigned char head[29];
    uint32_t lengths[3] = {strlen(path), strlen(second), size};
    head[0] = kind;
    memcpy(head + 1, &inode, 8);
    memcpy(head + 9, &number, 8);
    memcpy(head + 17, lengths, 12);
    struct iovec parts[4] = {{head, sizeof head},
                             {(void *)path, lengths[0]},
                             {(void *)second, lengths[1]},
                             {(void *)data, size}};
    ssize_t wanted = sizeof head + lengths[0] + lengths[1] + size;
    if (syscall(SYS_writev, log_fd, parts, 4) != wanted) die("the log is not writable");
    errno = saved;
}

/* Where a descriptor points, by the kernel's own word: right after dup, fork and rename too. */
static int descriptor_inside(int fd, struct stat *info) {
    char link[64], path[PATH_MAX];
    int saved = errno;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    int found = 0;
    if (length > 0) {
        path[length] = 0;
        found = path[0] == '/' && inside(path) && fstat(fd, info) == 0;
    }
    errno = saved;
    return found;
}

static void absolute(int directory, const char *path, char *into) {
    char base[PATH_MAX] = "";
    if (path[0] != '/') {
        if (directory == AT_FDCWD) {
            if (!getcwd(base, sizeof base - 1)) die("getcwd");
        } else {
            char link[64];
            snprintf(link, sizeof link, "/proc/self/fd/%d", directory);
            ssize_t length = readlink(link, base, sizeof base - 1);
            if (length < 0) die("readlink");
            base[length] = 0;
        }
        strcat(base, "/");
    }
    if (snprintf(into, PATH_MAX, "%s%s", base, path) >= PATH_MAX) die("path too long");
}

static int open_recorded(int directory, const char *path, int flags, mode_t mode) {
    if ((flags & O_ACCMODE) == O_RDONLY && !(flags & O_CREAT))
        return syscall(SYS_openat, directory, path, flags, mode);
    char full[PATH_MAX];
    struct stat info;
    lock();
    absolute(directory, path, full);
    int watched = inside(full);
    int existed = watched && fstatat(directory, path, &info, 0) == 0;
    int fd = syscall(SYS_openat, directory, path, flags, mode);
    if (fd >= 0 && watched && fstat(fd, &info) == 0 && S_ISREG(info.st_mode)) {
        if ((flags & O_TMPFILE) == O_TMPFILE) die("O_TMPFILE is not modelled");
        if (!existed) put('C', info.st_ino, 0, full, "", "", 0);
        else if (flags & O_TRUNC) put('T', info.st_ino, 0, "", "", "", 0);
        opened(fd, info.st_ino);
    }
    unlock();
    return fd;
}

#define OPENS(directory)                                                 \
    mode_t mode = 0;                                                     \
    if (flags & (O_CREAT | __O_TMPFILE)) {                               \
        va_list rest;                                                    \
        va_start(rest, flags);                                           \
        mode = va_arg(rest, mode_t);                                     \
        va_end(rest);                                                    \
    }                                                                    \
    return open_recorded(directory, path, flags, mode);

int open(const char *path, int flags, ...) { OPENS(AT_FDCWD) }
int open64(const char *path, int flags, ...) { OPENS(AT_FDCWD) }
int openat(int directory, const char *path, int flags, ...) { OPENS(directory) }
int openat64(int directory, const char *path, int flags, ...) { OPENS(directory) }
int __open_2(const char *path, int flags) { return open_recorded(AT_FDCWD, path, flags, 0); }
int __open64_2(const char *path, int flags) { return open_recorded(AT_FDCWD, path, flags, 0); }
int creat(const char *path, mode_t mode) {
    return open_recorded(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode);
}

ssize_t pwrite(int fd, const void *data, size_t size, off_t offset) {
    struct stat info;
    lock();
    ssize_t written = syscall(SYS_pwrite64, fd, data, size, offset);
    if (written > 0 && descriptor_inside(fd, &info))
        put('W', info.st_ino, offset, "", "", data, written);
    unlock();
    return written;
}
ssize_t pwrite64(int fd, const void *data, size_t size, off_t offset) {
    return pwrite(fd, data, size, offset);
}

ssize_t write(int fd, const void *data, size_t size) {
    struct stat info;
    lock();
    ssize_t written = syscall(SYS_write, fd, data, size);
    if (written > 0 && descriptor_inside(fd, &info) && S_ISREG(info.st_mode))
        put('W', info.st_ino, lseek(fd, 0, SEEK_CUR) - written, "", "", data, written);
    unlock();
    return written;
}

ssize_t writev(int fd, const struct iovec *parts, int count) {
    ssize_t total = 0;
    for (int i = 0; i < count; i++) {
        ssize_t written = write(fd, parts[i].iov_base, parts[i].iov_len);
        if (written < 0) return total ? total : -1;
        total += written;
        if ((size_t)written < parts[i].iov_len) break;
    }
    return total;
}

int ftruncate(int fd, off_t length) {
    struct stat info;
    lock();
    int result = syscall(SYS_ftruncate, fd, length);
    if (result == 0 && descriptor_inside(fd, &info)) put('T', info.st_ino, length, "", "", "", 0);
    unlock();
    return result;
}
int ftruncate64(int fd, off_t length) { return ftruncate(fd, length); }

static void refuse(int fd, const char *what) {
    struct stat info;
    lock();
    if (descriptor_inside(fd, &info)) {
        errno = 0;
        die(what);
    }
    unlock();
}
/* Ways to change a file that the log cannot express end the recording instead of falsifying it. */
int fallocate(int fd, int mode, off_t offset, off_t length) {
    refuse(fd, "fallocate is not modelled");
    return syscall(SYS_fallocate, fd, mode, offset, length);
}
int fallocate64(int fd, int mode, off_t offset, off_t length) {
    return fallocate(fd, mode, offset, length);
}
int posix_fallocate(int fd, off_t offset, off_t length) {
    return fallocate(fd, 0, offset, length) == 0 ? 0 : errno;
}
int posix_fallocate64(int fd, off_t offset, off_t length) {
    return posix_fallocate(fd, offset, length);
}
ssize_t copy_file_range(int in, off_t *at, int out, off_t *to, size_t size, unsigned flags) {
    refuse(out, "copy_file_range is not modelled");
    return syscall(SYS_copy_file_range, in, at, out, to, size, flags);
}
ssize_t sendfile(int out, int in, off_t *offset, size_t size) {
    refuse(out, "sendfile is not modelled");
    return syscall(SYS_sendfile, out, in, offset, size);
}
ssize_t sendfile64(int out, int in, off_t *offset, size_t size) {
    return sendfile(out, in, offset, size);
}

static void refuse_path(int directory, const char *path, const char *what) {
    char full[PATH_MAX];
    lock();
    absolute(directory, path, full);
    if (inside(full)) {
        errno = 0;
        die(what);
    }
    unlock();
}
int truncate(const char *path, off_t length) {
    refuse_path(AT_FDCWD, path, "truncate by path is not modelled");
    return syscall(SYS_truncate, path, length);
}
int truncate64(const char *path, off_t length) { return truncate(path, length); }
int symlinkat(const char *target, int directory, const char *path) {
    refuse_path(directory, path, "symlink is not modelled");
    return syscall(SYS_symlinkat, target, directory, path);
}
int symlink(const char *target, const char *path) { return symlinkat(target, AT_FDCWD, path); }

static int sync_recorded(int fd) {
    struct stat info;
    int result = 0;
    lock();
    if (!descriptor_inside(fd, &info)) result = syscall(SYS_fsync, fd);
    else if (!fail_every || !S_ISREG(info.st_mode)) put('S', info.st_ino, 0, "", "", "", 0);
    else {
        unsigned long *count = failures_of(info.st_ino);
        int fails = marked && ++syncs % fail_every == 0;
        put(fails ? 'F' : 'S', info.st_ino, 0, "", "", "", 0);
        *count += fails;
        if (fails || (fd < DESCRIPTORS && told[fd] < *count)) {
            if (fd < DESCRIPTORS) told[fd] = *count;
            errno = EIO;
            result = -1;
        }
    }
    unlock();
    return result;
}
int fsync(int fd) { return sync_recorded(fd); }
int fdatasync(int fd) { return sync_recorded(fd); }

static int moved(char kind, int from, const char *path, int to, const char *second, long result) {
    char full[PATH_MAX], other[PATH_MAX] = "";
    struct stat info = {0};
    if (result == 0) {
        absolute(from, path, full);
        if (second) absolute(to, second, other);
        fstatat(AT_FDCWD, second ? other : full, &info, AT_SYMLINK_NOFOLLOW);
        if (inside(full) || (second && inside(other))) put(kind, info.st_ino, 0, full, other, "", 0);
    }
    unlock();
    return result;
}

int renameat2(int from, const char *path, int to, const char *second, unsigned flags) {
    if (flags) {
        errno = EINVAL;
        return -1;
    }
    lock();
    return moved('R', from, path, to, second, syscall(SYS_renameat2, from, path, to, second, 0));
}
int renameat(int from, const char *path, int to, const char *second) {
    return renameat2(from, path, to, second, 0);
}
int rename(const char *path, const char *second) {
    return renameat2(AT_FDCWD, path, AT_FDCWD, second, 0);
}
int linkat(int from, const char *path, int to, const char *second, int flags) {
    lock();
    return moved('L', from, path, to, second, syscall(SYS_linkat, from, path, to, second, flags));
}
int link(const char *path, const char *second) {
    return linkat(AT_FDCWD, path, AT_FDCWD, second, 0);
}
int unlinkat(int directory, const char *path, int flags) {
    lock();
    return moved('U', directory, path, 0, NULL, syscall(SYS_unlinkat, directory, path, flags));
}
int unlink(const char *path) { return unlinkat(AT_FDCWD, path, 0); }
int rmdir(const char *path) { return unlinkat(AT_FDCWD, path, AT_REMOVEDIR); }
int mkdirat(int directory, const char *path, mode_t mode) {
    lock();
    return moved('D', directory, path, 0, NULL, syscall(SYS_mkdirat, directory, path, mode));
}
int mkdir(const char *path, mode_t mode) { return mkdirat(AT_FDCWD, path, mode); }

/* Called by the program under test: from here on it has promised what `text` says. */
void powerloss_mark(const char *text) {
    lock();
    marked = 1;
    put('M', 0, 0, "", "", text, strlen(text));
    unlock();
}
