/* SPDX-License-Identifier: MIT */
/*
 * Commitment: commit forks N MB | modes
 *
 * forks: N processes with MB MiB each, all at the same time; then each forks a child, which looks
 * at the memory. modes: what each mode of vm.overcommit_memory answers; as root, in a cluster of
 * its own.
 */
#include "user.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>

#define MODE "/proc/sys/vm/overcommit_memory"

/* --- forks ------------------------------------------------------------------------------- */

#define TOUCH (64 * PAGE) /* of each MiB */

static int forker(size_t len, int ready, int go)
{
	char *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int status;
	pid_t pid;
	char c = 0;

	if (p == MAP_FAILED)
		return 2;
	for (size_t i = 0; i < len; i += i % MB < TOUCH ? PAGE : MB - TOUCH)
		*(uint64_t *)(p + i) = i + (uint64_t)getpid();
	CHECK(write(ready, &c, 1) == 1);
	CHECK(read(go, &c, 1) == 0); /* all are ready when the last writer is gone */
	pid = fork();
	if (pid == 0) {
		for (size_t i = 0; i < len; i += i % MB < TOUCH ? PAGE : MB - TOUCH)
			if (*(uint64_t *)(p + i) != i + (uint64_t)getppid())
				_exit(3);
		_exit(0);
	}
	if (pid < 0)
		return errno == ENOMEM ? 1 : 3;
	CHECK(waitpid(pid, &status, 0) == pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 4;
}

static void forks(size_t n, size_t len)
{
	int ready[2], go[2], status;
	size_t results[8] = { 0 };
	char c;

	CHECK(pipe(ready) == 0 && pipe(go) == 0);
	for (size_t i = 0; i < n; i++) {
		const pid_t pid = fork();

		CHECK(pid >= 0);
		if (!pid) {
			close(ready[0]);
			close(go[1]);
			_exit(forker(len, ready[1], go[0]));
		}
	}
	close(ready[1]);
	for (size_t i = 0; i < n && read(ready[0], &c, 1) == 1; i++)
		;
	close(go[1]);
	while (wait(&status) > 0)
		results[WIFEXITED(status) ? WEXITSTATUS(status) & 7 : 4]++;
	printf("%zu forked, %zu ENOMEM, %zu could not map, %zu wrong, %zu ended\n", results[0],
	       results[1], results[2], results[3], results[4]);
}

/* --- modes ------------------------------------------------------------------------------- */

static int write_mode(const char *text)
{
	const int fd = open(MODE, O_WRONLY);
	ssize_t n;
	int err;

	if (fd < 0)
		return errno;
	n = write(fd, text, strlen(text));
	err = n == (ssize_t)strlen(text) ? 0 : errno;
	close(fd);
	return err;
}

static char read_mode(void)
{
	const int fd = open(MODE, O_RDONLY);
	char buf[8] = "";

	CHECK(fd >= 0 && read(fd, buf, sizeof(buf)) == 2 && buf[1] == '\n');
	close(fd);
	return buf[0];
}

static const char *maps(size_t len, int flags)
{
	void *p =
		mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);

	if (p == MAP_FAILED)
		return errno == ENOMEM ? "ENOMEM" : "?";
	CHECK(munmap(p, len) == 0);
	return "mapped";
}

static void describe(void)
{
	printf("%c: 4G %s, noreserve %s\n", read_mode(), maps(4096 * MB, 0),
	       maps(4096 * MB, MAP_NORESERVE));
}

static void modes(void)
{
	int status;
	pid_t pid;

	describe();
	printf("3: %d, -1: %d, text: %d\n", write_mode("3\n") == EINVAL, write_mode("-1") == EINVAL,
	       write_mode("strict") == EINVAL);
	for (int mode = 2; mode >= 0; mode--) {
		const char text[] = { (char)('0' + mode), '\n', 0 };

		CHECK(write_mode(text) == 0);
		describe();
	}
	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		CHECK(setuid(1000) == 0);
		_exit(write_mode("1\n") == EACCES && read_mode() == '0' ? 0 : 1);
	}
	CHECK(waitpid(pid, &status, 0) == pid);
	printf("another user: %d\n", status);
}

int main(int argc, char **argv)
{
	if (argc == 4 && !strcmp(argv[1], "forks"))
		forks(arg_number(argc, argv, 2, 16), arg_number(argc, argv, 3, 32) * MB);
	else if (argc == 2 && !strcmp(argv[1], "modes"))
		modes();
	else
		die("commit forks N MB | modes");
	return 0;
}
