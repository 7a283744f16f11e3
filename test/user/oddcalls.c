/* SPDX-License-Identifier: MIT */
/*
 * Calls that few programs make: getdents, ustat, sysfs, process_vm_readv and writev, pidfd_getfd,
 * sched_setattr and getattr, kcmp, fcntl's queries, security modules, mounts by number. Prints the
 * same on both.
 */
#include "call.h"

#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <sys/wait.h>

static int *volatile nowhere = (int *)8;

/* Without lines that both would print. */
static pid_t child(void)
{
	fflush(stdout);
	return fork();
}

/* --- getdents, ustat, sysfs ------------------------------------------------------------------ */

struct old_dirent {
	unsigned long ino, off;
	unsigned short reclen;
	char name[];
};

static int cmp(const void *a, const void *b)
{
	return strcmp(a, b);
}

static void directory(void)
{
	static char names[32][64];
	char dir[] = "/tmp/oddcallsXXXXXX", buf[400], path[64];
	int fd, nr = 0, n, calls = 0;

	CHECK(mkdtemp(dir) && chdir(dir) == 0);
	for (int i = 0; i < 20; i++) {
		snprintf(path, sizeof(path), "%.*s", 1 + i, "abcdefghijklmnopqrstuvw");
		CHECK(i % 5 ? close(creat(path, 0600)) == 0 : mkdir(path, 0700) == 0);
	}
	fd = open(".", O_RDONLY);
	while ((n = (int)syscall(SYS_getdents, fd, buf, sizeof(buf))) > 0) {
		calls++;
		for (int at = 0; at < n;) {
			const struct old_dirent *d = (struct old_dirent *)(buf + at);
			struct stat st;

			CHECK(stat(d->name, &st) == 0 && st.st_ino == d->ino);
			snprintf(names[nr++], sizeof(names[0]), "%s type %d length %d", d->name,
				 buf[at + d->reclen - 1], d->reclen);
			at += d->reclen;
		}
	}
	printf("%d entries, several calls %d, end %d\n", nr, calls > 1, n);
	qsort(names, (size_t)nr, sizeof(names[0]), cmp);
	for (int i = 0; i < nr; i++)
		puts(names[i]);
	CHECK(lseek(fd, 0, SEEK_SET) == 0);
	call("small", syscall(SYS_getdents, fd, buf, 20));
	call("nowhere", syscall(SYS_getdents, fd, nowhere, sizeof(buf)));
	call("no directory", syscall(SYS_getdents, 1, buf, sizeof(buf)));
	call("closed", syscall(SYS_getdents, 99, buf, sizeof(buf)));
	close(fd);
	for (int i = 0; i < 20; i++) {
		snprintf(path, sizeof(path), "%.*s", 1 + i, "abcdefghijklmnopqrstuvw");
		CHECK(remove(path) == 0);
	}
	CHECK(chdir("/") == 0 && rmdir(dir) == 0);
}

static void systems(void)
{
	struct {
		int tfree;
		unsigned long tinode;
		char fname[6], fpack[6];
	} u;
	char name[64];
	struct stat st;
	long nr, proc;

	CHECK(stat("/proc", &st) == 0);
	call("ustat", syscall(SYS_ustat, st.st_dev, &u));
	call("no device", syscall(SYS_ustat, 0xfffff, &u));
	call("nowhere", syscall(SYS_ustat, st.st_dev, nowhere));
	nr = syscall(SYS_sysfs, 3);
	proc = syscall(SYS_sysfs, 1, "proc");
	CHECK(nr > 0 && proc >= 0 && proc < nr);
	call("name", syscall(SYS_sysfs, 2, proc, name));
	puts(name);
	call("no name", syscall(SYS_sysfs, 1, "nonesuch"));
	call("no place", syscall(SYS_sysfs, 2, 10000, name));
	call("name nowhere", syscall(SYS_sysfs, 2, proc, nowhere));
	call("from nowhere", syscall(SYS_sysfs, 1, nowhere));
	call("what", syscall(SYS_sysfs, 4));
}

/* --- memory and descriptors of another process ------------------------------------------------ */

#define TEXT "written from far away"

