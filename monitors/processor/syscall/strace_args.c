/* SPDX-License-Identifier: MIT */
/*
 * System call tracing: arguments as text.
 *
 * Each argument has a kind in syscall.tbl, and each kind has a function here. strace prints what a
 * call reads before the call runs, because exec replaces the memory that its arguments are in; it
 * prints what a call writes after the call, if that succeeded. User memory is copied with the usual
 * checks; what cannot be read is printed as a pointer.
 */
#include "strace_private.h"

#include <abi/fcntl.h>
#include <abi/futex.h>
#include <abi/ioctl.h>
#include <abi/poll.h>
#include <abi/prctl.h>
#include <abi/resource.h>
#include <abi/sched.h>
#include <abi/signal.h>
#include <abi/stat.h>
#include <abi/sysinfo.h>
#include <abi/time.h>
#include <arch/uaccess.h>
#include <kernel/panic.h>
#include <lib/errno.h>
#include <lib/fmt.h>
#include <lib/string.h>

#define BYTES_MAX  48 /* of a string or a buffer */
#define ARRAY_MAX  8  /* entries of an array */
#define ENTRY_MAX  64 /* bytes of a line that a further entry of an array needs */
#define NR_SIGNALS 64

struct arg {
	struct strace_text *t;
	const uint64_t *a; /* all arguments of the call */
	unsigned int i;    /* this one */
	uint64_t val;
	const struct strace_name *names; /* of its kind */
	long ret;                        /* what the call answered; arguments that it writes only */
};

void strace_put(struct strace_text *t, const char *fmt, ...)
{
	va_list ap;

	ASSERT(t->len < t->size);
	va_start(ap, fmt);
	t->len += vscnprintf(t->buf + t->len, t->size - t->len, fmt, ap);
	va_end(ap);
}

void strace_put_value(struct strace_text *t, uint64_t val, const struct strace_name *names)
{
	for (; names->name; names++) {
		if (names->value == val) {
			strace_put(t, "%s", names->name);
			return;
		}
	}
	strace_put(t, "%#llx", (unsigned long long)val);
}

void strace_put_flags(struct strace_text *t, uint64_t val, const struct strace_name *names,
		      const char *zero)
{
	const char *sep = "";

	for (; names->name; names++) {
		if ((val & names->value) != names->value)
			continue;
		strace_put(t, "%s%s", sep, names->name);
		val &= ~names->value;
		sep = "|";
	}
	if (val)
		strace_put(t, "%s%#llx", sep, (unsigned long long)val);
	else if (!*sep)
		strace_put(t, "%s", zero ? zero : "0");
}

void strace_put_signal(struct strace_text *t, int signo)
{
	static const char names[][7] = {
		"0",      "HUP",  "INT",    "QUIT", "ILL",   "TRAP", "ABRT", "BUS",
		"FPE",    "KILL", "USR1",   "SEGV", "USR2",  "PIPE", "ALRM", "TERM",
		"STKFLT", "CHLD", "CONT",   "STOP", "TSTP",  "TTIN", "TTOU", "URG",
		"XCPU",   "XFSZ", "VTALRM", "PROF", "WINCH", "IO",   "PWR",  "SYS",
	};

	if (signo > 0 && signo < 32)
		strace_put(t, "SIG%s", names[signo]);
	else if (signo >= 32 && signo <= NR_SIGNALS)
		strace_put(t, "SIGRT_%d", signo - 32);
	else
		strace_put(t, "%d", signo);
}

/* --- bytes and pointers -------------------------------------------------------------------- */

static void put_pointer(const struct arg *a)
{
	if (a->val)
		strace_put(a->t, "%#llx", (unsigned long long)a->val);
	else
		strace_put(a->t, "NULL");
}

/* The value behind a pointer into @v; tells the pointer, and answers false, where there is none. */
static bool fetch(const struct arg *a, void *v, size_t len)
{
	if (a->val && !copy_from_user(v, (const void __user *)a->val, len))
		return true;
	put_pointer(a);
	return false;
}

