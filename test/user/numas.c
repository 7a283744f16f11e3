/* SPDX-License-Identifier: MIT */
/*
 * Memory policies of a machine with one NUMA node: which are refused, what is told of those that
 * are kept, what children and moved mappings have of them. Prints the same on both. "names": names
 * of anonymous memory, which are kept the same way; not every Linux has them.
 */
#include "call.h"

#include <fcntl.h>
#include <linux/mempolicy.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define LINES 4096

static void *const nowhere = (void *)8;

static long bind_to(void *at, size_t len, int mode, unsigned long nodes, unsigned int flags)
{
	return syscall(SYS_mbind, at, len, mode, &nodes, 33, flags);
}

static long set(int mode, unsigned long nodes)
{
	return syscall(SYS_set_mempolicy, mode, &nodes, 33);
}

static void show(const char *what, void *addr, unsigned long flags)
{
	unsigned long nodes[2] = { -1ul, -1ul };
	int mode = -1;
	const long ret = syscall(SYS_get_mempolicy, &mode, nodes, 128, addr, flags);

	if (ret)
		call(what, ret);
	else
		printf("%s: mode %#x nodes %#lx %#lx\n", what, mode, nodes[0], nodes[1]);
}

/* Pages that nothing is beside. */
static char *lonely(size_t nr)
{
	char *p = mmap(NULL, (nr + 2) * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(p != MAP_FAILED);
	CHECK(mprotect(p + PAGE, nr * PAGE, PROT_READ | PROT_WRITE) == 0);
	CHECK(munmap(p, PAGE) == 0 && munmap(p + (nr + 1) * PAGE, PAGE) == 0);
	return p + PAGE;
}

/* --- of a thread --------------------------------------------------------------------------- */

static void *in_thread(void *arg)
{
	show("another thread", NULL, 0);
	CHECK(set(MPOL_LOCAL, 0) == 0);
	show("its own", NULL, 0);
	return arg;
}

static void of_threads(void)
{
	static const struct {
		const char *what;
		int mode;
		unsigned long nodes;
	} cases[] = {
		{ "default", MPOL_DEFAULT, 0 },
		{ "default of a node", MPOL_DEFAULT, 1 },
		{ "static default", MPOL_DEFAULT | MPOL_F_STATIC_NODES, 0 },
		{ "prefer", MPOL_PREFERRED, 1 },
		{ "prefer none", MPOL_PREFERRED, 0 },
		{ "prefer none, static", MPOL_PREFERRED | MPOL_F_STATIC_NODES, 0 },
		{ "prefer another", MPOL_PREFERRED, 2 },
		{ "prefer two", MPOL_PREFERRED, 3 },
		{ "bind", MPOL_BIND, 1 },
		{ "bind to none", MPOL_BIND, 0 },
		{ "bind to another", MPOL_BIND, 2 },
		{ "bind, static", MPOL_BIND | MPOL_F_STATIC_NODES, 5 },
		{ "bind, static, another", MPOL_BIND | MPOL_F_STATIC_NODES, 4 },
		{ "bind, relative", MPOL_BIND | MPOL_F_RELATIVE_NODES, 4 },
		{ "bind, both", MPOL_BIND | MPOL_F_RELATIVE_NODES | MPOL_F_STATIC_NODES, 1 },
		{ "bind, balancing", MPOL_BIND | MPOL_F_NUMA_BALANCING, 1 },
		{ "interleave, balancing", MPOL_INTERLEAVE | MPOL_F_NUMA_BALANCING, 1 },
		{ "interleave", MPOL_INTERLEAVE, 1 },
		{ "local", MPOL_LOCAL, 0 },
		{ "local of a node", MPOL_LOCAL, 1 },
		{ "local, relative", MPOL_LOCAL | MPOL_F_RELATIVE_NODES, 0 },
		{ "prefer many", MPOL_PREFERRED_MANY, 1 },
		{ "mode 7", 7, 1 },
		{ "mode 100", 100, 1 },
		{ "mode -1", -1, 1 },
		{ "a flag more", MPOL_BIND | 1 << 12, 1 },
	};
	unsigned long many[1024] = { 1 };
	pthread_t t;
	int mode;

	show("at first", NULL, 0);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		call(cases[i].what, set(cases[i].mode, cases[i].nodes));
		show("  now", NULL, 0);
	}
	call("no nodes", syscall(SYS_set_mempolicy, MPOL_BIND, NULL, 64));
	call("nodes nowhere", syscall(SYS_set_mempolicy, MPOL_BIND, nowhere, 64));
	call("0 bits", syscall(SYS_set_mempolicy, MPOL_BIND, many, 0));
	call("1 bit", syscall(SYS_set_mempolicy, MPOL_BIND, many, 1));
	call("2 bits", syscall(SYS_set_mempolicy, MPOL_BIND, many, 2));
	call("4096 bits", syscall(SYS_set_mempolicy, MPOL_BIND, many, 4097));
	call("32768 bits", syscall(SYS_set_mempolicy, MPOL_BIND, many, 32769));
	call("more", syscall(SYS_set_mempolicy, MPOL_BIND, many, 32770));
	many[60] = 1;
	call("a node that cannot be", syscall(SYS_set_mempolicy, MPOL_BIND, many, 4097));
	call("and not looked at", syscall(SYS_set_mempolicy, MPOL_BIND, many, 61 * 64 - 63));
	show("nodes allowed", NULL, MPOL_F_MEMS_ALLOWED);
	show("and a node", NULL, MPOL_F_MEMS_ALLOWED | MPOL_F_NODE);
	show("a flag more", NULL, 8);
	show("an address too much", many, 0);
	show("the next node", NULL, MPOL_F_NODE);
	CHECK(set(MPOL_INTERLEAVE, 1) == 0);
	show("the next node", NULL, MPOL_F_NODE);
	call("to nowhere", syscall(SYS_get_mempolicy, nowhere, NULL, 0, NULL, 0));
	call("nodes to nowhere", syscall(SYS_get_mempolicy, &mode, nowhere, 64, NULL, 0));
	call("0 bits", syscall(SYS_get_mempolicy, &mode, many, 0, NULL, 0));
	call("too many bits", syscall(SYS_get_mempolicy, &mode, many, 40000, NULL, 0));
	call("to nothing", syscall(SYS_get_mempolicy, NULL, NULL, 0, NULL, 0));
	CHECK(pthread_create(&t, NULL, in_thread, NULL) == 0 && pthread_join(t, NULL) == 0);
	show("still", NULL, 0);
	fflush(stdout);
	if (fork() == 0) {
		show("a child", NULL, 0);
		fflush(stdout);
		_exit(0);
	}
	CHECK(wait(NULL) > 0);
	CHECK(set(MPOL_DEFAULT, 0) == 0);
}

