/* SPDX-License-Identifier: MIT */
/*
 * Arguments: half of them such as a program would pass, the others at and beyond the edges of what
 * is allowed. A kind is one character: a letter that scripts/gen-syscalls.py makes of a kind in
 * syscall.tbl, or one of those below that know more about the argument.
 */
#include "sysfuzz.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/msg.h>
#include <sys/ptrace.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>

#define KERNEL_ADDR  0xffff800000000000UL
#define KERNEL_TEXT  0xffffffff80100000UL
#define NONCANONICAL 0x0000800000000000UL
#define USER_END     0x00007ffffffff000UL

static long edge_number(struct worker *w)
{
	const uint64_t rnd = next_random(&w->rnd);

	switch (draw(w, 8)) {
	case 0:
		return ONE_OF(w, INT_MIN, INT_MAX, LONG_MIN, LONG_MAX, UINT_MAX, -1, -2, 1L << 32);
	case 1:
		return (long)rnd;
	case 2:
		return (long)(1UL << (rnd & 63)) + ONE_OF(w, -1, 0, 1);
	case 3:
		return (int)(uint32_t)rnd;
	default:
		return ONE_OF(w, -1, 0, 1, 2, 3, 4, 7, 8, 16, 64, 100, 255, 4095, 4096, 65536);
	}
}

static long small_number(struct worker *w)
{
	return (long)draw(w, 1UL << draw(w, 10));
}

static long flags(struct worker *w)
{
	long f = 0;

	if (chance(w, 30))
		return 0;
	for (int i = 0; i < 3; i++)
		if (chance(w, 60))
			f |= 1L << draw(w, 32);
	return chance(w, 5) ? edge_number(w) : f;
}

static long fd(struct worker *w)
{
	if (chance(w, 88))
		return (long)draw(w, FD_POOL);
	return chance(w, 50) ? ONE_OF(w, AT_FDCWD, -1, -2, 99, 1023, 1 << 20, INT_MAX)
			     : edge_number(w);
}

static long length(struct worker *w)
{
	switch (draw(w, 12)) {
	case 0:
		return edge_number(w);
	case 1:
		return ONE_OF(w, 4095, 4097, 8192, 65536, 1L << 20, 2L << 20, 1L << 30, 1L << 47,
			      -4096, LONG_MAX, -1);
	case 2:
	case 3:
		return ONE_OF(w, 0, 1, 4, 8, 16, 24, 32, 64, 128, 144);
	default:
		return (long)draw(w, 8000);
	}
}

static long pid(struct worker *w)
{
	if (chance(w, 55))
		return chance(w, 30) ? 0 : (long)RAW(chance(w, 50) ? SYS_getpid : SYS_gettid, 0);
	switch (draw(w, 6)) {
	case 0:
		return -(long)RAW(SYS_getpid, 0);
	case 1:
		return w->driver;
	case 2:
		return edge_number(w);
	default:
		return w->self + ONE_OF(w, -3, -2, -1, 0, 1, 2, 3, 4);
	}
}

static long signal_number(struct worker *w)
{
	const long s = (long)draw(w, 65);

	if (chance(w, 4))
		return edge_number(w);
	/* Signals that end or stop a process for good would end each child after a few calls. */
	return (s == SIGKILL || s == SIGSTOP || s == SIGSEGV || s == SIGBUS) && !chance(w, 8) ? 0
											      : s;
}

static char *area_page(struct worker *w)
{
	return w->pools->area[draw(w, NR_AREAS)] + PAGE * draw(w, AREA_PAGES);
}

/* Aligned addresses for the calls that change mappings. */
static long address(struct worker *w)
{
	switch (draw(w, 24)) {
	case 0:
		return ONE_OF(w, 0, 4096, (long)KERNEL_ADDR, (long)NONCANONICAL, (long)USER_END,
			      -4096, (long)KERNEL_TEXT);
	case 1:
		return (long)area_page(w) + ONE_OF(w, 1, 8, 2048, 4095);
	case 2:
		return (long)(next_random(&w->rnd) & 0x7ffffffff000);
	case 3:
		return chance(w, 10) ? ((long)__builtin_frame_address(0) & -(long)PAGE) : 0;
	default:
		return (long)area_page(w);
	}
}

