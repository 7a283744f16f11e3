/* SPDX-License-Identifier: MIT */
/*
 * /proc/meminfo by what a program does: meminfo FILE PAGES [small]
 *
 * Prints by how many pages each line changes, exactly. FILE, of PAGES / 4 pages at least, is one
 * that no other program maps. With "small", where the pages do not fit into the cache, what is
 * dirty or mapped depends on the eviction and is not printed. Not for Linux, which counts other
 * programs' pages as well and calls no anonymous page dirty.
 */
#include "user.h"

#include <fcntl.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/wait.h>

static const char *const names[] = { "AnonPages:", "Shmem:", "Dirty:", "Writeback:", "Mapped:" };
#define NR 5

struct usage {
	long pages[NR];
};

static bool small;
static FILE *out;
static size_t nr;

static void read_once(struct usage *u)
{
	static char text[8192];
	const int fd = open("/proc/meminfo", O_RDONLY);
	ssize_t len;

	CHECK(fd >= 0);
	len = read(fd, text, sizeof(text) - 1);
	CHECK(len > 0);
	text[len] = 0;
	close(fd);
	for (int i = 0; i < NR; i++) {
		const char *at = strstr(text, names[i]);

		CHECK(at);
		u->pages[i] = strtol(at + strlen(names[i]), NULL, 10) * 1024 / (long)PAGE;
	}
}

/* Once nothing is under way: write-backs, the end of what ran before. */
static struct usage now(void)
{
	struct usage u, again;
	unsigned int same = 0;

	read_once(&u);
	while (same < 3) {
		read_once(&again);
		same = memcmp(&u, &again, sizeof(u)) ? 0 : same + 1;
		u = again;
	}
	return u;
}

static void say(const char *what, const struct usage *before)
{
	const struct usage u = now();

	fprintf(out, "%s:", what);
	for (int i = 0; i < (small ? 2 : NR); i++)
		fprintf(out, " %s %+ld", names[i], u.pages[i] - before->pages[i]);
	fputc('\n', out);
	fflush(out); /* a child has a copy of what is still in the buffer */
}

static char *map(int flags, int fd, int prot, size_t pages)
{
	char *p = mmap(NULL, pages * PAGE, prot, flags, fd, 0);

	CHECK(p != MAP_FAILED);
	return p;
}

static void write_pages(char *p, size_t pages)
{
	for (size_t i = 0; i < pages; i++)
		*(volatile size_t *)(p + i * PAGE) = i;
}

static void read_pages(const char *p, size_t pages)
{
	for (size_t i = 0; i < pages; i++)
		(void)*(const volatile char *)(p + i * PAGE);
}

static void child_writes(char *p)
{
	const pid_t pid = fork();
	struct usage u;
	int status;

	CHECK(pid >= 0);
	if (!pid) {
		u = now();
		write_pages(p, nr / 2);
		say("a child wrote half", &u);
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
}

static void private_memory(void)
{
	const struct usage u = now();
	char *p = map(MAP_PRIVATE | MAP_ANONYMOUS, -1, PROT_READ | PROT_WRITE, nr);

	say("mapped", &u);
	if (!small) {
		read_pages(p, nr);
		say("read", &u);
	}
	write_pages(p, nr);
	say("written", &u);
	child_writes(p);
	say("the child has gone", &u);
	CHECK(madvise(p, nr / 4 * PAGE, MADV_DONTNEED) == 0);
	say("a quarter dropped", &u);
	CHECK(munmap(p, nr * PAGE) == 0);
	say("unmapped", &u);
}

static void shared_memory(void)
{
	const struct usage u = now();
	char *p = map(MAP_SHARED | MAP_ANONYMOUS, -1, PROT_READ | PROT_WRITE, nr);
	static char page[PAGE];
	int fd;

	write_pages(p, nr);
	say("shared", &u);
	CHECK(munmap(p, nr * PAGE) == 0);
	say("unmapped", &u);
	fd = open("/dev/shm/meminfo", O_CREAT | O_RDWR | O_TRUNC, 0600);
	CHECK(fd >= 0);
	for (size_t i = 0; i < nr; i++)
		CHECK(write(fd, page, PAGE) == (ssize_t)PAGE);
	say("a file in memory", &u);
	p = map(MAP_SHARED, fd, PROT_READ, nr / 2);
	read_pages(p, nr / 2);
	say("half of it mapped", &u);
	CHECK(munmap(p, nr / 2 * PAGE) == 0);
	CHECK(ftruncate(fd, (long)(nr / 4 * PAGE)) == 0);
	say("cut to a quarter", &u);
	CHECK(unlink("/dev/shm/meminfo") == 0 && close(fd) == 0);
	say("removed", &u);
}

static void file(const char *path)
{
	const struct usage u = now();
	const int fd = open(path, O_RDONLY);
	char *p;

	CHECK(fd >= 0);
	p = map(MAP_SHARED, fd, PROT_READ, nr / 4);
	read_pages(p, nr / 4);
	say("a file mapped", &u);
	CHECK(munmap(p, nr / 4 * PAGE) == 0 && close(fd) == 0);
	say("unmapped", &u);
}

int main(int argc, char **argv)
{
	static char buffer[PAGE]
		__attribute__((aligned(PAGE))); /* of one round, then of the other */

	if (argc < 3)
		die("usage: meminfo FILE PAGES [small]");
	nr = arg_number(argc, argv, 2, 0);
	small = argc > 3 && !strcmp(argv[3], "small");
	/* Once to touch all that this program touches, then for the numbers. */
	for (int round = 0; round < 2; round++) {
		out = round ? fdopen(dup(1), "w") : fopen("/dev/null", "w");
		CHECK(out && setvbuf(out, buffer, _IOFBF, sizeof(buffer)) == 0);
		private_memory();
		shared_memory();
		file(argv[1]);
		fclose(out);
	}
	return 0;
}