/* --- of pages ------------------------------------------------------------------------------ */

static void show_pages(const char *what, char *p, int nr)
{
	printf("%s:", what);
	for (int i = 0; i < nr; i++) {
		unsigned long nodes = -1ul;
		int mode = -1;

		if (syscall(SYS_get_mempolicy, &mode, &nodes, 64, p + i * PAGE, MPOL_F_ADDR))
			printf(" %s", strerrorname_np(errno));
		else
			printf(" %#x/%lx", mode, nodes);
	}
	printf("\n");
}

static void of_pages(void)
{
	char *p = lonely(8), *q;

	call("bind", bind_to(p + PAGE, 3 * PAGE, MPOL_BIND, 1, 0));
	call("interleave", bind_to(p + 2 * PAGE, PAGE, MPOL_INTERLEAVE, 1, MPOL_MF_STRICT));
	show_pages("pages", p, 8);
	call("no length", bind_to(p, 0, MPOL_BIND, 1, 0));
	call("no length, no nodes", bind_to(p, 0, MPOL_BIND, 0, 0));
	call("a byte", bind_to(p + 5 * PAGE, 1, MPOL_PREFERRED, 1, MPOL_MF_MOVE));
	call("not aligned", bind_to(p + 1, PAGE, MPOL_BIND, 1, 0));
	call("too long", bind_to(p, -2 * PAGE, MPOL_BIND, 1, 0));
	call("to the last byte", bind_to(p, -1ul, MPOL_BIND, 1, 0));
	call("no nodes", bind_to(p, PAGE, MPOL_BIND, 0, 0));
	call("another node", bind_to(p, PAGE, MPOL_BIND, 2, 0));
	call("a flag more", bind_to(p, PAGE, MPOL_BIND, 1, 8));
	call("move all", bind_to(p, PAGE, MPOL_LOCAL, 0, MPOL_MF_MOVE_ALL));
	show_pages("pages", p, 8);
	CHECK(munmap(p + 6 * PAGE, PAGE) == 0);
	call("with a hole", bind_to(p, 8 * PAGE, MPOL_BIND, 1, 0));
	call("behind", bind_to(p + 7 * PAGE, 2 * PAGE, MPOL_BIND, 1, 0));
	show_pages("pages", p, 8);
	call("default with a hole", bind_to(p + 5 * PAGE, 3 * PAGE, MPOL_DEFAULT, 0, 0));
	call("default in a hole", bind_to(p + 6 * PAGE, PAGE, MPOL_DEFAULT, 0, 0));
	show_pages("pages", p, 8);
	q = lonely(4);
	CHECK(bind_to(q, 2 * PAGE, MPOL_BIND | MPOL_F_STATIC_NODES, 0xf0000001, 0) == 0);
	p = lonely(6);
	CHECK(bind_to(p, PAGE, MPOL_LOCAL, 0, 0) == 0);
	q = mremap(q, 2 * PAGE, 3 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, p + PAGE);
	CHECK(q == p + PAGE);
	show_pages("after mremap", p, 6);
	show("the node of a page", p, MPOL_F_ADDR | MPOL_F_NODE);
	fflush(stdout);
	if (fork() == 0) {
		show_pages("in a child", p, 6);
		CHECK(bind_to(p, 6 * PAGE, MPOL_DEFAULT, 0, 0) == 0);
		show_pages("in a child", p, 6);
		fflush(stdout);
		_exit(0);
	}
	CHECK(wait(NULL) > 0);
	call("home node", syscall(SYS_set_mempolicy_home_node, p + PAGE, 2 * PAGE, 0, 0));
	call("of others", syscall(SYS_set_mempolicy_home_node, p, 2 * PAGE, 0, 0));
	call("of none", syscall(SYS_set_mempolicy_home_node, p + 5 * PAGE, PAGE, 0, 0));
	call("no length", syscall(SYS_set_mempolicy_home_node, p, 0, 0, 0));
	call("not aligned", syscall(SYS_set_mempolicy_home_node, p + 1, PAGE, 0, 0));
	call("node 1", syscall(SYS_set_mempolicy_home_node, p + PAGE, PAGE, 1, 0));
	call("a flag", syscall(SYS_set_mempolicy_home_node, p + PAGE, PAGE, 0, 1));
	CHECK(mmap(p, 6 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
		   0) == p);
	show_pages("new", p, 6);
}