static long page_length(struct worker *w)
{
	if (chance(w, 10))
		return length(w);
	return (long)(PAGE * draw(w, 1UL << draw(w, 8))) + (chance(w, 10) ? 123 : 0);
}

static long bad_pointer(struct worker *w)
{
	switch (draw(w, 8)) {
	case 0:
		return (long)(KERNEL_ADDR + (next_random(&w->rnd) & 0x7fffffffff));
	case 1:
		return ONE_OF(w, (long)KERNEL_TEXT, (long)NONCANONICAL, (long)NONCANONICAL - 8,
			      (long)USER_END - 8, (long)USER_END, -1, -8, -4096, 1, 8, 4095);
	case 2:
		return (long)next_random(&w->rnd);
	case 3:
		return (long)(uintptr_t)&args_pick; /* cannot be written */
	case 4:
		return chance(w, 3) ? (long)__builtin_frame_address(0) : 0;
	default:
		return (long)(area_page(w) + draw(w, PAGE));
	}
}

/* Room in the worker's own memory, which is there whatever calls do to the areas. */
char *args_room(struct worker *w, size_t size)
{
	const size_t all = SCRATCH_PAGES * PAGE;

	size = (size + 15) & ~15UL;
	if (w->used + size > all)
		w->used = 0;
	w->used += (unsigned int)size;
	return w->pools->scratch[w->id] + w->used - size;
}

/*
 * The same bytes at another place: crossing into a page that is read-only or not there, or not
 * aligned.
 */
long args_place(struct worker *w, char *made, size_t size)
{
	char *at;

	if (chance(w, 78))
		return (long)made;
	if (chance(w, 45))
		return bad_pointer(w);
	at = area_page(w);
	if (chance(w, 50) && size < PAGE) {
		at += PAGE - (chance(w, 50) ? draw(w, size + 1) : size);
		memcpy(at, made,
		       PAGE - ((unsigned long)at & (PAGE - 1)) < size
			       ? PAGE - ((unsigned long)at & (PAGE - 1))
			       : size);
	} else {
		at += draw(w, 8);
		memcpy(at, made, size < PAGE - 8 ? size : PAGE - 8);
	}
	return (long)at;
}

static long word(struct worker *w)
{
	switch (draw(w, 8)) {
	case 0:
	case 1:
		return 0;
	case 2:
		return small_number(w);
	case 3:
		return fd(w);
	case 4:
		return (long)(w->pools->scratch[w->id] + draw(w, PAGE));
	case 5:
		return bad_pointer(w);
	case 6:
		return length(w);
	default:
		return edge_number(w);
	}
}

static long words(struct worker *w)
{
	const size_t n = 1 + draw(w, 32);
	long *p = (long *)args_room(w, n * 8);

	for (size_t i = 0; i < n; i++)
		p[i] = word(w);
	return args_place(w, (char *)p, n * 8);
}

/* A time: soon, for something must happen, or nonsense. */
static void put_time(struct worker *w, long *sec, long *nsec)
{
	*sec = chance(w, 92) ? 0 : ONE_OF(w, 1, -1, LONG_MAX, LONG_MIN, 1L << 32, 1000000000);
	*nsec = chance(w, 92) ? (long)draw(w, 20000000)
			      : ONE_OF(w, -1, 999999999, 1000000000, LONG_MAX);
}

static long times(struct worker *w, unsigned int n)
{
	long *t = (long *)args_room(w, n * 16UL);

	for (unsigned int i = 0; i < n; i++)
		put_time(w, &t[2 * i], &t[2 * i + 1]);
	return chance(w, 6) ? 0 : args_place(w, (char *)t, n * 16UL);
}

static long vector(struct worker *w)
{
	const size_t n = 1 + draw(w, 10);
	long *v = (long *)args_room(w, n * 16);

	for (size_t i = 0; i < n; i++) {
		v[2 * i] = chance(w, 70) ? (long)(area_page(w) + draw(w, PAGE)) : bad_pointer(w);
		v[2 * i + 1] = chance(w, 80) ? (long)draw(w, 6000) : length(w);
	}
	return args_place(w, (char *)v, n * 16);
}

