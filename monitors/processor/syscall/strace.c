/* SPDX-License-Identifier: MIT */
/*
 * System call tracing: one log line a call, "pid name(args) = result <time>".
 *
 * Strings are copied from the caller's memory with the usual checks, and cut at STRING_MAX bytes.
 */
#define PR_FMT "strace: "

#include <processor/strace.h>

#include <arch/uaccess.h>
#include <kernel/bootparam.h>
#include <kernel/printk.h>
#include <lib/errno.h>
#include <lib/fmt.h>
#include <lib/string.h>
#include <processor/process.h>

#define LINE_MAX   256
#define STRING_MAX 64

bool strace_on;
BOOT_PARAM("strace", bool, strace_on, "log every system call");

static size_t format_string(char *buf, size_t size, uint64_t addr)
{
	char str[STRING_MAX + 1];
	const ssize_t len = strncpy_from_user(str, (const char __user *)addr, sizeof(str));

	if (len == -EFAULT)
		return scnprintf(buf, size, "%#llx", (unsigned long long)addr);
	str[STRING_MAX] = '\0';
	for (char *c = str; *c; c++) {
		if (*c < ' ' || *c == 0x7f || *c == '"')
			*c = '?'; /* a string must not look like lines of the log */
	}
	return scnprintf(buf, size, "\"%s\"%s", str, len < 0 ? "..." : "");
}

static size_t format_arg(char *buf, size_t size, char kind, uint64_t val)
{
	switch (kind) {
	case 'd':
	case 'f':
		if (kind == 'f' && (int)val == -100)
			return scnprintf(buf, size, "AT_FDCWD");
		return scnprintf(buf, size, "%d", (int)val);
	case 'u':
		return scnprintf(buf, size, "%u", (unsigned int)val);
	case 'l':
		return scnprintf(buf, size, "%lld", (long long)val);
	case 'o':
		return scnprintf(buf, size, "0%o", (unsigned int)val);
	case 's':
		return format_string(buf, size, val);
	default:
		return val ? scnprintf(buf, size, "%#llx", (unsigned long long)val)
			   : scnprintf(buf, size, "NULL");
	}
}

static size_t format_call(char *buf, size_t size, const struct syscall_entry *entry,
			  const struct syscall_args *args)
{
	size_t len = scnprintf(buf, size, "%u %s(", task_current()->tid, entry->name);

	for (size_t i = 0; entry->args[i]; i++) {
		if (i)
			len += scnprintf(buf + len, size - len, ", ");
		len += format_arg(buf + len, size - len, entry->args[i], args->a[i]);
	}
	return len + scnprintf(buf + len, size - len, ")");
}

void strace_enter(const struct syscall_entry *entry, const struct syscall_args *args)
{
	char line[LINE_MAX];

	if (strncmp(entry->name, "exit", 4) != 0)
		return;
	format_call(line, sizeof(line), entry, args);
	pr_info("%s = ?\n", line);
}

void strace_exit(const struct syscall_entry *entry, const struct syscall_args *args, long ret,
		 uint64_t ns)
{
	char line[LINE_MAX];

	format_call(line, sizeof(line), entry, args);
	if (ret <= -ERESTARTSYS && ret >= -ERESTART_RESTARTBLOCK)
		pr_info("%s = ? (interrupted by a signal) <%llu us>\n", line,
			(unsigned long long)ns / 1000);
	else if (ret < 0 && ret > -4096)
		pr_info("%s = -1 (errno %ld) <%llu us>\n", line, -ret,
			(unsigned long long)ns / 1000);
	else
		pr_info("%s = %#lx <%llu us>\n", line, ret, (unsigned long long)ns / 1000);
}

void strace_signal(int signo, int code, const char *what)
{
	pr_info("%u --- signal %d, code %d: %s ---\n", task_current()->tid, signo, code, what);
}