static void show_status(const char *what, const int *status)
{
	printf("%s:", what);
	for (int i = 0; i < 4; i++)
		printf(" %d", status[i]);
	printf("\n");
}

static void moves(void)
{
	int status[4] = { 77, 77, 77, 77 }, nodes[4] = { 0 }, away[4] = { 0, 0, 1, 0 };
	unsigned long one = 1, two = 2, three = 3;
	char *p = lonely(3);
	void *at[4] = { p, p + PAGE, p + 3 * PAGE, p + 2 * PAGE + 5 };

	CHECK(madvise(p, 3 * PAGE, MADV_NOHUGEPAGE) == 0);
	p[0] = p[2 * PAGE] = 1;
	call("where", syscall(SYS_move_pages, 0, 4, at, NULL, status, 0));
	show_status("where", status);
	memset(status, 0x55, sizeof(status));
	call("move", syscall(SYS_move_pages, getpid(), 4, at, nodes, status, MPOL_MF_MOVE));
	show_status("move", status);
	call("away", syscall(SYS_move_pages, 0, 4, at, away, status, MPOL_MF_MOVE));
	away[2] = -1;
	call("node -1", syscall(SYS_move_pages, 0, 4, at, away, status, MPOL_MF_MOVE_ALL));
	call("a flag more", syscall(SYS_move_pages, 0, 4, at, nodes, status, 1));
	call("none", syscall(SYS_move_pages, 0, 0, NULL, NULL, NULL, 0));
	call("nowhere", syscall(SYS_move_pages, 0, 4, nowhere, NULL, status, 0));
	call("status nowhere", syscall(SYS_move_pages, 0, 4, at, NULL, nowhere, 0));
	call("nodes nowhere", syscall(SYS_move_pages, 0, 4, at, nowhere, status, 0));
	call("of nobody", syscall(SYS_move_pages, 4000000, 4, at, NULL, status, 0));
	call("migrate", syscall(SYS_migrate_pages, 0, 33, &one, &one));
	call("to more", syscall(SYS_migrate_pages, 0, 33, &one, &three));
	call("to another", syscall(SYS_migrate_pages, 0, 33, &one, &two));
	call("to none", syscall(SYS_migrate_pages, 0, 33, &one, NULL));
	call("of nobody", syscall(SYS_migrate_pages, 4000000, 33, &one, &one));
	call("nowhere", syscall(SYS_migrate_pages, 0, 33, nowhere, &one));
	fflush(stdout);
	if (fork() == 0) {
		CHECK(setgid(65534) == 0 && setuid(65534) == 0);
		call("nobody: to more", syscall(SYS_migrate_pages, 0, 33, &one, &three));
		call("nobody: another's", syscall(SYS_migrate_pages, getppid(), 33, &one, &one));
		call("nobody: all", syscall(SYS_move_pages, 0, 4, at, nodes, status, 4));
		call("nobody: bind all", bind_to(p, PAGE, MPOL_BIND, 1, MPOL_MF_MOVE_ALL));
		fflush(stdout);
		_exit(0);
	}
	CHECK(wait(NULL) > 0);
}