static long path(struct worker *w)
{
	static const char *const names[] = {
		"a",
		"b",
		"c",
		"d",
		"d0",
		"d1",
		"d0/a",
		"d1/b",
		"d0/d1",
		".",
		"..",
		"",
		"/",
		"a/",
		"link",
		"link2",
		"d0/..",
		"d0/../a",
		"nothing-there/a",
		"/dev/null",
		"/dev/zero",
		"/dev/tty",
		"/dev/ptmx",
		"/dev/pts/0",
		"/dev/shm/fuzz-a",
		"/dev/shm/fuzz-b",
		"/dev/full",
		"/dev/urandom",
		"/proc/self/status",
		"/proc/self/maps",
		"/proc/self/fd",
		"/proc/self/fd/3",
		"/proc/self/fd/7",
		"/proc/self/exe",
		"/proc/self/cwd",
		"/proc/self/root",
		"/proc/self/task",
		"/proc/self/stat",
		"/proc/self/cmdline",
		"/proc/self/comm",
		"/proc/self/mounts",
		"/proc/thread-self/comm",
		"/proc/1/status",
		"/proc/meminfo",
		"/proc/cpuinfo",
		"/proc/stat",
		"/proc/sys",
		"/proc/sys/kernel/pid_max",
		"/sys/devices/system/cpu/online",
		"/data",
		"/data/text.small",
		"/data/link",
		"/data/loop",
		"/data/to-tmp",
		"/data/none",
		"/tmp/shown/text",
		"/bad/truncated",
		"/exec/script",
		"/exec/script-is-its-own",
		"/exec/nest6",
	};
	size_t len;
	char *p;

	if (chance(w, 4)) {
		len = chance(w, 50) ? 255 + draw(w, 3) : 4094 + draw(w, 4);
		p = args_room(w, len + 1);
		memset(p, len > 300 ? '/' : 'n', len);
		p[len] = 0;
		return (long)p;
	}
	/* Half of them where files can be changed. */
	const char *name = names[chance(w, 50) ? draw(w, 15) : draw(w, LEN(names))];

	len = strlen(name);
	p = args_room(w, len + 1);
	memcpy(p, name, len + 1);
	if (chance(w, 2) && len)
		p[draw(w, len)] = (char)draw(w, 256);
	return args_place(w, p, len + 1);
}

static long strings(struct worker *w)
{
	static char word1[] = "one", word2[] = "A=b";
	const size_t n = draw(w, 5);
	long *v = (long *)args_room(w, (n + 1) * 8);

	for (size_t i = 0; i < n; i++)
		v[i] = chance(w, 95) ? (long)(chance(w, 50) ? word1 : word2) : bad_pointer(w);
	v[n] = 0;
	return chance(w, 85) ? (long)v : args_place(w, (char *)v, (n + 1) * 8);
}

static void on_signal(int signo)
{
	(void)signo;
}

/* struct sigaction of the kernel, struct sigevent, stack_t, siginfo, sigset. */
static long signal_struct(struct worker *w, char kind)
{
	long *p = (long *)args_room(w, 128);

	for (int i = 0; i < 16; i++)
		p[i] = chance(w, 60) ? 0 : word(w);
	switch (kind) {
	case 'g': /* always a way back from the handler */
		p[0] = chance(w, 85) ? (long)on_signal : ONE_OF(w, 0, 1, 1, 64);
		p[1] = (chance(w, 70) ? 0x10000000 : flags(w) & ~0x08000000L) | 0x04000000;
		{
			extern void sysfuzz_restorer(void);
			p[2] = (long)sysfuzz_restorer;
		}
		p[3] = chance(w, 70) ? 0 : (long)next_random(&w->rnd);
		break;
	case 'G':
		p[1] = (signal_number(w) & 0xffffffff) |
		       ONE_OF(w, 0, 1L << 32, 4L << 32, 2L << 32, 7L << 32);
		p[2] = RAW(SYS_gettid, 0);
		break;
	case 'B':
		p[0] = signal_number(w) & 0x7f;
		p[1] = (long)(uint32_t)ONE_OF(w, -1, -2, -6, 0, 1, 128);
		break;
	case 'm':
		p[0] = chance(w, 60) ? 1L << draw(w, 64) : (long)next_random(&w->rnd);
		break;
	default: /* 'a' */
		p[0] = (long)(area_page(w));
		p[1] = chance(w, 85) ? 0 : ONE_OF(w, 1, 2, 4, 1L << 31, -1);
		p[2] = ONE_OF(w, 0, 2048, 4096, 16384, 65536, -1);
		break;
	}
	return args_place(w, (char *)p,
			  kind == 'm'   ? 8
			  : kind == 'g' ? 32
			  : kind == 'a' ? 24
					: 128);
}