/* In the manner of C: a traced program must not be able to write lines of the log. */
static void put_chars(struct strace_text *t, const uint8_t *s, size_t len, bool more)
{
	strace_put(t, "\"");
	for (size_t i = 0; i < len; i++) {
		if (s[i] == '\n')
			strace_put(t, "\\n");
		else if (s[i] == '\t')
			strace_put(t, "\\t");
		else if (s[i] == '"' || s[i] == '\\')
			strace_put(t, "\\%c", s[i]);
		else if (s[i] >= ' ' && s[i] < 0x7f)
			strace_put(t, "%c", s[i]);
		else
			strace_put(t, "\\x%02x", s[i]);
	}
	strace_put(t, more ? "\"..." : "\"");
}

static void put_bytes(const struct arg *a, uint64_t addr, uint64_t len)
{
	uint8_t bytes[BYTES_MAX];
	const size_t n = (size_t)MIN(len, (uint64_t)sizeof(bytes));

	if (!addr || (n && copy_from_user(bytes, (const void __user *)addr, n)))
		strace_put(a->t, addr ? "%#llx" : "NULL", (unsigned long long)addr);
	else
		put_chars(a->t, bytes, n, n < len);
}

static void put_string(const struct arg *a, uint64_t addr)
{
	char str[BYTES_MAX + 1];
	const ssize_t len = strncpy_from_user(str, (const char __user *)addr, sizeof(str));

	if (len == -EFAULT)
		strace_put(a->t, addr ? "%#llx" : "NULL", (unsigned long long)addr);
	else
		put_chars(a->t, (const uint8_t *)str, len < 0 ? BYTES_MAX : (size_t)len, len < 0);
}

static void arg_string(const struct arg *a)
{
	put_string(a, a->val);
}

static void arg_bytes(const struct arg *a)
{
	put_bytes(a, a->val, a->a[a->i + 1]);
}

static void arg_bytes_out(const struct arg *a)
{
	put_bytes(a, a->val, (uint64_t)a->ret);
}

static void arg_string_out(const struct arg *a)
{
	put_string(a, a->val);
}

/* Is there room for another entry, and are there not too many? Ends the array if not. */
static bool array_goes_on(const struct arg *a, uint64_t i)
{
	if (i)
		strace_put(a->t, ", ");
	if (i < ARRAY_MAX && a->t->size - a->t->len > ENTRY_MAX)
		return true;
	strace_put(a->t, "...");
	return false;
}

static void arg_strings(const struct arg *a)
{
	uint64_t ptr = 0;

	if (!fetch(a, &ptr, sizeof(ptr)))
		return;
	strace_put(a->t, "[");
	for (uint64_t i = 0; ptr && array_goes_on(a, i); i++) {
		put_string(a, ptr);
		if (get_user_u64(&ptr, (const void __user *)(a->val + 8 * (i + 1))))
			break;
		if (!ptr)
			break;
	}
	strace_put(a->t, "]");
}

/* The environment: how many there are. */
static void arg_count(const struct arg *a)
{
	uint64_t ptr = 0, n = 0;

	put_pointer(a);
	if (!a->val)
		return;
	while (n < 1000 && !get_user_u64(&ptr, (const void __user *)(a->val + 8 * n)) && ptr)
		n++;
	strace_put(a->t, " /* %llu vars */", (unsigned long long)n);
}

static void put_iovecs(const struct arg *a, uint64_t total)
{
	const uint64_t nr = a->a[a->i + 1];
	uint64_t v[2];

	if (!fetch(a, v, sizeof(v)))
		return;
	strace_put(a->t, "[");
	for (uint64_t i = 0; i < nr && array_goes_on(a, i); i++) {
		if (copy_from_user(v, (const void __user *)(a->val + i * sizeof(v)), sizeof(v)))
			break;
		strace_put(a->t, "{");
		put_bytes(a, v[0], MIN(v[1], total));
		strace_put(a->t, ", %llu}", (unsigned long long)v[1]);
		total -= MIN(v[1], total);
	}
	strace_put(a->t, "]");
}