static void memory(void)
{
	/* Three pages, of which the second is not there in the child. */
	char *m = mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	static char buf[3 * PAGE];
	struct iovec local[2] = { { buf, 5 }, { buf + 100, sizeof(buf) - 100 } };
	struct iovec remote[2] = { { m, 10 }, { m + 2 * PAGE, 10 } };
	struct iovec wrong = { m, (size_t)-1 };
	int to[2], from[2], status;
	char c = 0;
	pid_t pid;

	CHECK(m != MAP_FAILED && pipe(to) == 0 && pipe(from) == 0);
	strcpy(m, "0123456789");
	strcpy(m + 2 * PAGE, "abcdefghij");
	pid = child();
	if (!pid) {
		CHECK(munmap(m + PAGE, PAGE) == 0);
		strcpy(m, "9876543210");
		CHECK(mprotect(m + 2 * PAGE, PAGE, PROT_READ) == 0);
		CHECK(write(from[1], "r", 1) == 1 && read(to[0], &c, 1) == 1);
		printf("in the child: <%s> <%.8s>\n", m, m + PAGE - 8);
		_exit(fflush(stdout));
	}
	CHECK(read(from[0], &c, 1) == 1);
	call("read", process_vm_readv(pid, local, 2, remote, 2, 0));
	printf("<%.5s><%.15s>\n", buf, buf + 100);
	remote[0].iov_len = 2 * PAGE;
	call("up to a hole", process_vm_readv(pid, local, 2, remote, 2, 0));
	remote[0].iov_base = m + PAGE;
	call("a hole", process_vm_readv(pid, local, 2, remote, 2, 0));
	strcpy(buf, TEXT);
	local[0].iov_len = sizeof(TEXT);
	remote[0] = (struct iovec){ m, sizeof(TEXT) };
	call("write", process_vm_writev(pid, local, 1, remote, 1, 0));
	memset(buf, 'x', 20);
	remote[0] = (struct iovec){ m + PAGE - 8, 20 };
	call("write to the end", process_vm_writev(pid, local, 1, remote, 1, 0));
	remote[0] = (struct iovec){ m + 2 * PAGE, 4 };
	call("read-only", process_vm_writev(pid, local, 1, remote, 1, 0));
	call("flags", process_vm_readv(pid, local, 1, remote, 1, 1));
	call("nobody", process_vm_readv(0x3ffffe, local, 1, remote, 1, 0));
	call("nothing", process_vm_readv(pid, local, 0, remote, 1, 0));
	call("of nothing", process_vm_readv(pid, local, 1, remote, 0, 0));
	call("length", process_vm_readv(pid, local, 1, &wrong, 1, 0));
	call("nowhere", process_vm_readv(pid, local, 1, (void *)nowhere, 1, 0));
	call("many", process_vm_readv(pid, local, 1, remote, 1025, 0));
	local[0] = (struct iovec){ nowhere, 4 };
	call("to nowhere", process_vm_readv(pid, local, 1, remote, 1, 0));
	printf("parent's own: <%s>\n", m);
	CHECK(write(to[1], "w", 1) == 1 && waitpid(pid, &status, 0) == pid);
	printf("status %#x\n", status);
	call("gone", process_vm_readv(pid, &(struct iovec){ buf, 4 }, 1, remote, 1, 0));
}

static void descriptors(void)
{
	int to[2], from[2], status, fd, got;
	char c, text[64] = "";
	pid_t pid;

	CHECK(pipe(to) == 0 && pipe(from) == 0);
	pid = child();
	if (!pid) {
		const int made = memfd_create("odd", 0);

		CHECK(write(made, "of the child", 12) == 12 && dup2(made, 200) == 200);
		CHECK(write(from[1], "r", 1) == 1 && read(to[0], &c, 1) == 1);
		printf("offset %d\n", (int)lseek(made, 0, SEEK_CUR));
		_exit(fflush(stdout));
	}
	CHECK(read(from[0], &c, 1) == 1);
	fd = (int)syscall(SYS_pidfd_open, pid, 0);
	CHECK(fd >= 0);
	call("flags", syscall(SYS_pidfd_getfd, fd, 200, 1));
	call("closed", syscall(SYS_pidfd_getfd, fd, 201, 0));
	call("no pidfd", syscall(SYS_pidfd_getfd, 0, 200, 0));
	call("no descriptor", syscall(SYS_pidfd_getfd, 999, 200, 0));
	got = (int)syscall(SYS_pidfd_getfd, fd, 200, 0);
	CHECK(got >= 0 && pread(got, text, sizeof(text), 0) == 12);
	printf("<%s> flags %#x\n", text, fcntl(got, F_GETFD));
	CHECK(lseek(got, 3, SEEK_SET) == 3);
	CHECK(write(to[1], "w", 1) == 1 && waitpid(pid, &status, 0) == pid);
	call("gone", syscall(SYS_pidfd_getfd, fd, 200, 0));
	close(fd);
	close(got);
}

