/* SPDX-License-Identifier: MIT */
/*
 * Private mappings of a file as a loader makes them, and what programs do with them later: rights,
 * fork, other memory over them, mremap, a file that is replaced, removed or cut. Argument: a
 * directory for the file. Prints the same on every Linux.
 */
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE     4096ul
#define PAGES(n) ((n) * PAGE)
#define RW       (PROT_READ | PROT_WRITE)

static sigjmp_buf back;
static char *lib;

static void on_signal(int sig)
{
	siglongjmp(back, sig);
}

/* The word at @p, or minus the signal that reading or writing it brings. */
static long look(char *p, const long *store)
{
	volatile long *word = (volatile long *)p;
	int sig = sigsetjmp(back, 1);

	if (sig)
		return -sig;
	if (store)
		*word = *store;
	return *word;
}

static void show(const char *what, char *from, unsigned int nr)
{
	unsigned long sum = 0;
	int bad = 0;

	for (unsigned int i = 0; i < nr; i++) {
		const long got = look(from + PAGES(i), NULL);

		bad += got < 0;
		sum = sum * 31 + (unsigned long)got;
	}
	printf("%-24s %u pages, %d that cannot be read, sum %lx\n", what, nr, bad, sum);
}

/* The lines of /proc/self/maps that lie in [lib, +64 pages), from there on. */
static void show_maps(void)
{
	FILE *f = fopen("/proc/self/maps", "r");
	char line[512];

	while (f && fgets(line, sizeof(line), f)) {
		unsigned long start, end, off;
		char prot[8], path[256] = "";

		if (sscanf(line, "%lx-%lx %7s %lx %*s %*s %255s", &start, &end, prot, &off, path) <
			    4 ||
		    start < (unsigned long)lib || start >= (unsigned long)lib + PAGES(64))
			continue;
		printf("  %3lu-%3lu %s %lx %s\n", (start - (unsigned long)lib) / PAGE,
		       (end - (unsigned long)lib) / PAGE, prot, off,
		       strrchr(path, '/') ? strrchr(path, '/') + 1 : path);
	}
	if (f)
		fclose(f);
}

static void make_file(const char *name, long salt, unsigned int nr)
{
	static char page[PAGE];
	const int fd = open(name, O_RDWR | O_CREAT | O_EXCL, 0755);

	for (unsigned int i = 0; i < nr; i++) {
		const long word = salt + i;

		memcpy(page, &word, sizeof(word));
		if (write(fd, page, sizeof(page)) != (ssize_t)sizeof(page))
			exit(1);
	}
	close(fd);
}

static void *map(char *at, unsigned int nr, int prot, int flags, int fd, unsigned int first)
{
	void *p = mmap(at, PAGES(nr), prot, MAP_PRIVATE | flags, fd, (off_t)PAGES(first));

	if (p == MAP_FAILED || (at && p != at)) {
		perror("mmap");
		exit(1);
	}
	return p;
}

static void in_child(void (*fn)(void))
{
	int status;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (!pid) {
		fn();
		fflush(stdout);
		_exit(0);
	}
	waitpid(pid, &status, 0);
	printf("child: %x\n", status);
}

static void change_all(void)
{
	const long word = 12345;

	show("the child's", lib, 64);
	for (int i = 50; i < 64; i++)
		look(lib + PAGES(i), &word);
	show("changed by the child", lib, 64);
	show_maps();
}

/* As ld.so does. */
static void load(const char *name)
{
	const int fd = open(name, O_RDONLY | O_CLOEXEC);
	const long word = 77;

	lib = map(NULL, 64, PROT_READ, 0, fd, 0);
	map(lib + PAGES(4), 36, PROT_READ | PROT_EXEC, MAP_FIXED, fd, 4);
	map(lib + PAGES(40), 10, PROT_READ, MAP_FIXED, fd, 40);
	map(lib + PAGES(50), 6, RW, MAP_FIXED, fd, 49);
	map(lib + PAGES(56), 8, RW, MAP_FIXED | MAP_ANONYMOUS, -1, 0);
	close(fd);
	for (int i = 50; i < 60; i += 3)
		look(lib + PAGES(i), &word);
	printf("%d\n", mprotect(lib + PAGES(50), PAGES(2), PROT_READ));
	printf("%ld %ld\n", look(lib + PAGES(50), &word), look(lib + PAGES(20), &word));
	show("loaded", lib, 64);
	show_maps();
}

static void other_memory(const char *name)
{
	const int fd = open(name, O_RDWR);
	const long word = 99;
	long got = 0;

	if (mmap(lib + PAGES(10), PAGES(4), RW, MAP_SHARED | MAP_FIXED, fd, (off_t)PAGES(60)) ==
	    MAP_FAILED)
		perror("shared");
	look(lib + PAGES(11), &word);
	if (pread(fd, &got, sizeof(got), (off_t)PAGES(61)) != (ssize_t)sizeof(got))
		perror("pread");
	printf("shared: %ld\n", got);
	close(fd);
	printf("%d\n", mprotect(lib + PAGES(8), PAGES(4), PROT_READ));
	printf("%d\n", mprotect(lib + PAGES(30), PAGES(2), PROT_NONE));
	printf("%d\n", munmap(lib + PAGES(13), PAGES(2)));
	printf("%d\n", mprotect(lib + PAGES(12), PAGES(8), RW));
	show("with others' memory", lib, 64);
	show_maps();
}

static void move(void)
{
	char *to = mremap(lib + PAGES(50), PAGES(2), PAGES(70), MREMAP_MAYMOVE);

	if (to == MAP_FAILED)
		perror("mremap");
	show("moved", to, 15); /* the rest is behind the file's end */
	printf("%ld\n", look(lib + PAGES(50), NULL));
	printf("%ld\n", look(to + PAGES(20), NULL));
	to = mremap(to, PAGES(3), PAGES(3), MREMAP_MAYMOVE | MREMAP_FIXED, lib + PAGES(50));
	printf("%d\n", to == lib + PAGES(50));
	show("moved back", lib, 64);
	show_maps();
}

static void changes_of_the_file(const char *name, const char *other)
{
	char *again;
	int fd;

	make_file(other, 5000, 64);
	printf("%d\n", rename(other, name));
	show("the old library", lib, 64);
	fd = open(name, O_RDWR);
	again = map(NULL, 64, PROT_READ, 0, fd, 0);
	show("the new one", again, 64);
	printf("%d\n", ftruncate(fd, 10 * PAGE + 8));
	show("cut", again, 64);
	printf("%ld %ld\n", look(again + PAGES(10), NULL), look(again + PAGES(11), NULL));
	printf("%d\n", unlink(name));
	show("removed", again, 11);
	printf("%d\n", munmap(again, PAGES(64)));
	printf("%ld\n", look(again, NULL));
	close(fd);
}

int main(int argc, char **argv)
{
	char name[256], other[256];

	if (argc != 2)
		return 2;
	signal(SIGSEGV, on_signal);
	signal(SIGBUS, on_signal);
	snprintf(name, sizeof(name), "%s/lib.so", argv[1]);
	snprintf(other, sizeof(other), "%s/lib.so.new", argv[1]);
	make_file(name, 1000, 64);
	load(name);
	in_child(change_all);
	show("after the child", lib, 64);
	other_memory(name);
	in_child(change_all);
	move();
	changes_of_the_file(name, other);
	printf("%d\n", munmap(lib, PAGES(64)));
	show_maps();
	return 0;
}