static void arg_iovecs(const struct arg *a)
{
	put_iovecs(a, UINT64_MAX);
}

static void arg_iovecs_out(const struct arg *a)
{
	put_iovecs(a, (uint64_t)a->ret);
}

/* --- numbers ------------------------------------------------------------------------------- */

static void arg_int(const struct arg *a)
{
	strace_put(a->t, "%d", (int)a->val);
}

static void arg_unsigned(const struct arg *a)
{
	strace_put(a->t, "%u", (unsigned int)a->val);
}

static void arg_long(const struct arg *a)
{
	strace_put(a->t, "%lld", (long long)a->val);
}

static void arg_hex(const struct arg *a)
{
	strace_put(a->t, a->val ? "%#llx" : "0", (unsigned long long)a->val);
}

static void arg_octal(const struct arg *a)
{
	strace_put(a->t, (unsigned int)a->val ? "0%o" : "0", (unsigned int)a->val);
}

static void arg_fd(const struct arg *a)
{
	if ((int)a->val == AT_FDCWD)
		strace_put(a->t, "AT_FDCWD");
	else
		arg_int(a);
}

static void arg_value(const struct arg *a)
{
	strace_put_value(a->t, (uint32_t)a->val, a->names);
}

static void arg_flags(const struct arg *a)
{
	strace_put_flags(a->t, (uint32_t)a->val, a->names, NULL);
}

static void arg_prot(const struct arg *a)
{
	strace_put_flags(a->t, (uint32_t)a->val, a->names, "PROT_NONE");
}

static void arg_open_flags(const struct arg *a)
{
	const uint32_t flags = (uint32_t)a->val;

	if (!(flags & O_ACCMODE)) {
		strace_put(a->t, "O_RDONLY%s", flags ? "|" : "");
		if (!flags)
			return;
	}
	strace_put_flags(a->t, flags, a->names, NULL);
}

static void arg_access_mode(const struct arg *a)
{
	strace_put_flags(a->t, (uint32_t)a->val, a->names, "F_OK");
}

static void arg_mode(const struct arg *a)
{
	const uint32_t type = (uint32_t)a->val & S_IFMT;

	if (type) {
		strace_put_value(a->t, type, a->names);
		strace_put(a->t, "|");
	}
	strace_put(a->t, "0%o", (unsigned int)a->val & 07777);
}

static void put_clone_flags(struct strace_text *t, uint64_t flags, int signo)
{
	if (flags)
		strace_put_flags(t, flags, strace_clone_flags, NULL);
	if (flags && signo)
		strace_put(t, "|");
	if (signo || !flags)
		strace_put_signal(t, signo);
}

static void arg_clone_flags(const struct arg *a)
{
	put_clone_flags(a->t, (uint32_t)a->val & ~(uint32_t)CSIGNAL, (int)(a->val & CSIGNAL));
}

static void arg_signal(const struct arg *a)
{
	strace_put_signal(a->t, (int)a->val);
}

static void arg_futex_op(const struct arg *a)
{
	strace_put_value(a->t, a->val & 0x7f, a->names);
	strace_put(a->t, "%s%s", a->val & FUTEX_PRIVATE_FLAG ? "_PRIVATE" : "",
		   a->val & FUTEX_CLOCK_REALTIME ? "|FUTEX_CLOCK_REALTIME" : "");
}

/* --- structures ------------------------------------------------------------------------------ */

static void put_times(const struct arg *a, unsigned int nr, const char *fraction)
{
	int64_t v[4];

	if (!fetch(a, v, nr * 2 * sizeof(v[0])))
		return;
	strace_put(a->t, nr > 1 ? "[" : "");
	for (unsigned int i = 0; i < nr; i++) {
		strace_put(a->t, "%s{tv_sec=%lld, %s=%lld}", i ? ", " : "", (long long)v[2 * i],
			   fraction, (long long)v[2 * i + 1]);
	}
	strace_put(a->t, nr > 1 ? "]" : "");
}

