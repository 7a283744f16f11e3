/* SPDX-License-Identifier: MIT */
/*
 * ADDR_NO_RANDOMIZE: programs that are executed again have their memory at the same places, as
 * debuggers want it. Prints the same as on Linux.
 */
#include "user.h"

#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/wait.h>

struct places {
	const void *stack, *heap, *map, *vdso;
};

/* Another execution of this program tells. */
static struct places look(void)
{
	struct places p;
	int ends[2];
	pid_t child;

	CHECK(pipe(ends) == 0);
	child = fork();
	CHECK(child >= 0);
	if (!child) {
		CHECK(dup2(ends[1], 1) == 1);
		execl("/proc/self/exe", "fixed", "tell", NULL);
		_exit(1);
	}
	CHECK(read(ends[0], &p, sizeof(p)) == sizeof(p));
	CHECK(waitpid(child, NULL, 0) == child);
	close(ends[0]);
	close(ends[1]);
	return p;
}

/* Of a few executions, which places were always the same? */
static void compare(const char *what)
{
	const struct places a = look();
	int stack = 1, heap = 1, map = 1, vdso = 1;

	for (int i = 0; i < 4; i++) {
		const struct places b = look();

		stack &= a.stack == b.stack;
		heap &= a.heap == b.heap;
		map &= a.map == b.map;
		vdso &= a.vdso == b.vdso;
	}
	printf("%s: stack %d, heap %d, map %d, vdso %d\n", what, stack, heap, map, vdso);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	if (argc > 1 && argv[1][0] == 't') {
		const struct places p = {
			.stack = &argc,
			.heap = sbrk(0),
			.map = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
			.vdso = (const void *)getauxval(AT_SYSINFO_EHDR),
		};

		return write(1, &p, sizeof(p)) != sizeof(p);
	}
	compare("random");
	personality(ADDR_NO_RANDOMIZE);
	compare("fixed");
	personality(0);
	compare("random again");
	return 0;
}