static long small_struct(struct worker *w, char kind)
{
	const size_t n = kind == 'j' ? 1 + draw(w, 8) : 1;
	int *p = (int *)args_room(w, 96);

	memset(p, 0, 96);
	switch (kind) {
	case 'j': /* pollfd */
		for (size_t i = 0; i < n; i++) {
			p[2 * i] = (int)fd(w);
			p[2 * i + 1] = (int)draw(w, chance(w, 80) ? 64 : 1UL << 32);
		}
		return args_place(w, (char *)p, n * 8);
	case 'e': /* epoll_event */
		p[0] = (int)(draw(w, 32) |
			     (unsigned int)ONE_OF(w, 0, 0, (int)EPOLLET, EPOLLONESHOT, 1 << 28));
		p[1] = (int)draw(w, 100);
		return args_place(w, (char *)p, 12);
	case 'k': /* flock, or for F_NOTIFY a set of events */
		if (chance(w, 10))
			return (long)draw(w, 64) | (chance(w, 50) ? 0x80000000L : 0);
		p[0] = (int)ONE_OF(w, 0, 1, 2, 1 << 16, 2 << 16, 7, -1);
		((long *)p)[1] = chance(w, 70) ? small_number(w) : edge_number(w);
		((long *)p)[2] = chance(w, 70) ? small_number(w) : edge_number(w);
		p[6] = chance(w, 80) ? 0 : (int)pid(w);
		return args_place(w, (char *)p, 32);
	case 'H': /* open_how */
		((long *)p)[0] = (long)draw(w, 3) | ONE_OF(w, 0, 0, O_CREAT, O_PATH, O_TMPFILE,
							   O_NOFOLLOW, O_DIRECTORY, O_TRUNC);
		((long *)p)[1] = chance(w, 60) ? 0 : (long)draw(w, 01000);
		((long *)p)[2] = chance(w, 85) ? (long)draw(w, 32) : edge_number(w);
		return args_place(w, (char *)p, 24);
	default: /* 'q', an offset */
		*(long *)p = chance(w, 75) ? (long)draw(w, 100000) : edge_number(w);
		return chance(w, 25) ? 0 : args_place(w, (char *)p, 8);
	}
}

/* struct clone_args; the calls that start tasks are made by child.c. */
static long clone_args(struct worker *w)
{
	long *p = (long *)args_room(w, 88);

	memset(p, 0, 88);
	p[0] = args_pick(w, 'Z') & ~0xffL;
	p[1] = (long)w->pools->scratch[w->id];
	p[2] = chance(w, 90) ? p[1] + 8 : bad_pointer(w);
	p[3] = chance(w, 90) ? p[1] + 16 : bad_pointer(w);
	p[4] = chance(w, 90) ? 0 : signal_number(w);
	if (chance(w, 30)) {
		p[5] = (long)area_page(w);
		p[6] = ONE_OF(w, 4096, 16384, 0, -1);
	}
	if (chance(w, 10)) { /* set_tid: numbers from the innermost namespace outwards */
		long *tids = (long *)args_room(w, 16);

		tids[0] = (chance(w, 80) ? ONE_OF(w, 1, 2, 300) : edge_number(w)) |
			  (long)small_number(w) << 32;
		tids[1] = word(w);
		p[8] = args_place(w, (char *)tids, 16);
		p[9] = chance(w, 90) ? ONE_OF(w, 1, 2, 3, 32, 33) : edge_number(w);
	}
	for (int i = 0; i < 11 && chance(w, 10); i++)
		p[draw(w, 11)] = word(w);
	return args_place(w, (char *)p, 88);
}

static long waitv(struct worker *w)
{
	const size_t n = 1 + draw(w, 4);
	long *p = (long *)args_room(w, n * 24);

	for (size_t i = 0; i < n; i++) {
		p[3 * i] = small_number(w) & 1;
		p[3 * i + 1] = args_pick(w, 'W');
		p[3 * i + 2] = chance(w, 85) ? ONE_OF(w, 2, 130) : edge_number(w);
	}
	return args_place(w, (char *)p, n * 24);
}

