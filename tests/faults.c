/* Faults between a process and its system, by LD_PRELOAD: a slow disk, another clock, and an end at
 * a call that is counted. tests/service_faults.py compiles it.
 *
 * FAULTS_FSYNC_MS=200       each fsync and fdatasync takes so much longer
 * FAULTS_CLOCK=file         a double in the file is added to the time of day, in seconds
 * FAULTS_KILL=fsync:after:7 SIGKILL around the n-th call once armed; write and fsync are of
 *                              files, reply is what is written to a socket
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

static atomic_int armed;
static atomic_long calls;
static char point[16], moment[16];
static long wanted = -1;
static long pause_ms;
static volatile double *offset;

__attribute__((constructor)) static void begin(void)
{
    const char *slow = getenv("FAULTS_FSYNC_MS"), *kill_at = getenv("FAULTS_KILL");
    const char *path = getenv("FAULTS_CLOCK");
    if (slow)
        pause_ms = atol(slow);
    if (kill_at)
        sscanf(kill_at, "%15[^:]:%15[^:]:%ld", point, moment, &wanted);
    if (path) {
        int file = open(path, O_RDONLY);
        void *found = mmap(NULL, sizeof(double), PROT_READ, MAP_SHARED, file, 0);
        if (found != MAP_FAILED)
            offset = found;
        close(file);
    }
}

/* The process is ready: count from here on. */
void faults_arm(void)
{
    armed = 1;
}

static int counted(const char *name, int file)
{
    struct stat about;
    if (!armed || wanted < 0 || strcmp(name, point))
        return 0;
    if (fstat(file, &about))
        return 0;
    if (!strcmp(name, "reply") ? !S_ISSOCK(about.st_mode) : !S_ISREG(about.st_mode))
        return 0;
    return ++calls == wanted;
}

static void end_if(int now, const char *when)
{
    if (now && !strcmp(moment, when))
        kill(getpid(), SIGKILL);
}

#define REAL(result, name, ...) \
    static result (*real)(__VA_ARGS__); \
    if (!real) \
        real = (result (*)(__VA_ARGS__))dlsym(RTLD_NEXT, #name)

#define AROUND(result, kind, file, call) \
    int now = counted(kind, file); \
    end_if(now, "before"); \
    result done = call; \
    end_if(now, "after"); \
    return done

static void wait_for_disk(void)
{
    struct timespec pause = {pause_ms / 1000, pause_ms % 1000 * 1000000};
    if (pause_ms)
        nanosleep(&pause, NULL);
}

int fsync(int file)
{
    REAL(int, fsync, int);
    wait_for_disk();
    AROUND(int, "fsync", file, real(file));
}

int fdatasync(int file)
{
    REAL(int, fdatasync, int);
    wait_for_disk();
    AROUND(int, "fsync", file, real(file));
}

ssize_t pwrite64(int file, const void *data, size_t size, off64_t at)
{
    REAL(ssize_t, pwrite64, int, const void *, size_t, off64_t);
    AROUND(ssize_t, "write", file, real(file, data, size, at));
}

ssize_t pwrite(int file, const void *data, size_t size, off_t at)
{
    REAL(ssize_t, pwrite, int, const void *, size_t, off_t);
    AROUND(ssize_t, "write", file, real(file, data, size, at));
}

ssize_t write(int file, const void *data, size_t size)
{
    REAL(ssize_t, write, int, const void *, size_t);
    AROUND(ssize_t, "reply", file, real(file, data, size));
}

ssize_t writev(int file, const struct iovec *parts, int count)
{
    REAL(ssize_t, writev, int, const struct iovec *, int);
    AROUND(ssize_t, "reply", file, real(file, parts, count));
}

ssize_t send(int file, const void *data, size_t size, int flags)
{
    REAL(ssize_t, send, int, const void *, size_t, int);
    AROUND(ssize_t, "reply", file, real(file, data, size, flags));
}

ssize_t sendmsg(int file, const struct msghdr *message, int flags)
{
    REAL(ssize_t, sendmsg, int, const struct msghdr *, int);
    AROUND(ssize_t, "reply", file, real(file, message, flags));
}

int clock_gettime(clockid_t clock, struct timespec *found)
{
    REAL(int, clock_gettime, clockid_t, struct timespec *);
    int done = real(clock, found);
    if (offset && clock == CLOCK_REALTIME)
        found->tv_sec += (time_t)*offset;
    return done;
}

int gettimeofday(struct timeval *restrict found, void *restrict zone)
{
    REAL(int, gettimeofday, struct timeval *restrict, void *restrict);
    int done = real(found, zone);
    if (offset)
        found->tv_sec += (time_t)*offset;
    return done;
}