static void arg_timespec(const struct arg *a)
{
	put_times(a, 1, "tv_nsec");
}

static void arg_two_timespecs(const struct arg *a)
{
	put_times(a, 2, "tv_nsec");
}

static void arg_timeval(const struct arg *a)
{
	put_times(a, 1, "tv_usec");
}

/* futex(): a time for those operations that wait, else a number. */
static void arg_futex_timeout(const struct arg *a)
{
	const uint64_t ops = BIT(FUTEX_WAIT) | BIT(FUTEX_LOCK_PI) | BIT(FUTEX_WAIT_BITSET) |
			     BIT(FUTEX_WAIT_REQUEUE_PI) | BIT(FUTEX_LOCK_PI2);

	if (ops >> (a->a[1] & 0x3f) & 1)
		arg_timespec(a);
	else
		put_pointer(a);
}

static void put_sigset(struct strace_text *t, uint64_t set)
{
	const bool most = __builtin_popcountll(set) > NR_SIGNALS / 2;
	const char *sep = "";

	/* Those that are missing, if these are fewer. */
	strace_put(t, most ? "~[" : "[");
	if (most)
		set = ~set;
	for (int signo = 1; signo <= NR_SIGNALS; signo++) {
		if (!(set >> (signo - 1) & 1))
			continue;
		strace_put(t, "%s", sep);
		strace_put_signal(t, signo);
		sep = " ";
	}
	strace_put(t, "]");
}

static void arg_sigset(const struct arg *a)
{
	uint64_t set;

	if (fetch(a, &set, sizeof(set)))
		put_sigset(a->t, set);
}

static void arg_sigaction(const struct arg *a)
{
	struct linux_sigaction sa;

	if (!fetch(a, &sa, sizeof(sa)))
		return;
	if (sa.handler == SIG_DFL || sa.handler == SIG_IGN)
		strace_put(a->t, "{sa_handler=%s", sa.handler ? "SIG_IGN" : "SIG_DFL");
	else
		strace_put(a->t, "{sa_handler=%#llx", (unsigned long long)sa.handler);
	strace_put(a->t, ", sa_mask=");
	put_sigset(a->t, sa.mask);
	strace_put(a->t, ", sa_flags=");
	strace_put_flags(a->t, sa.flags, strace_sa_flags, NULL);
	strace_put(a->t, "}");
}

static void arg_stat(const struct arg *a)
{
	struct linux_stat st;

	if (!fetch(a, &st, sizeof(st)))
		return;
	strace_put(a->t, "{st_mode=");
	strace_put_value(a->t, st.mode & S_IFMT, strace_file_types);
	strace_put(a->t, "|0%o, ", st.mode & 07777);
	if ((st.mode & S_IFMT) == S_IFCHR)
		strace_put(a->t, "st_rdev=%#llx}", (unsigned long long)st.rdev);
	else
		strace_put(a->t, "st_size=%lld}", (long long)st.size);
}

static void arg_fd_pair(const struct arg *a)
{
	int fds[2];

	if (fetch(a, fds, sizeof(fds)))
		strace_put(a->t, "[%d, %d]", fds[0], fds[1]);
}

static void arg_int_at(const struct arg *a)
{
	int v;

	if (fetch(a, &v, sizeof(v)))
		strace_put(a->t, "[%d]", v);
}

static void arg_wait_status(const struct arg *a)
{
	uint32_t st;

	if (a->ret == 0)
		put_pointer(a);
	else if (!fetch(a, &st, sizeof(st)))
		return;
	else if (st == 0xffff)
		strace_put(a->t, "[continued]");
	else if ((st & 0xff) == 0x7f || (st & 0x7f)) {
		strace_put(a->t, (st & 0xff) == 0x7f ? "[stopped by " : "[killed by ");
		strace_put_signal(a->t, (int)((st & 0xff) == 0x7f ? st >> 8 & 0xff : st & 0x7f));
		strace_put(a->t, "]");
	} else {
		strace_put(a->t, "[exited with %u]", st >> 8 & 0xff);
	}
}