/* An object of System V IPC that is there, of whatever kind, or what was one. */
static long ipc_id(struct worker *w)
{
	long buf[32];
	const int place = (int)draw(w, 4);

	switch (draw(w, 4)) {
	case 0:
		return syscall(SYS_shmctl, place, SHM_STAT_ANY, buf);
	case 1:
		return syscall(SYS_semctl, place, 0, SEM_STAT_ANY, buf);
	case 2:
		return syscall(SYS_msgctl, place, MSG_STAT_ANY, buf);
	default:
		return chance(w, 80) ? place + 32768 * (long)draw(w, 4) : edge_number(w);
	}
}

static long number_kind(struct worker *w, char kind)
{
	switch (kind) {
	case 'Q':
		return chance(w, 90) ? (long)draw(w, 8) : flags(w);
	case 'M':
		return ONE_OF(w, 1, 2, 3) |
		       ONE_OF(w, 0, MAP_ANONYMOUS, MAP_ANONYMOUS, MAP_ANONYMOUS) |
		       ONE_OF(w, 0, 0, MAP_FIXED, MAP_FIXED_NOREPLACE, MAP_NORESERVE, MAP_POPULATE,
			      MAP_GROWSDOWN, MAP_STACK, MAP_LOCKED, MAP_HUGETLB) |
		       (chance(w, 5) ? flags(w) : 0);
	case 'R':
		return ONE_OF(w, 0, 1, 1, 3, 3, 2, 4, 5, 8);
	case 'V':
		return chance(w, 60) ? ONE_OF(w, MADV_DONTNEED, MADV_FREE, MADV_WILLNEED, 102, 103)
				     : (long)draw(w, 30);
	case 'O':
		return (long)draw(w, 3) |
		       (ONE_OF(w, 0, O_CREAT, O_CREAT | O_EXCL, O_TRUNC, O_APPEND, O_NONBLOCK,
			       O_DIRECTORY, O_PATH, O_CREAT | O_TRUNC, O_TMPFILE, O_NOFOLLOW,
			       O_DIRECT, O_CLOEXEC)) |
		       (chance(w, 5) ? flags(w) : O_NONBLOCK * (long)draw(w, 2));
	case 'K':
		return chance(w, 85)
			       ? (long)draw(w, 12)
			       : (chance(w, 50) ? ~pid(w) << 3 | (long)draw(w, 8) : edge_number(w));
	case '8':
		return chance(w, 92) ? 8 : small_number(w);
	case 'U':
		return chance(w, 80) ? ONE_OF(w, -1, -1, 0, 1000, 1001, 65534) : edge_number(w);
	case 'E':
		return 1 + (long)draw(w, 4);
	case 'N':
		return chance(w, 88) ? (long)draw(w, 9) : edge_number(w);
	case 'D': /* milliseconds */
		return chance(w, 90) ? (long)draw(w, 20) : ONE_OF(w, -1, INT_MIN, INT_MAX);
	case 'C':
		return chance(w, 85)   ? (long)draw(w, 17)
		       : chance(w, 20) ? 1026 /* F_NOTIFY */
		       : chance(w, 70) ? 1024 + (long)draw(w, 20)
				       : edge_number(w);
	case 'I':
		return chance(w, 75) ? 0x5401 + (long)draw(w, 0x60)
				     : ONE_OF(w, 0x80045430, 0x40045431, 0x80045439, 0x5441, 0x541b,
					      0x894c, 0x80086601, 0x8901, 0x8904);
	case 'F':
		return (chance(w, 90) ? (long)draw(w, 14) : edge_number(w)) |
		       ONE_OF(w, 0, 128, 128, 256, 384);
	case 'P':
		return pid(w);
	case 'X': /* a request of ptrace(): those that bring a task under it often */
		return ONE_OF(w, PTRACE_SEIZE, PTRACE_SEIZE, PTRACE_ATTACH, PTRACE_INTERRUPT,
			      PTRACE_CONT, PTRACE_SYSCALL, PTRACE_SINGLESTEP, PTRACE_DETACH,
			      PTRACE_LISTEN, PTRACE_GETREGS, PTRACE_SETREGS, PTRACE_GETREGSET,
			      PTRACE_SETREGSET, PTRACE_PEEKDATA, PTRACE_POKEDATA, PTRACE_PEEKUSER,
			      PTRACE_POKEUSER, PTRACE_SETOPTIONS, PTRACE_GETSIGINFO,
			      PTRACE_SETSIGINFO, PTRACE_PEEKSIGINFO, PTRACE_SETSIGMASK,
			      PTRACE_GET_SYSCALL_INFO, PTRACE_SETFPREGS, PTRACE_TRACEME,
			      PTRACE_KILL, 30 /* ARCH_PRCTL */);
	case 'z': /* and its address: of memory, in struct user, a set of registers, a size */
		return chance(w, 30)   ? address(w)
		       : chance(w, 50) ? 8 * (long)draw(w, 120)
				       : ONE_OF(w, 0, 0, 1, 2, 0x202, 8, 88, 0x1003, -1);
	case 'y': /* a key: few of them, so that two meet */
		return chance(w, 90) ? (long)draw(w, 4) : edge_number(w);
	case 'Y':
		return ipc_id(w);
	case 'T': /* a type of file system */
		return ONE_OF(w, (long)"tmpfs", (long)"tmpfs", (long)"proc", (long)"sysfs",
			      (long)"devpts", (long)"devtmpfs", (long)"ext4", (long)"", 0, 8);
	case '@': /* flags of mount() */
		return ONE_OF(w, 0, MS_BIND, MS_BIND, MS_BIND | MS_REC, MS_REMOUNT | MS_RDONLY,
			      MS_REMOUNT | MS_BIND | MS_RDONLY, MS_RDONLY | MS_NOSUID | MS_NODEV,
			      MS_PRIVATE, MS_MOVE, MS_MOVE, MS_NOEXEC, MS_SLAVE | MS_REC,
			      MS_UNBINDABLE) |
		       (chance(w, 5) ? flags(w) : 0);
	case '-': /* of umount2() */
		return chance(w, 90) ? (long)draw(w, 16) : edge_number(w);
	case '~': /* of unshare() */
		return ONE_OF(w, CLONE_FS, CLONE_FILES, CLONE_NEWNS, CLONE_SYSVSEM,
			      CLONE_FS | CLONE_FILES, 0, CLONE_NEWUTS, CLONE_NEWCGROUP,
			      CLONE_NEWIPC, CLONE_NEWPID, CLONE_NEWNS | CLONE_NEWUTS) |
		       (chance(w, 5) ? flags(w) : 0);
	case 'J':
		return ONE_OF(w, 0, 0600, IPC_CREAT | 0666, IPC_CREAT | 0666, IPC_CREAT | 0600,
			      IPC_CREAT | IPC_EXCL | 0644, IPC_NOWAIT, MSG_NOERROR, MSG_EXCEPT,
			      MSG_COPY | IPC_NOWAIT, SHM_RND) |
		       (chance(w, 5) ? flags(w) : 0);
	case 'h':
		return chance(w, 90) ? ONE_OF(w, 0, 1, 2, 3, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20)
				     : edge_number(w);
	default:
		return edge_number(w);
	}
}

