/* SPDX-License-Identifier: MIT */
/*
 * Several processes change the same few names and files of a tmpfs at once. Each call may succeed
 * or fail with an errno that a race explains; contents are never torn inside an O_APPEND record,
 * and all can be removed at the end.
 *
 *	tmprace DIR PROCESSES ROUNDS
 */
#include "user.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define RECORD 100

static const char *const names[] = { "a", "b", "c", "d", "a/a", "a/b", "b/a", "b/b" };

static const char *pick(uint64_t *state)
{
	return names[next_random(state) % (sizeof(names) / sizeof(names[0]))];
}

static void expect(const char *what, long ret)
{
	static const int fine[] = {
		ENOENT, EEXIST, ENOTDIR, EISDIR, ENOTEMPTY, EINVAL, EPERM, EBUSY
	};

	if (ret >= 0)
		return;
	for (size_t i = 0; i < sizeof(fine) / sizeof(fine[0]); i++) {
		if (errno == fine[i])
			return;
	}
	die("%s: %s", what, strerror(errno));
}

static void append(int fd, int who, unsigned long round)
{
	char record[RECORD];

	memset(record, 'A' + who, RECORD);
	record[RECORD - 1] = '\n';
	(void)round;
	CHECK(write(fd, record, RECORD) == RECORD);
}

/* Writes, cuts and maps of one file that all have; only the errors are looked at. */
static void abuse(uint64_t *state, int fd)
{
	static char buf[20000];
	char *map;

	switch (next_random(state) % 5) {
	case 0:
		CHECK(pwrite(fd, buf, next_random(state) % sizeof(buf),
			     (off_t)(next_random(state) % 200000)) >= 0);
		break;
	case 1:
		CHECK(ftruncate(fd, (off_t)(next_random(state) % 200000)) == 0);
		break;
	case 2:
		CHECK(pread(fd, buf, sizeof(buf), (off_t)(next_random(state) % 200000)) >= 0);
		break;
	case 3:
		CHECK(fallocate(fd, 3, (off_t)(next_random(state) % 100000), 50000) == 0);
		break;
	default:
		map = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		CHECK(map != MAP_FAILED && munmap(map, 4096) == 0);
		break;
	}
}

static void child(int who, unsigned long rounds)
{
	const int log = open("log", O_WRONLY | O_APPEND), shared = open("shared", O_RDWR);
	uint64_t state = 88172645463325252UL + (uint64_t)who * 7919;
	struct stat st;
	DIR *d;
	int fd;

	CHECK(log >= 0 && shared >= 0);
	for (unsigned long i = 0; i < rounds; i++) {
		const char *one = pick(&state), *two = pick(&state);

		switch (next_random(&state) % 9) {
		case 0:
			expect("mkdir", mkdir(one, 0755));
			break;
		case 1:
			fd = open(one, O_CREAT | O_RDWR, 0644);
			expect("open", fd);
			if (fd >= 0) {
				CHECK(write(fd, "x", 1) == 1 && close(fd) == 0);
			}
			break;
		case 2:
			expect("rename", rename(one, two));
			break;
		case 3:
			expect("exchange", syscall(SYS_renameat2, AT_FDCWD, one, AT_FDCWD, two, 2));
			break;
		case 4:
			expect("link", link(one, two));
			break;
		case 5:
			expect("unlink", unlink(one));
			break;
		case 6:
			expect("rmdir", rmdir(one));
			break;
		case 7:
			expect("stat", stat(one, &st));
			d = opendir(one);
			if (d) {
				while (readdir(d))
					;
				closedir(d);
			}
			break;
		default:
			append(log, who, i);
			abuse(&state, shared);
			break;
		}
	}
	exit(0);
}

static void remove_all(const char *path)
{
	char sub[600];
	struct dirent *e;
	DIR *d = opendir(path);

	CHECK(d);
	while ((e = readdir(d))) {
		if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, ".."))
			continue;
		snprintf(sub, sizeof(sub), "%s/%s", path, e->d_name);
		if (unlink(sub) == 0)
			continue;
		CHECK(errno == EISDIR);
		remove_all(sub);
		CHECK(rmdir(sub) == 0);
	}
	closedir(d);
}

static void check_log(void)
{
	const int fd = open("log", O_RDONLY);
	char record[RECORD];
	ssize_t n;

	CHECK(fd >= 0);
	while ((n = read(fd, record, RECORD)) == RECORD) {
		for (int i = 1; i < RECORD - 1; i++)
			CHECK(record[i] == record[0]);
		CHECK(record[RECORD - 1] == '\n');
	}
	CHECK(n == 0 && close(fd) == 0);
}

int main(int argc, char **argv)
{
	const int nr = (int)arg_number(argc, argv, 2, 4);
	const unsigned long rounds = arg_number(argc, argv, 3, 1000);

	CHECK(argc > 1 && chdir(argv[1]) == 0);
	CHECK(close(open("log", O_CREAT | O_RDWR, 0644)) == 0);
	CHECK(close(open("shared", O_CREAT | O_RDWR, 0644)) == 0);
	for (int i = 0; i < nr; i++) {
		const pid_t pid = fork();

		CHECK(pid >= 0);
		if (pid == 0)
			child(i, rounds);
	}
	for (int i = 0; i < nr; i++) {
		int status;

		CHECK(wait(&status) > 0 && status == 0);
	}
	check_log();
	remove_all(".");
	puts("consistent");
	return 0;
}