static void arg_rlimit(const struct arg *a)
{
	uint64_t v[2]; /* of struct linux_rlimit */

	if (!fetch(a, v, sizeof(v)))
		return;
	for (unsigned int i = 0; i < 2; i++) {
		strace_put(a->t, i ? ", rlim_max=" : "{rlim_cur=");
		if (v[i] == RLIM_INFINITY)
			strace_put(a->t, "RLIM_INFINITY");
		else
			strace_put(a->t, "%llu", (unsigned long long)v[i]);
	}
	strace_put(a->t, "}");
}

static void put_pollfds(const struct arg *a, bool answers)
{
	const uint64_t nr = a->a[a->i + 1];
	struct linux_pollfd p;

	if (!nr || !fetch(a, &p, sizeof(p))) {
		if (!nr)
			put_pointer(a);
		return;
	}
	strace_put(a->t, "[");
	for (uint64_t i = 0; i < nr && array_goes_on(a, i); i++) {
		if (copy_from_user(&p, (const void __user *)(a->val + i * sizeof(p)), sizeof(p)))
			break;
		strace_put(a->t, "{fd=%d, events=", p.fd);
		strace_put_flags(a->t, p.events, strace_poll_events, NULL);
		if (answers && p.revents) {
			strace_put(a->t, ", revents=");
			strace_put_flags(a->t, p.revents, strace_poll_events, NULL);
		}
		strace_put(a->t, "}");
	}
	strace_put(a->t, "]");
}

static void arg_pollfds(const struct arg *a)
{
	put_pollfds(a, true);
}

static void arg_utsname(const struct arg *a)
{
	strace_put(a->t, "{sysname=");
	put_string(a, a->val + offsetof(struct linux_new_utsname, sysname));
	strace_put(a->t, ", nodename=");
	put_string(a, a->val + offsetof(struct linux_new_utsname, nodename));
	strace_put(a->t, ", release=");
	put_string(a, a->val + offsetof(struct linux_new_utsname, release));
	strace_put(a->t, ", ...}");
}

static void arg_sysinfo(const struct arg *a)
{
	struct linux_sysinfo si;

	if (fetch(a, &si, sizeof(si)))
		strace_put(a->t, "{uptime=%lld, totalram=%llu, freeram=%llu, ...}",
			   (long long)si.uptime, (unsigned long long)si.totalram,
			   (unsigned long long)si.freeram);
}

static void arg_dirents(const struct arg *a)
{
	const uint64_t end = a->val + (uint64_t)a->ret;
	unsigned int nr = 0;
	uint64_t at = a->val;

	put_pointer(a);
	while (at < end) {
		uint16_t reclen;

		if (copy_from_user(
			    &reclen,
			    (const void __user *)(at + offsetof(struct linux_dirent64, reclen)),
			    sizeof(reclen)) ||
		    !reclen)
			break;
		at += reclen;
		nr++;
	}
	strace_put(a->t, " /* %u entries */", nr);
}

static void arg_ids_out(const struct arg *a)
{
	uint32_t id;

	if (!a->a[0]) {
		put_pointer(a);
		return;
	}
	strace_put(a->t, "[");
	for (uint64_t i = 0; i < (uint64_t)a->ret && array_goes_on(a, i); i++) {
		if (get_user_u32(&id, (const void __user *)(a->val + 4 * i)))
			break;
		strace_put(a->t, "%u", id);
	}
	strace_put(a->t, "]");
}

static void arg_cpus_out(const struct arg *a)
{
	uint64_t mask;

	if (fetch(a, &mask, sizeof(mask)))
		strace_put(a->t, "[%#llx]", (unsigned long long)mask);
}