/* Without rights: nothing of a process of other ids. */
static void strangers(void)
{
	char buf[8] = "mine";
	struct iovec local = { buf, 4 }, remote = { buf, 4 };
	pid_t pid, parent = getpid();
	int fd, status;

	if (geteuid()) {
		puts("read: -1 EPERM\ngetfd: -1 EPERM\nstatus 0");
		return;
	}
	pid = child();
	if (!pid) {
		CHECK(setgid(54321) == 0 && setuid(54321) == 0);
		call("read", process_vm_readv(parent, &local, 1, &remote, 1, 0));
		fd = (int)syscall(SYS_pidfd_open, parent, 0);
		call("getfd", syscall(SYS_pidfd_getfd, fd, 1, 0));
		_exit(fflush(stdout));
	}
	CHECK(waitpid(pid, &status, 0) == pid);
	printf("status %d\n", status);
}

/* --- scheduling ------------------------------------------------------------------------------ */

struct attr {
	uint32_t size, policy;
	uint64_t flags;
	int32_t nice;
	uint32_t priority;
	uint64_t runtime, deadline, period;
	uint32_t util[2];
	uint64_t more;
};

static void policies(void)
{
	const int nice = getpriority(PRIO_PROCESS, 0); /* as who runs us chose */
	struct attr a = { .size = 48, .nice = nice }, b;

	call("get", syscall(SYS_sched_getattr, 0, &b, 48, 0));
	printf("size %u policy %u nice %d priority %u\n", b.size, b.policy, b.nice - nice,
	       b.priority);
	call("get more", syscall(SYS_sched_getattr, 0, &b, 64, 0));
	printf("size %u\n", b.size);
	call("get less", syscall(SYS_sched_getattr, 0, &b, 47, 0));
	call("flags", syscall(SYS_sched_getattr, 0, &b, 48, 1));
	call("nobody", syscall(SYS_sched_getattr, 0x3ffffe, &b, 48, 0));
	call("negative", syscall(SYS_sched_getattr, -1, &b, 48, 0));
	call("nowhere", syscall(SYS_sched_getattr, 0, nowhere, 48, 0));
	a.policy = SCHED_BATCH;
	a.nice = nice + 5;
	a.flags = 1;
	call("set", syscall(SYS_sched_setattr, 0, &a, 0));
	call("get", syscall(SYS_sched_getattr, 0, &b, 48, 0));
	printf("policy %u flags %d nice %d %d\n", b.policy, (int)b.flags, b.nice - nice,
	       getpriority(PRIO_PROCESS, 0) - nice);
	a.policy = 77;
	call("policy", syscall(SYS_sched_setattr, 0, &a, 0));
	a.policy = SCHED_OTHER;
	a.priority = 1;
	call("priority", syscall(SYS_sched_setattr, 0, &a, 0));
	a.priority = 0;
	a.flags = 0x1000;
	call("flags", syscall(SYS_sched_setattr, 0, &a, 0));
	a.flags = 0;
	call("flags of the call", syscall(SYS_sched_setattr, 0, &a, 1));
	call("nobody", syscall(SYS_sched_setattr, 0x3ffffe, &a, 0));
	call("no structure", syscall(SYS_sched_setattr, 0, NULL, 0));
	a.size = 40;
	call("small", syscall(SYS_sched_setattr, 0, &a, 0));
	printf("size %u\n", a.size);
	a.size = sizeof(a);
	call("large", syscall(SYS_sched_setattr, 0, &a, 0));
	a.more = 1;
	call("larger", syscall(SYS_sched_setattr, 0, &a, 0));
	a.policy = SCHED_IDLE;
	a.size = 0;
	call("idle", syscall(SYS_sched_setattr, 0, &a, 0));
	call("policy", sched_getscheduler(0));
}

/* --- kcmp ------------------------------------------------------------------------------------ */

/* 1 and 2 are the order of the two, which only the kernel knows. */
static void compared(const char *what, pid_t other, int type, unsigned long a, unsigned long b)
{
	const long ret = syscall(SYS_kcmp, getpid(), other, type, a, b);

	if (ret == 1 || ret == 2)
		printf("%s: different\n", what);
	else
		call(what, ret);
}