/* Flags of clone: what a thread library asks, what fork does, and mixtures. */
static long clone_flags(struct worker *w)
{
	static const long usual = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD;

	switch (draw(w, 5)) {
	case 0:
		return usual | CLONE_SYSVSEM |
		       ONE_OF(w, 0, CLONE_PARENT_SETTID, CLONE_CHILD_CLEARTID, CLONE_CHILD_SETTID);
	case 1:
		return CLONE_VM | ONE_OF(w, 0, CLONE_VFORK, CLONE_FILES, CLONE_SIGHAND, CLONE_FS) |
		       SIGCHLD;
	case 2:
		return SIGCHLD | ONE_OF(w, 0, CLONE_FILES, CLONE_FS, CLONE_PARENT, CLONE_NEWPID,
					CLONE_CHILD_SETTID, CLONE_PIDFD);
	case 3:
		return (ONE_OF(w, 0, usual) | (flags(w) & ~0xffL)) | signal_number(w);
	default:
		return SIGCHLD;
	}
}

/*
 * A filter of system calls: one call fails, but none that a child needs to go on or to end; or any
 * instructions, which are mostly refused, and in front of a return that allows.
 */
static long filter(struct worker *w)
{
	static const uint16_t codes[] = { 0x00, 0x01, 0x02, 0x03, 0x04, 0x05, 0x15,  0x1d,
					  0x20, 0x34, 0x3c, 0x45, 0x60, 0x61, 0x64,  0x6c,
					  0x80, 0x84, 0x87, 0x07, 0x28, 0x94, 0xffff };
	const unsigned int nr = 4 + (unsigned int)draw(w, 12);
	struct insn {
		uint16_t code;
		uint8_t jt, jf;
		uint32_t k;
	} *f = (struct insn *)args_room(w, nr * sizeof(*f));
	long *prog = (long *)args_room(w, 16);
	const uint32_t call = (uint32_t)draw(w, 470);
	const bool needed = call == SYS_rt_sigreturn || call == SYS_exit ||
			    call == SYS_exit_group || call == SYS_rt_sigaction;

	for (unsigned int i = 0; i < nr; i++)
		f[i] = (struct insn){
			codes[draw(w, LEN(codes))], (uint8_t)draw(w, 5), (uint8_t)draw(w, 5),
			(uint32_t)(chance(w, 80) ? draw(w, 64) : next_random(&w->rnd))
		};
	f[nr - 1] = (struct insn){ 0x06, 0, 0, 0x7fff0000 };
	if (chance(w, 50)) {
		f[0] = (struct insn){ 0x20, 0, 0, 0 };
		f[1] = (struct insn){ 0x15, 0, 1, needed ? 9999 : call };
		f[2] = (struct insn){ 0x06, 0, 0, 0x00050000 | (uint32_t)draw(w, 140) };
		f[3] = (struct insn){ 0x06, 0, 0, 0x7fff0000 };
	}
	prog[0] = chance(w, 95) ? nr : (long)draw(w, 70000);
	prog[1] = chance(w, 95) ? (long)f : bad_pointer(w);
	return args_place(w, (char *)prog, 16);
}