static void arg_clone_args(const struct arg *a)
{
	struct linux_clone_args c;

	if (!fetch(a, &c, CLONE_ARGS_SIZE_VER0))
		return;
	strace_put(a->t, "{flags=");
	put_clone_flags(a->t, c.flags, 0);
	strace_put(a->t, ", exit_signal=");
	strace_put_signal(a->t, (int)c.exit_signal);
	strace_put(a->t, ", stack=%#llx, stack_size=%#llx, tls=%#llx}", (unsigned long long)c.stack,
		   (unsigned long long)c.stack_size, (unsigned long long)c.tls);
}

static void arg_ioctl(const struct arg *a)
{
	struct linux_winsize ws;

	switch ((uint32_t)a->a[1]) {
	case TIOCGWINSZ:
	case TIOCSWINSZ:
		if (fetch(a, &ws, sizeof(ws)))
			strace_put(a->t, "{ws_row=%u, ws_col=%u}", ws.row, ws.col);
		break;
	case TIOCGPGRP:
	case TIOCSPGRP:
	case FIONREAD:
	case FIONBIO:
	case TIOCGSID:
	case TIOCGPTN:
	case TIOCSPTLCK:
		arg_int_at(a);
		break;
	default:
		put_pointer(a);
	}
}

static void arg_fcntl(const struct arg *a)
{
	switch ((uint32_t)a->a[1]) {
	case F_GETFD:
	case F_GETFL:
	case F_GETOWN:
	case F_GETPIPE_SZ:
		strace_put(a->t, "-");
		break;
	case F_SETFD:
		strace_put(a->t, a->val == FD_CLOEXEC ? "FD_CLOEXEC" : "%#llx",
			   (unsigned long long)a->val);
		break;
	case F_SETFL:
		strace_put_flags(a->t, (uint32_t)a->val, strace_open_flags, "O_RDONLY");
		break;
	default:
		if (a->val < 0x10000)
			arg_long(a);
		else
			put_pointer(a);
	}
}

/* prctl(): names are strings, the rest numbers. */
static void arg_prctl(const struct arg *a)
{
	if ((int)a->a[0] == PR_SET_NAME)
		put_string(a, a->val);
	else
		arg_hex(a);
}

/* --- kinds -------------------------------------------------------------------------- */