static void comparisons(void)
{
	const int a = open("/dev/null", O_RDONLY), b = dup(a), c = open("/dev/null", O_RDONLY);
	const long there = syscall(SYS_kcmp, getpid(), getpid(), 0, a, c);
	pid_t pid;

	CHECK(a >= 0 && b >= 0 && c >= 0);
	compared("same", getpid(), 0, (unsigned long)a, (unsigned long)b);
	compared("other", getpid(), 0, (unsigned long)a, (unsigned long)c);
	printf("order %d\n", there + syscall(SYS_kcmp, getpid(), getpid(), 0, c, a) == 3);
	compared("closed", getpid(), 0, (unsigned long)a, 999);
	for (int type = 1; type <= 4; type++)
		compared("mine", getpid(), type, 0, 0);
	pid = child();
	if (!pid) {
		pause();
		_exit(0);
	}
	compared("a child's", pid, 0, (unsigned long)a, (unsigned long)b);
	for (int type = 1; type <= 4; type++)
		compared("a child's", pid, type, 0, 0);
	compared("undo", pid, 6, 0, 0);
	kill(pid, SIGKILL);
	CHECK(waitpid(pid, NULL, 0) == pid);
	compared("gone", pid, 1, 0, 0);
	compared("type", getpid(), 8, 0, 0);
	compared("type", getpid(), -1, 0, 0);
	close(a);
	close(b);
	close(c);
}

/* --- what came with later kernels ------------------------------------------------------ */

#ifndef F_DUPFD_QUERY
# define F_DUPFD_QUERY 1027
#endif
#ifndef F_CREATED_QUERY
# define F_CREATED_QUERY 1028
#endif

static void queries(void)
{
	const char *name = "/tmp/oddcalls-query";
	const int made = open(name, O_CREAT | O_RDWR, 0600), copy = dup(made);
	const int again = open(name, O_CREAT | O_RDONLY), path = open(name, O_PATH);
	const int nameless = open("/tmp", O_TMPFILE | O_RDWR, 0600);

	CHECK(made >= 0 && copy >= 0 && again >= 0 && path >= 0 && nameless >= 0);
	call("made by its open", fcntl(made, F_CREATED_QUERY, 0));
	call("its copy", fcntl(copy, F_CREATED_QUERY, 0));
	call("opened again", fcntl(again, F_CREATED_QUERY, 0));
	call("by its path alone", fcntl(path, F_CREATED_QUERY, 0));
	call("without a name", fcntl(nameless, F_CREATED_QUERY, 0));
	call("the same", fcntl(made, F_DUPFD_QUERY, made));
	call("a copy", fcntl(made, F_DUPFD_QUERY, copy));
	call("another", fcntl(made, F_DUPFD_QUERY, again));
	call("a path", fcntl(path, F_DUPFD_QUERY, path));
	call("none", fcntl(made, F_DUPFD_QUERY, 999));
	CHECK(unlink(name) == 0);
	close(made);
	close(copy);
	close(again);
	close(path);
	close(nameless);
}

static void modules(void)
{
	uint64_t ids[64] = { 0 }, ctx[8] = { 0 };
	uint32_t size = sizeof(ids);
	const long nr = syscall(461, ids, &size, 0);

	int capabilities = 0;

	for (long i = 0; i < nr; i++)
		capabilities += ids[i] == 100;
	printf("modules: %d %d %d\n", nr > 0, capabilities, size == nr * 8);
	size = 0;
	call("no room", syscall(461, ids, &size, 0));
	printf("wanted: %d\n", size == nr * 8);
	call("flags", syscall(461, ids, &size, 1));
	call("no size", syscall(461, ids, NULL, 0));
	call("nowhere", syscall(461, NULL, &size, 0));
	size = sizeof(ctx);
	call("no attribute", syscall(459, 0, ctx, &size, 0));
	call("no size", syscall(459, 100, ctx, NULL, 0));
	call("size nowhere", syscall(459, 100, ctx, 8, 0));
	call("flags", syscall(459, 100, ctx, &size, 2));
	call("one, nowhere", syscall(459, 100, NULL, &size, 1));
	call("one without a number", syscall(459, 100, ctx, &size, 1));
	call("set, flags", syscall(460, 100, ctx, 32, 1));
	call("set, too short", syscall(460, 100, ctx, 31, 0));
	call("set, too long", syscall(460, 100, ctx, 4097, 0));
	call("set, nowhere", syscall(460, 100, 8, 32, 0));
	call("set, no length", syscall(460, 100, ctx, 32, 0));
	ctx[2] = 32;
	ctx[3] = ~0UL;
	call("set, a length that wraps", syscall(460, 100, ctx, 32, 0));
}

struct number_request {
	uint32_t size, spare;
	uint64_t id, param, ns;
};

