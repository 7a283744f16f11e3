/* SPDX-License-Identifier: MIT */
/*
 * The calls: the table of the processor monitor, what is known about their arguments beyond it,
 * and the few that are not made, each with its reason.
 */
#include "sysfuzz.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>

const struct call calls[] = {
#include "sysfuzz_calls.h"
};
const unsigned int nr_calls = sizeof(calls) / sizeof(calls[0]);
_Static_assert(sizeof(calls) / sizeof(calls[0]) <= MAX_CALLS, "MAX_CALLS is too small");

/*
 * Kinds of args.c, by place; calls without a line are drawn by the letters of the table, with
 * weight 8.
 */
static const struct hint hints[] = {
	{ "read", "fbl", 16 },
	{ "write", "fbl", 16 },
	{ "pread64", "fbll", 8 },
	{ "pwrite64", "fbll", 8 },
	{ "readv", "fiN", 8 },
	{ "writev", "fiN", 8 },
	{ "preadv", "fiNl", 8 },
	{ "pwritev", "fiNl", 8 },
	{ "preadv2", "fiNl0x", 8 },
	{ "pwritev2", "fiNl0x", 8 },
	{ "open", "sOo", 16 },
	{ "openat", "fsOo", 16 },
	{ "openat2", "fsH2", 16 },
	{ "close", "f", 4 },
	{ "close_range", "ffx", 1 },
	{ "poll", "jND", 8 },
	{ "ppoll", "jNtm8", 8 },
	{ "select",
	  "Nppp"
	  "t",
	  8 },
	{ "pselect6",
	  "Npppt"
	  "p",
	  8 },
	{ "mmap", "ALQMfL", 32 },
	{ "mprotect", "ALQ", 24 },
	{ "munmap", "AL", 24 },
	{ "mremap", "ALLRA", 24 },
	{ "msync", "ALN", 12 },
	{ "madvise", "ALV", 24 },
	{ "mseal", "AL0", 2 },
	{ "name_to_handle_at", "fsppx", 8 },
	{ "open_by_handle_at", "fpO", 8 },
	{ "remap_file_pages", "AL0N0", 12 },
	{ "statmount", "ppl0", 4 },
	{ "listmount", "ppN-", 4 },
	{ "lsm_set_self_attr", "NpNN", 2 },
	{ "pkey_mprotect", "ALQN", 4 },
	{ "rt_sigaction", "Sgp8", 12 },
	{ "rt_sigprocmask", "Nmp8", 12 },
	{ "rt_sigpending", "m8", 4 },
	{ "rt_sigtimedwait", "mpt8", 8 },
	{ "rt_sigqueueinfo", "PSB", 8 },
	{ "rt_tgsigqueueinfo", "PPSB", 8 },
	{ "rt_sigsuspend", "m8", 2 },
	{ "rt_sigreturn", "", 1 },
	{ "sigaltstack", "ap", 6 },
	{ "ioctl", "fIp", 24 },
	{ "fcntl", "fCk", 16 },
	{ "flock", "fN", 8 },
	{ "pause", "", 1 },
	{ "nanosleep", "tp", 4 },
	{ "clock_nanosleep", "KNtp", 6 },
	{ "clock_gettime", "Kp", 4 },
	{ "clock_getres", "Kp", 4 },
	{ "alarm", "u", 1 },
	{ "setitimer", "Nnp", 6 },
	{ "getitimer", "Np", 4 },
	{ "timer_create", "KGp", 8 },
	{ "timer_settime", "NNnp", 8 },
	{ "timer_gettime", "Np", 4 },
	{ "timer_getoverrun", "N", 4 },
	{ "timer_delete", "N", 6 },
	{ "timerfd_create", "Kx", 8 },
	{ "timerfd_settime", "fNnp", 8 },
	{ "sendfile", "ffql", 12 },
	{ "copy_file_range", "fqfql0", 12 },
	{ "clone", "Zppp0", 6 },
	{ "clone3", "c8", 6 },
	{ "fork", "", 4 },
	{ "vfork", "", 3 },
	{ "execve", "svv", 3 },
	{ "execveat", "fsvvx", 3 },
	{ "exit", "d", 0 },
	{ "exit_group", "d", 0 },
	{ "wait4", "PpNp", 8 },
	{ "waitid", "NPpNp", 8 },
	{ "kill", "PS", 6 },
	{ "tkill", "PS", 6 },
	{ "tgkill", "PPS", 6 },
	{ "lseek", "flN", 12 },
	{ "getdents64", "fbl", 12 },
	{ "futex", "WFNtWd", 32 },
	{ "futex_waitv", "wN0tK", 8 },
	{ "set_robust_list", "pl", 4 },
	{ "get_robust_list", "Ppp", 4 },
	{ "epoll_ctl", "fEfe", 24 },
	{ "epoll_wait", "fbND", 8 },
	{ "epoll_pwait", "fbNDm8", 8 },
	{ "epoll_pwait2", "fbNtm8", 8 },
	{ "signalfd", "fm8", 6 },
	{ "signalfd4", "fm8x", 6 },
	{ "fallocate", "fNll", 12 },
	{ "cachestat", "fqpN", 8 },
	{ "getrandom", "blN", 6 },
	{ "setpgid", "PP", 6 },
	{ "getpgid", "P", 4 },
	{ "getsid", "P", 4 },
	{ "prlimit64", "PNrp", 8 },
	{ "setrlimit", "Np", 6 },
	{ "getrusage", "dp", 4 },
	{ "setuid", "U", 3 },
	{ "setgid", "U", 3 },
	{ "setreuid", "UU", 3 },
	{ "setregid", "UU", 3 },
	{ "setresuid", "UUU", 3 },
	{ "setresgid", "UUU", 3 },
	{ "setfsuid", "U", 3 },
	{ "setfsgid", "U", 3 },
	{ "chown", "sUU", 6 },
	{ "fchown", "fUU", 6 },
	{ "lchown", "sUU", 6 },
	{ "fchownat", "fsUUx", 6 },
	{ "mknod", "sx0", 8 },
	{ "arch_prctl", "xA", 4 },
	{ "pidfd_open", "Px", 8 },
	{ "pidfd_send_signal", "fSB0", 6 },
	{ "utimensat", "fsnx", 8 },
	{ "symlink", "ss", 8 },
	{ "capset", "pp", 2 },
	{ "sched_setaffinity", "Plp", 8 },
	{ "sched_getaffinity", "Plp", 8 },
	{ "chroot", "s", 1 },
	{ "prctl", "dllll", 12 },
	{ "splice", "fqfqlN", 12 },
	{ "tee", "fflN", 8 },
	{ "vmsplice", "fiNN", 8 },
	{ "getdents", "fbl", 8 },
	{ "sysfs", "Nsp", 2 },
	{ "ustat", "Np", 2 },
	{ "process_vm_readv", "PiNiN0", 8 },
	{ "process_vm_writev", "PiNiN0", 4 },
	{ "sched_setattr", "Pp0", 4 },
	{ "sched_getattr", "Ppl0", 4 },
	{ "pidfd_getfd", "ff0", 8 },
	{ "shmget", "yLJ", 8 },
	{ "shmat", "YAJ", 8 },
	{ "shmdt", "A", 4 },
	{ "shmctl", "Yhp", 8 },
	{ "semget", "yNJ", 8 },
	{ "semop", "YpN", 8 },
	{ "semtimedop", "YpNt", 8 },
	{ "semctl", "YNhp", 8 },
	{ "msgget", "yJ", 8 },
	{ "msgsnd", "YblJ", 8 },
	{ "msgrcv", "YblNJ", 8 },
	{ "msgctl", "Yhp", 8 },
	{ "mq_open", "sOop", 8 },
	{ "mq_unlink", "s", 4 },
	{ "mq_timedsend", "fblNt", 12 },
	{ "mq_timedreceive", "fblpt", 12 },
	{ "mq_notify", "fG", 8 },
	{ "mq_getsetattr", "fpp", 6 },
	{ "io_setup", "Np", 4 },
	{ "io_destroy", "A", 2 },
	{ "io_submit", "ANp", 8 },
	{ "io_getevents", "ANNpt", 8 },
	{ "io_pgetevents", "ANNptp", 4 },
	{ "io_cancel", "App", 2 },
	{ "ioprio_set", "NPx", 4 },
	{ "ioprio_get", "NP", 4 },
	{ "ptrace", "XPzp", 24 },
	{ "seccomp", "1N$", 2 },
	{ "socket", "<>?", 12 },
	{ "socketpair", "<>?p", 8 },
	{ "bind", "/&:", 12 },
	{ "connect", "/&:", 16 },
	{ "listen", "/N", 8 },
	{ "accept", "/b;", 8 },
	{ "accept4", "/b;x", 8 },
	{ "getsockname", "/b;", 6 },
	{ "getpeername", "/b;", 6 },
	{ "sendto", "/*:!&:", 20 },
	{ "recvfrom", "/bl!b;", 16 },
	{ "sendmsg", "/_!", 24 },
	{ "recvmsg", "/_!", 24 },
	{ "sendmmsg", "/=N!", 12 },
	{ "recvmmsg", "/=N!t", 12 },
	{ "setsockopt", "/%#^:", 32 },
	{ "getsockopt", "/%#b;", 16 },
	{ "shutdown", "/N", 6 },
	{ "mount", "ssT@s", 12 },
	{ "umount2", "s-", 8 },
	{ "pivot_root", "ss", 6 },
	{ "unshare", "~", 4 },
	{ "setns", "f~", 8 },
	{ "sethostname", "bN", 4 },
	{ "setdomainname", "bN", 4 },
};