static const struct kind {
	void (*fn)(const struct arg *a);
	const struct strace_name *names;
	bool out; /* the call writes it: told after a success; a pointer after a failure */
} kinds[STRACE_NR_KINDS] = {
	[STRACE_INT] = { arg_int, NULL, false },
	[STRACE_UINT] = { arg_unsigned, NULL, false },
	[STRACE_LONG] = { arg_long, NULL, false },
	[STRACE_HEX] = { arg_hex, NULL, false },
	[STRACE_OCTAL] = { arg_octal, NULL, false },
	[STRACE_POINTER] = { put_pointer, NULL, false },
	[STRACE_PATH] = { arg_string, NULL, false },
	[STRACE_FD] = { arg_fd, NULL, false },
	[STRACE_STRINGS] = { arg_strings, NULL, false },
	[STRACE_ENVIRONMENT] = { arg_count, NULL, false },
	[STRACE_BYTES] = { arg_bytes, NULL, false },
	[STRACE_BYTES_OUT] = { arg_bytes_out, NULL, true },
	[STRACE_PATH_OUT] = { arg_string_out, NULL, true },
	[STRACE_IOVECS] = { arg_iovecs, NULL, false },
	[STRACE_IOVECS_OUT] = { arg_iovecs_out, NULL, true },
	[STRACE_FLAGS_PROT] = { arg_prot, strace_prots, false },
	[STRACE_FLAGS_MAP] = { arg_flags, strace_map_flags, false },
	[STRACE_FLAGS_OPEN] = { arg_open_flags, strace_open_flags, false },
	[STRACE_FLAGS_FD] = { arg_flags, strace_fd_flags, false },
	[STRACE_FLAGS_AT] = { arg_flags, strace_at_flags, false },
	[STRACE_ACCESS] = { arg_access_mode, strace_access_modes, false },
	[STRACE_MODE] = { arg_mode, strace_file_types, false },
	[STRACE_FLAGS_CLONE] = { arg_clone_flags, NULL, false },
	[STRACE_CLONE_ARGS] = { arg_clone_args, NULL, false },
	[STRACE_FLAGS_WAIT] = { arg_flags, strace_wait_flags, false },
	[STRACE_WAIT_STATUS_OUT] = { arg_wait_status, NULL, true },
	[STRACE_SIGNAL] = { arg_signal, NULL, false },
	[STRACE_SIGSET] = { arg_sigset, NULL, false },
	[STRACE_SIGSET_OUT] = { arg_sigset, NULL, true },
	[STRACE_SIGMASK_HOW] = { arg_value, strace_sig_how, false },
	[STRACE_SIGACTION] = { arg_sigaction, NULL, false },
	[STRACE_SIGACTION_OUT] = { arg_sigaction, NULL, true },
	[STRACE_TIMESPEC] = { arg_timespec, NULL, false },
	[STRACE_TIMESPEC_OUT] = { arg_timespec, NULL, true },
	[STRACE_TIMESPECS] = { arg_two_timespecs, NULL, false },
	[STRACE_TIMEVAL_OUT] = { arg_timeval, NULL, true },
	[STRACE_CLOCK] = { arg_value, strace_clocks, false },
	[STRACE_STAT_OUT] = { arg_stat, NULL, true },
	[STRACE_FDS_OUT] = { arg_fd_pair, NULL, true },
	[STRACE_RESOURCE] = { arg_value, strace_resources, false },
	[STRACE_RLIMIT] = { arg_rlimit, NULL, false },
	[STRACE_RLIMIT_OUT] = { arg_rlimit, NULL, true },
	[STRACE_POLLFDS_OUT] = { arg_pollfds, NULL, true },
	[STRACE_FUTEX_OP] = { arg_futex_op, strace_futex_ops, false },
	[STRACE_FUTEX_TIMEOUT] = { arg_futex_timeout, NULL, false },
	[STRACE_FCNTL] = { arg_value, strace_fcntls, false },
	[STRACE_FCNTL_ARGUMENT] = { arg_fcntl, NULL, false },
	[STRACE_IOCTL] = { arg_value, strace_ioctls, false },
	[STRACE_IOCTL_ARGUMENT_OUT] = { arg_ioctl, NULL, true },
	[STRACE_WHENCE] = { arg_value, strace_whences, false },
	[STRACE_PRCTL] = { arg_value, strace_prctls, false },
	[STRACE_PRCTL_ARGUMENT] = { arg_prctl, NULL, false },
	[STRACE_ADVICE] = { arg_value, strace_advices, false },
	[STRACE_ARCH_PRCTL] = { arg_value, strace_arch_codes, false },
	[STRACE_FAMILY] = { arg_value, strace_families, false },
	[STRACE_UTSNAME_OUT] = { arg_utsname, NULL, true },
	[STRACE_SYSINFO_OUT] = { arg_sysinfo, NULL, true },
	[STRACE_DIRENTS_OUT] = { arg_dirents, NULL, true },
	[STRACE_GROUPS_OUT] = { arg_ids_out, NULL, true },
	[STRACE_CPUS_OUT] = { arg_cpus_out, NULL, true },
};

void strace_put_args(struct strace_text *t, const uint8_t *argument_kinds,
		     const struct syscall_args *args, unsigned int *next, const long *ret)
{
	for (; *next < SYSCALL_ARGS && argument_kinds[*next]; ++*next) {
		const struct kind *k = &kinds[argument_kinds[*next]];
		const struct arg a = {
			.t = t,
			.a = args->a,
			.i = *next,
			.val = args->a[*next],
			.names = k->names,
			.ret = ret ? *ret : 0,
		};

		ASSERT(argument_kinds[*next] < STRACE_NR_KINDS && k->fn);
		if (k->out && !ret)
			return;
		if (*next)
			strace_put(t, ", ");
		if (k->out && *ret < 0)
			put_pointer(&a);
		else
			k->fn(&a);
	}
}