/* statmount() of what @id is: its file system, place, and some of what is in the numbers. */
static void mount_by_number(uint64_t id, uint64_t old)
{
	struct number_request r = { 24, 0, id, 0x3b, 0 };
	static union {
		uint32_t u32[1024];
		uint64_t u64[512];
		char text[4096];
	} b;
	const char *texts = b.text + 512;

	call("statmount", syscall(457, &r, &b, sizeof(b), 0));
	printf("mask %#lx, magic %#lx, number %d, old %d\n", (unsigned long)b.u64[1],
	       (unsigned long)b.u64[3], b.u64[5] == id, b.u32[14] == old);
	printf("%s at %s from %s\n", texts + b.u32[9], texts + b.u32[27], texts + b.u32[26]);
	call("no room for texts", syscall(457, &r, &b, 512, 0));
	r.param = 2;
	call("a part of it", syscall(457, &r, &b, 48, 0));
	printf("its size: %u\n", b.u32[0]);
	call("flags", syscall(457, &r, &b, sizeof(b), 1));
	call("nowhere", syscall(457, &r, 8, sizeof(b), 0));
	r.size = 23;
	call("too small", syscall(457, &r, &b, sizeof(b), 0));
	r.size = 5000;
	call("too large", syscall(457, &r, &b, sizeof(b), 0));
	r = (struct number_request){ 24, 1, id, 2, 0 };
	call("spare", syscall(457, &r, &b, sizeof(b), 0));
	r = (struct number_request){ 24, 0, old, 2, 0 };
	call("its old number", syscall(457, &r, &b, sizeof(b), 0));
	r = (struct number_request){ 24, 0, id + (1UL << 40), 2, 0 };
	call("no number", syscall(457, &r, &b, sizeof(b), 0));
}

static int listed(const uint64_t *ids, long nr, uint64_t id)
{
	int found = 0;

	for (long i = 0; i < nr; i++)
		found += ids[i] == id;
	return found;
}

static void mounts_by_number(void)
{
	struct number_request r = { 24, 0, ~0UL, 0, 0 };
	static uint64_t ids[4096], back[4096];
	struct statx sx, old;
	long nr, n;

	CHECK(statx(AT_FDCWD, "/proc", 0, 0x4000, &sx) == 0 && (sx.stx_mask & 0x4000));
	CHECK(statx(AT_FDCWD, "/proc", 0, 0x1000, &old) == 0 && (old.stx_mask & 0x1000));
	mount_by_number(sx.stx_mnt_id, old.stx_mnt_id);
	nr = syscall(458, &r, ids, 4096, 0);
	printf("some: %d, with it: %d\n", nr > 1, listed(ids, nr, sx.stx_mnt_id));
	n = syscall(458, &r, back, 4096, 1);
	printf("and back: %d %d\n", n == nr, back[0] == ids[nr - 1]);
	r.param = ids[0];
	n = syscall(458, &r, back, 1, 0);
	printf("one behind the first: %ld %d\n", n, back[0] == ids[1]);
	r.param = 5;
	call("behind an old number", syscall(458, &r, ids, 4096, 0));
	r.param = 0;
	call("room for none", syscall(458, &r, ids, 0, 0));
	call("too many", syscall(458, &r, ids, 1000001, 0));
	call("flags", syscall(458, &r, ids, 1, 2));
	call("nowhere", syscall(458, &r, 8, 1, 0));
	r.id = sx.stx_mnt_id;
	n = syscall(458, &r, ids, 4096, 0);
	printf("not in itself: %d\n", listed(ids, n, sx.stx_mnt_id));
	r.id += 1UL << 40;
	call("in none", syscall(458, &r, ids, 4096, 0));
}

/* From a root that hides them, with rights and without. */
static void hidden_mounts(void)
{
	struct number_request r = { 24, 0, 0, 2, 0 };
	struct statx sx;
	uint64_t b[64];
	int status;
	pid_t pid;

	CHECK(statx(AT_FDCWD, "/", 0, 0x4000, &sx) == 0);
	r.id = sx.stx_mnt_id;
	pid = child();
	if (!pid) {
		CHECK(mkdir("/tmp/oddcalls-root", 0755) == 0 && chroot("/tmp/oddcalls-root") == 0);
		call("hidden", syscall(457, &r, b, sizeof(b), 0));
		r.param = 0;
		call("its mounts", syscall(458, &r, b, 1, 0));
		CHECK(setegid(65534) == 0 && seteuid(65534) == 0);
		call("to nobody", syscall(457, &r, b, sizeof(b), 0));
		call("its mounts", syscall(458, &r, b, 1, 0));
		fflush(stdout);
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	CHECK(rmdir("/tmp/oddcalls-root") == 0);
}

int main(void)
{
	setvbuf(stdout, NULL, _IOFBF, 1 << 16); /* a child prints all of its lines at its end */
	directory();
	systems();
	memory();
	descriptors();
	strangers();
	policies();
	comparisons();
	queries();
	modules();
	mounts_by_number();
	hidden_mounts();
	return 0;
}
