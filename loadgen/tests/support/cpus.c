/* A machine that seems to have PRETEND_CPUS CPUs: to be loaded before libc (LD_PRELOAD).
 *
 * Programs are told of CPUs 0 to PRETEND_CPUS - 1. A thread that asks for some of them gets the real ones in their place,
 * in turn, and is told what it asked for from then on. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static __thread cpu_set_t asked_for;
static __thread int has_asked;

static int pretended(void) {
    const char *text = getenv("PRETEND_CPUS");
    int cpus = text ? atoi(text) : 16;
    return cpus < 1 ? 1 : cpus > CPU_SETSIZE ? CPU_SETSIZE : cpus;
}

int sched_getaffinity(pid_t pid, size_t bytes, cpu_set_t *set) {
    (void)pid;
    memset(set, 0, bytes);
    if (has_asked) {
        memcpy(set, &asked_for, bytes < sizeof asked_for ? bytes : sizeof asked_for);
        return 0;
    }
    for (int cpu = 0; cpu < pretended(); cpu++)
        CPU_SET_S(cpu, bytes, set);
    return 0;
}

int sched_setaffinity(pid_t pid, size_t bytes, const cpu_set_t *set) {
    cpu_set_t real, granted;
    int number[CPU_SETSIZE], reals = 0;
    CPU_ZERO(&real);
    CPU_ZERO(&granted);
    if (syscall(SYS_sched_getaffinity, getpid(), sizeof real, &real) < 0)
        return -1;
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &real))
            number[reals++] = cpu;
    for (int cpu = 0; cpu < pretended(); cpu++)
        if (CPU_ISSET_S(cpu, bytes, set))
            CPU_SET(number[cpu % reals], &granted);
    if (syscall(SYS_sched_setaffinity, pid, sizeof granted, &granted) < 0)
        return -1;
    CPU_ZERO(&asked_for);
    memcpy(&asked_for, set, bytes < sizeof asked_for ? bytes : sizeof asked_for);
    has_asked = 1;
    return 0;
}

long sysconf(int name) {
    static long (*next)(int);
    if (name == _SC_NPROCESSORS_ONLN || name == _SC_NPROCESSORS_CONF)
        return pretended();
    if (!next)
        next = (long (*)(int))dlsym(RTLD_NEXT, "sysconf");
    return next(name);
}