const struct hint *hint_of(const char *name)
{
	for (size_t i = 0; i < sizeof(hints) / sizeof(hints[0]); i++)
		if (!strcmp(hints[i].name, name))
			return &hints[i];
	return NULL;
}

static bool sends_signal(long nr)
{
	return nr == SYS_kill || nr == SYS_tkill || nr == SYS_tgkill || nr == SYS_rt_sigqueueinfo ||
	       nr == SYS_rt_tgsigqueueinfo;
}

/* The process itself, its group, or one of the pids just above its own. */
static bool near(const struct worker *w, int pid)
{
	return pid == 0 || (pid > w->driver && pid < INT32_MAX) || (pid < -w->driver);
}

/* Is @pid a task of another child, or the driver? */
static bool is_foreign(const struct worker *w, int pid)
{
	for (unsigned int c = 0; c < 8; c++)
		for (unsigned int i = 0; i < NR_WORKERS; i++)
			if (c != w->child && pid == w->watch->at[c][i].pid)
				return true;
	return pid <= w->driver;
}

/* Why this call is not made, or NULL. */
const char *calls_refuse(const struct worker *w, long nr, const long a[6])
{
	/*
	 * Without rights the permission checks keep a child from its driver; that is tested by
	 * making these calls.
	 */
	if (w->root && sends_signal(nr) && !near(w, (int)a[0]))
		return "root may signal everybody, its driver too";
	if (w->root && nr == SYS_pidfd_open && (int)a[0] <= w->driver)
		return "the same by descriptor";
	if (w->root && nr == SYS_prlimit64 && (int)a[0] == w->driver)
		return "root may limit its driver";
	if (w->root && nr == SYS_process_vm_writev && (int)a[0] <= w->driver)
		return "root may write over its driver";
	if (w->root && nr == SYS_fcntl && a[1] == F_SETOWN && !near(w, (int)a[2]))
		return "what root's file signals, its driver too";
	if (w->root && ((nr == SYS_fcntl && a[1] == F_SETOWN_EX) ||
			(nr == SYS_ioctl && (a[1] == FIOSETOWN || a[1] == SIOCSPGRP))))
		return "the same, by a number that other threads may change meanwhile";
	if (nr == SYS_ptrace && (a[0] == PTRACE_ATTACH || a[0] == PTRACE_SEIZE) &&
	    is_foreign(w, (int)a[1]))
		return "a child that is stopped by another one makes no calls";
	if (nr == SYS_rt_sigaction && (a[0] == SIGSEGV || a[0] == SIGBUS || a[0] == SIGALRM))
		return "the handlers that keep a child going; the others are free";
	if (nr == SYS_mmap && (a[3] & 0x20) && (a[3] & 0x10) && a[0] > 0 && a[0] < (long)PAGE)
		return "a page at null would hide the faults of a child";
	return NULL;
}