/* --- files of /proc ------------------------------------------------------------------------ */

/* The lines of @file that begin inside [@p, +@nr pages), with pages for addresses. */
static void show_lines(const char *what, const char *file, const char *p, int nr)
{
	static char line[LINES];
	FILE *f = fopen(file, "r");

	CHECK(f);
	while (fgets(line, sizeof(line), f)) {
		char *end;
		const unsigned long at = strtoul(line, &end, 16);

		if (at < (unsigned long)p || at >= (unsigned long)p + (size_t)nr * PAGE)
			continue;
		printf("%s: page %lu", what, (at - (unsigned long)p) / PAGE);
		if (*end == '-') {
			const unsigned long to = strtoul(end + 1, &end, 16);

			printf(" to %lu", (to - (unsigned long)p) / PAGE);
			end = strchr(line, '[') ? strchr(line, '[') - 1 : "\n";
		} else {
			char *more = strstr(end, " anon=");

			if (more)
				strcpy(more, "\n");
		}
		printf("%s", end);
	}
	CHECK(fclose(f) == 0);
}

static void numa_maps(void)
{
	char *p = lonely(8);

	CHECK(bind_to(p, PAGE, MPOL_BIND, 1, 0) == 0);
	CHECK(bind_to(p + PAGE, PAGE, MPOL_PREFERRED | MPOL_F_STATIC_NODES, 3, 0) == 0);
	CHECK(bind_to(p + 2 * PAGE, PAGE, MPOL_INTERLEAVE | MPOL_F_RELATIVE_NODES, 8, 0) == 0);
	CHECK(bind_to(p + 3 * PAGE, PAGE, MPOL_LOCAL, 0, 0) == 0);
	CHECK(bind_to(p + 4 * PAGE, PAGE, MPOL_BIND | MPOL_F_NUMA_BALANCING, 1, 0) == 0);
	CHECK(bind_to(p + 6 * PAGE, PAGE, MPOL_PREFERRED_MANY, 1, 0) == 0);
	memset(p, 1, 8 * PAGE);
	show_lines("policies", "/proc/self/numa_maps", p, 8);
	CHECK(set(MPOL_PREFERRED, 1) == 0);
	show_lines("policies, preferring", "/proc/self/numa_maps", p, 8);
	CHECK(set(MPOL_DEFAULT, 0) == 0);
}