static long pointer_kind(struct worker *w, char kind)
{
	switch (kind) {
	case 't':
		return times(w, 1);
	case 'n':
		return times(w, 2);
	case 'i':
		return vector(w);
	case 'v':
		return strings(w);
	case 'g':
	case 'G':
	case 'B':
	case 'm':
	case 'a':
		return signal_struct(w, kind);
	case 'j':
	case 'e':
	case 'k':
	case 'q':
	case 'H':
		return small_struct(w, kind);
	case 'c':
		return clone_args(w);
	case 'w':
		return waitv(w);
	case '$':
		return filter(w);
	case 'W': /* a futex: few words, so that two meet */
		if (chance(w, 6))
			return bad_pointer(w);
		return (long)(w->pools->area[draw(w, 3)] + 4 * draw(w, 4) + PAGE * draw(w, 2));
	case 'r':
		return chance(w, 50) ? 0 : words(w);
	case 'b': /* a buffer for data */
		return chance(w, 85) ? (long)(area_page(w) + draw(w, PAGE)) : bad_pointer(w);
	default:
		return words(w);
	}
}

/* One argument of kind @kind. */
long args_pick(struct worker *w, char kind)
{
	switch (kind) {
	case 'd':
	case 'u':
		return chance(w, 70) ? small_number(w) : edge_number(w);
	case 'x':
		return flags(w);
	case 'l':
		return length(w);
	case 'f':
		return fd(w);
	case 'o':
		return chance(w, 90) ? (long)draw(w, 010000) : edge_number(w);
	case 's':
		return path(w);
	case 'p':
		return chance(w, 8) ? 0 : pointer_kind(w, kind);
	case 'A':
		return address(w);
	case 'L':
		return page_length(w);
	case 'S':
		return signal_number(w);
	case 'Z':
		return clone_flags(w);
	case '0':
		return 0;
	case '1': /* seccomp(): rarely the strict mode, which leaves little to do */
		return chance(w, 95) ? 1 : (long)draw(w, 5);
	case '2': /* the size of open_how */
		return chance(w, 92) ? 24 : small_number(w);
	default:
		break;
	}
	if (strchr(NET_KINDS, kind))
		return net_pick(w, kind);
	if (strchr("QMRVOK8UENDCIFPyYJhXzT@-~", kind))
		return number_kind(w, kind);
	return pointer_kind(w, kind);
}
