/* SPDX-License-Identifier: MIT */
/*
 * System call tracing: arguments as text.
 *
 * Each argument has a letter in syscall.tbl, and a letter has a function here. What a call reads is told before
 * it runs, as exec replaces the memory that its arguments are in; what it writes is told after it has, if it
 * succeeded. User memory is copied with the usual checks; what cannot be read is told as the pointer it is.
 */
#include "strace_private.h"

#include <arch/uaccess.h>
#include <lib/errno.h>
#include <lib/fmt.h>
#include <lib/string.h>

#define BYTES_MAX  48 /* of a string or a buffer */
#define ARRAY_MAX  8  /* entries of an array */
#define ENTRY_MAX  64 /* bytes of a line that a further entry of an array needs */
#define AT_FDCWD   (-100)
#define NR_SIGNALS 64

struct arg {
	struct strace_text *t;
	const uint64_t *a; /* all arguments of the call */
	unsigned int i;    /* this one */
	uint64_t val;
	const struct strace_name *names; /* of its letter */
	long ret;                        /* what the call answered; arguments that it writes only */
};

void strace_put(struct strace_text *t, const char *fmt, ...)
{
	va_list ap;

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

	if (!(flags & 3)) {
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
	const uint32_t type = (uint32_t)a->val & 0170000;

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
	put_clone_flags(a->t, (uint32_t)a->val & ~0xffu, (int)(a->val & 0xff));
}

static void arg_signal(const struct arg *a)
{
	strace_put_signal(a->t, (int)a->val);
}

static void arg_futex_op(const struct arg *a)
{
	strace_put_value(a->t, a->val & 0x7f, a->names);
	strace_put(a->t, "%s%s", a->val & 128 ? "_PRIVATE" : "",
		   a->val & 256 ? "|FUTEX_CLOCK_REALTIME" : "");
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
	const uint64_t ops = 1ull << 0 | 1ull << 6 | 1ull << 9 | 1ull << 11 | 1ull << 13;

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
	uint64_t v[4]; /* handler, flags, restorer, mask */

	if (!fetch(a, v, sizeof(v)))
		return;
	if (v[0] < 2)
		strace_put(a->t, "{sa_handler=%s", v[0] ? "SIG_IGN" : "SIG_DFL");
	else
		strace_put(a->t, "{sa_handler=%#llx", (unsigned long long)v[0]);
	strace_put(a->t, ", sa_mask=");
	put_sigset(a->t, v[3]);
	strace_put(a->t, ", sa_flags=");
	strace_put_flags(a->t, v[1], strace_sa_flags, NULL);
	strace_put(a->t, "}");
}

static void arg_stat(const struct arg *a)
{
	struct {
		uint64_t dev, ino, nlink;
		uint32_t mode, uid, gid, pad;
		uint64_t rdev, size;
	} st;

	if (!fetch(a, &st, sizeof(st)))
		return;
	strace_put(a->t, "{st_mode=");
	strace_put_value(a->t, st.mode & 0170000, strace_file_types);
	strace_put(a->t, "|0%o, ", st.mode & 07777);
	if ((st.mode & 0170000) == 0020000)
		strace_put(a->t, "st_rdev=%#llx}", (unsigned long long)st.rdev);
	else
		strace_put(a->t, "st_size=%llu}", (unsigned long long)st.size);
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
	uint64_t v[2];

	if (!fetch(a, v, sizeof(v)))
		return;
	for (unsigned int i = 0; i < 2; i++) {
		strace_put(a->t, i ? ", rlim_max=" : "{rlim_cur=");
		if (v[i] == UINT64_MAX)
			strace_put(a->t, "RLIM_INFINITY");
		else
			strace_put(a->t, "%llu", (unsigned long long)v[i]);
	}
	strace_put(a->t, "}");
}

static void put_pollfds(const struct arg *a, bool answers)
{
	const uint64_t nr = a->a[a->i + 1];
	struct {
		int fd;
		uint16_t events, revents;
	} p;

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
	uint64_t at = a->val;

	strace_put(a->t, "{sysname=");
	put_string(a, at);
	strace_put(a->t, ", nodename=");
	put_string(a, at + 65);
	strace_put(a->t, ", release=");
	put_string(a, at + 2 * 65);
	strace_put(a->t, ", ...}");
}

static void arg_sysinfo(const struct arg *a)
{
	uint64_t v[6]; /* uptime, three loads, totalram, freeram */

	if (fetch(a, v, sizeof(v)))
		strace_put(a->t, "{uptime=%llu, totalram=%llu, freeram=%llu, ...}",
			   (unsigned long long)v[0], (unsigned long long)v[4],
			   (unsigned long long)v[5]);
}

static void arg_dirents(const struct arg *a)
{
	const uint64_t end = a->val + (uint64_t)a->ret;
	unsigned int nr = 0;
	uint64_t at = a->val;

	put_pointer(a);
	while (at < end) {
		uint16_t reclen;

		if (copy_from_user(&reclen, (const void __user *)(at + 16), sizeof(reclen)) ||
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
	uint64_t v[8]; /* flags, pidfd, child_tid, parent_tid, exit_signal, stack, its size, tls */

	if (!fetch(a, v, sizeof(v)))
		return;
	strace_put(a->t, "{flags=");
	put_clone_flags(a->t, v[0], 0);
	strace_put(a->t, ", exit_signal=");
	strace_put_signal(a->t, (int)v[4]);
	strace_put(a->t, ", stack=%#llx, stack_size=%#llx, tls=%#llx}", (unsigned long long)v[5],
		   (unsigned long long)v[6], (unsigned long long)v[7]);
}

static void arg_ioctl(const struct arg *a)
{
	uint16_t size[4];

	switch ((uint32_t)a->a[1]) {
	case 0x5413: /* TIOCGWINSZ */
	case 0x5414: /* TIOCSWINSZ */
		if (fetch(a, size, sizeof(size)))
			strace_put(a->t, "{ws_row=%u, ws_col=%u}", size[0], size[1]);
		break;
	case 0x540f:     /* TIOCGPGRP */
	case 0x5410:     /* TIOCSPGRP */
	case 0x541b:     /* FIONREAD */
	case 0x5421:     /* FIONBIO */
	case 0x5429:     /* TIOCGSID */
	case 0x80045430: /* TIOCGPTN */
	case 0x40045431: /* TIOCSPTLCK */
		arg_int_at(a);
		break;
	default:
		put_pointer(a);
	}
}

static void arg_fcntl(const struct arg *a)
{
	switch ((uint32_t)a->a[1]) {
	case 1:    /* F_GETFD */
	case 3:    /* F_GETFL */
	case 9:    /* F_GETOWN */
	case 1032: /* F_GETPIPE_SZ */
		strace_put(a->t, "-");
		break;
	case 2: /* F_SETFD */
		strace_put(a->t, a->val == 1 ? "FD_CLOEXEC" : "%#llx", (unsigned long long)a->val);
		break;
	case 4: /* F_SETFL */
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
	if ((int)a->a[0] == 15) /* PR_SET_NAME */
		put_string(a, a->val);
	else
		arg_hex(a);
}

/* --- letters ----------------------------------------------------------------------------------- */

static const struct kind {
	void (*fn)(const struct arg *a);
	const struct strace_name *names;
	bool out; /* the call writes it: told after a success; a pointer after a failure */
} kinds[128] = {
	['d'] = { arg_int, NULL, false },
	['u'] = { arg_unsigned, NULL, false },
	['l'] = { arg_long, NULL, false },
	['x'] = { arg_hex, NULL, false },
	['o'] = { arg_octal, NULL, false },
	['p'] = { put_pointer, NULL, false },
	['s'] = { arg_string, NULL, false },
	['f'] = { arg_fd, NULL, false },
	['a'] = { arg_strings, NULL, false },
	['v'] = { arg_count, NULL, false },
	['b'] = { arg_bytes, NULL, false },
	['B'] = { arg_bytes_out, NULL, true },
	['Z'] = { arg_string_out, NULL, true },
	['i'] = { arg_iovecs, NULL, false },
	['I'] = { arg_iovecs_out, NULL, true },
	['m'] = { arg_prot, strace_prots, false },
	['M'] = { arg_flags, strace_map_flags, false },
	['O'] = { arg_open_flags, strace_open_flags, false },
	['E'] = { arg_flags, strace_fd_flags, false },
	['A'] = { arg_flags, strace_at_flags, false },
	['e'] = { arg_access_mode, strace_access_modes, false },
	['n'] = { arg_mode, strace_file_types, false },
	['C'] = { arg_clone_flags, NULL, false },
	['3'] = { arg_clone_args, NULL, false },
	['W'] = { arg_flags, strace_wait_flags, false },
	['w'] = { arg_wait_status, NULL, true },
	['g'] = { arg_signal, NULL, false },
	['G'] = { arg_sigset, NULL, false },
	['Y'] = { arg_sigset, NULL, true },
	['k'] = { arg_value, strace_sig_how, false },
	['h'] = { arg_sigaction, NULL, false },
	['H'] = { arg_sigaction, NULL, true },
	['t'] = { arg_timespec, NULL, false },
	['T'] = { arg_timespec, NULL, true },
	['2'] = { arg_two_timespecs, NULL, false },
	['V'] = { arg_timeval, NULL, true },
	['K'] = { arg_value, strace_clocks, false },
	['S'] = { arg_stat, NULL, true },
	['P'] = { arg_fd_pair, NULL, true },
	['R'] = { arg_value, strace_resources, false },
	['r'] = { arg_rlimit, NULL, false },
	['L'] = { arg_rlimit, NULL, true },
	['z'] = { arg_pollfds, NULL, true },
	['U'] = { arg_futex_op, strace_futex_ops, false },
	['F'] = { arg_futex_timeout, NULL, false },
	['c'] = { arg_value, strace_fcntls, false },
	['j'] = { arg_fcntl, NULL, false },
	['D'] = { arg_value, strace_ioctls, false },
	['J'] = { arg_ioctl, NULL, true },
	['q'] = { arg_value, strace_whences, false },
	['Q'] = { arg_value, strace_prctls, false },
	['5'] = { arg_prctl, NULL, false },
	['y'] = { arg_value, strace_advices, false },
	['X'] = { arg_value, strace_arch_codes, false },
	['6'] = { arg_value, strace_families, false },
	['7'] = { arg_utsname, NULL, true },
	['8'] = { arg_sysinfo, NULL, true },
	['9'] = { arg_dirents, NULL, true },
	['4'] = { arg_ids_out, NULL, true },
	['1'] = { arg_cpus_out, NULL, true },
};

void strace_put_args(struct strace_text *t, const char *letters, const struct syscall_args *args,
		     unsigned int *next, const long *ret)
{
	for (; letters[*next]; ++*next) {
		const struct kind *k = &kinds[(unsigned char)letters[*next] & 0x7f];
		const struct arg a = {
			.t = t,
			.a = args->a,
			.i = *next,
			.val = args->a[*next],
			.names = k->names,
			.ret = ret ? *ret : 0,
		};

		if (k->out && !ret)
			return;
		if (*next)
			strace_put(t, ", ");
		if (!k->fn || (k->out && *ret < 0))
			put_pointer(&a);
		else
			k->fn(&a);
	}
}