/* --- names --------------------------------------------------------------------------------- */

static long name(const void *at, size_t len, const char *s)
{
	return prctl(PR_SET_VMA, PR_SET_VMA_ANON_NAME, at, len, s);
}

static void names(void)
{
	char *p = lonely(8), *q, longest[82];
	int fd;

	memset(longest, 'x', 81);
	longest[81] = 0;
	call("name", name(p + PAGE, 3 * PAGE, "some pages (of 8)"));
	show_lines("named", "/proc/self/maps", p, 8);
	call("another", name(p + 2 * PAGE, PAGE, "one"));
	show_lines("two names", "/proc/self/maps", p, 8);
	call("the same", name(p + 2 * PAGE, 6 * PAGE - 5, "some pages (of 8)"));
	show_lines("one name", "/proc/self/maps", p, 8);
	call("none", name(p + 4 * PAGE, PAGE, NULL));
	show_lines("with a part without", "/proc/self/maps", p, 8);
	call("empty", name(p, PAGE, ""));
	call("81 bytes", name(p, PAGE, longest));
	call("80 bytes", name(p, PAGE, longest + 1));
	call("79 bytes", name(p, PAGE, longest + 2));
	call("a bracket", name(p, PAGE, "a]"));
	call("a control", name(p, PAGE, "a\n"));
	call("above ASCII", name(p, PAGE, "a\xe4"));
	call("nowhere", name(p, PAGE, nowhere));
	call("not aligned", name(p + 1, PAGE, "a"));
	call("nothing", name(p, 0, "a"));
	call("a hole", name(p + 7 * PAGE, 2 * PAGE, "before a hole"));
	call("too long", name(p, -1ul, "a"));
	call("another thing", prctl(PR_SET_VMA, 1, p, PAGE, "a"));
	call("a short one", name(p, PAGE, "short"));
	show_lines("names", "/proc/self/maps", p, 8);
	fflush(stdout);
	if (fork() == 0) {
		show_lines("names of a child", "/proc/self/maps", p, 8);
		fflush(stdout);
		_exit(0);
	}
	CHECK(wait(NULL) > 0);
	q = lonely(4);
	CHECK(mremap(p + 7 * PAGE, PAGE, 2 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, q) == q);
	show_lines("moved", "/proc/self/maps", q, 4);
	CHECK(munmap(p, 8 * PAGE) == 0);
	q = mmap(NULL, 2 * PAGE, PROT_READ, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(q != MAP_FAILED);
	call("shared", name(q, PAGE, "of all"));
	show_lines("shared", "/proc/self/maps", q, 1);
	fd = open("/proc/self/exe", O_RDONLY);
	q = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, fd, 0);
	CHECK(fd >= 0 && q != MAP_FAILED);
	call("a file", name(q, PAGE, "a"));
}

int main(int argc, char **argv)
{
	alarm(60);
	if (argc > 1 && !strcmp(argv[1], "names")) {
		names();
		return 0;
	}
	of_threads();
	of_pages();
	moves();
	numa_maps();
	return 0;
}
