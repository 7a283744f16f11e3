/* SPDX-License-Identifier: MIT */
/*
 * Advisory locks between processes: records of fcntl, OFD locks, flock; which lock is in the way,
 * what a close gives up, waiting, deadlocks, signals; against a model too. Prints the same on both.
 */
#include "alarms.h"
#include "user.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>

static char path[] = "/dev/shm/locks.XXXXXX";

static void result(const char *what, long ret)
{
	printf("%s: %ld%s%s\n", what, ret, ret < 0 ? " " : "", ret < 0 ? strerror(errno) : "");
}

static pid_t child(void)
{
	pid_t pid;

	fflush(stdout);
	pid = fork();
	CHECK(pid >= 0);
	return pid;
}

static int ended(pid_t pid)
{
	int status;

	CHECK(waitpid(pid, &status, 0) == pid);
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

static int lock(int fd, int cmd, int type, int whence, off_t start, off_t len)
{
	struct flock fl = {
		.l_type = (short)type, .l_whence = (short)whence, .l_start = start, .l_len = len
	};

	return fcntl(fd, cmd, &fl);
}

static void ask(const char *what, int fd, int cmd, int type, off_t start, off_t len)
{
	struct flock fl = { .l_type = (short)type, .l_start = start, .l_len = len };
	const int ret = fcntl(fd, cmd, &fl);

	printf("%s: %d", what, ret);
	if (ret == 0 && fl.l_type == F_UNLCK)
		printf(" free");
	else if (ret == 0)
		printf(" %s %ld+%ld whence %d, %s", fl.l_type == F_RDLCK ? "read" : "write",
		       (long)fl.l_start, (long)fl.l_len, fl.l_whence,
		       fl.l_pid == -1          ? "open file"
		       : fl.l_pid == getppid() ? "parent"
		       : fl.l_pid == getpid()  ? "me"
					       : "other");
	else
		printf(" %s", strerror(errno));
	putchar('\n');
}

/* Print the locks that another process sees over the first @n bytes: one letter each. */
static void map(const char *what, int fd, int n)
{
	const pid_t pid = child();

	if (!pid) {
		printf("%s: ", what);
		for (int i = 0; i < n; i++) {
			struct flock fl = { .l_type = F_WRLCK, .l_start = i, .l_len = 1 };

			CHECK(fcntl(fd, F_GETLK, &fl) == 0);
			putchar(fl.l_type == F_UNLCK ? '.' : fl.l_type == F_RDLCK ? 'r' : 'w');
		}
		putchar('\n');
		fflush(stdout);
		_exit(0);
	}
	CHECK(ended(pid) == 0);
}

static void records(int fd, int ro)
{
	pid_t pid;

	result("write 10+10", lock(fd, F_SETLK, F_WRLCK, SEEK_SET, 10, 10));
	result("read 15+10", lock(fd, F_SETLK, F_RDLCK, SEEK_SET, 15, 10));
	map("changed", fd, 30);
	result("unlock the middle", lock(fd, F_SETLK, F_UNLCK, SEEK_SET, 12, 10));
	map("split", fd, 30);
	result("close the gap", lock(fd, F_SETLK, F_RDLCK, SEEK_SET, 12, 10));
	map("joined", fd, 30);
	ask("own", fd, F_GETLK, F_WRLCK, 0, 0);
	result("backwards", lock(fd, F_SETLK, F_WRLCK, SEEK_SET, 10, -4));
	map("backwards", fd, 30);
	CHECK(lseek(fd, 20, SEEK_SET) == 20);
	result("from here", lock(fd, F_SETLK, F_WRLCK, SEEK_CUR, 5, 2));
	result("from the end", lock(fd, F_SETLK, F_WRLCK, SEEK_END, -100, 1));
	map("from", fd, 30);
	pid = child();
	if (!pid) {
		ask("in the way", fd, F_GETLK, F_RDLCK, 0, 12);
		ask("not in the way", fd, F_GETLK, F_RDLCK, 12, 5);
		ask("in the way", fd, F_GETLK, F_WRLCK, 12, 5);
		result("read", lock(fd, F_SETLK, F_RDLCK, SEEK_SET, 12, 5));
		result("write", lock(fd, F_SETLK, F_WRLCK, SEEK_SET, 12, 5));
		result("write elsewhere", lock(fd, F_SETLK, F_WRLCK, SEEK_SET, 1000, 0));
		ask("the end", fd, F_GETLK, F_WRLCK, 900, 100);
		fflush(stdout);
		_exit(0);
	}
	CHECK(ended(pid) == 0);
	ask("gone with the process", fd, F_GETLK, F_WRLCK, 1000, 0);
	result("unlock all", lock(fd, F_SETLK, F_UNLCK, SEEK_SET, 0, 0));
	map("free", fd, 30);
	result("type", lock(fd, F_SETLK, 7, SEEK_SET, 0, 0));
	result("whence", lock(fd, F_SETLK, F_RDLCK, 9, 0, 0));
	result("negative", lock(fd, F_SETLK, F_RDLCK, SEEK_SET, -1, 0));
	result("before the start", lock(fd, F_SETLK, F_RDLCK, SEEK_SET, 2, -5));
	result("far", lock(fd, F_SETLK, F_RDLCK, SEEK_SET, INT64_MAX, 2));
	result("last byte", lock(fd, F_SETLK, F_RDLCK, SEEK_SET, INT64_MAX, 1));
	result("from the end, too far", lock(fd, F_SETLK, F_RDLCK, SEEK_END, INT64_MAX, 1));
	result("nowhere", fcntl(fd, F_SETLK, 8));
	result("closed", lock(99, F_SETLK, F_RDLCK, SEEK_SET, 0, 0));
	result("write lock, open for reading", lock(ro, F_SETLK, F_WRLCK, SEEK_SET, 0, 0));
	ask("type to ask for", fd, F_GETLK, F_UNLCK, 0, 0);
	result("unlock all", lock(fd, F_SETLK, F_UNLCK, SEEK_SET, 0, 0));
}

/* Each lock that another process sees from the start on, one behind the other. */
static void list(const char *what, int fd)
{
	const pid_t pid = child();
	struct flock fl;

	if (!pid) {
		printf("%s:", what);
		for (off_t at = 0;; at = fl.l_start + fl.l_len) {
			fl = (struct flock){ .l_type = F_WRLCK, .l_start = at };
			CHECK(fcntl(fd, F_GETLK, &fl) == 0);
			if (fl.l_type == F_UNLCK)
				break;
			printf(" %s %ld+%ld", fl.l_type == F_RDLCK ? "read" : "write",
			       (long)fl.l_start, (long)fl.l_len);
			if (!fl.l_len)
				break;
		}
		putchar('\n');
		fflush(stdout);
		_exit(0);
	}
	CHECK(ended(pid) == 0);
}

/*
 * The lowest of an owner's locks is told, in whatever order they came: as they split and join.
 */
static void in_order(int fd)
{
	static const struct step {
		const char *what;
		int type;
		off_t start, len;
	} steps[] = {
		{ "high", F_WRLCK, 40, 10 },          { "low", F_RDLCK, 10, 5 },
		{ "between", F_WRLCK, 20, 5 },        { "lowest", F_WRLCK, 1, 5 },
		{ "inside", F_RDLCK, 42, 2 },         { "its left", F_UNLCK, 40, 1 },
		{ "over", F_WRLCK, 12, 10 },          { "joined left", F_WRLCK, 25, 3 },
		{ "joined", F_WRLCK, 28, 13 },        { "read all", F_RDLCK, 5, 40 },
		{ "hole", F_UNLCK, 15, 5 },           { "fill", F_RDLCK, 15, 5 },
		{ "write inside", F_WRLCK, 7, 1 },    { "to the end", F_WRLCK, 30, 0 },
		{ "cut its start", F_UNLCK, 25, 10 }, { "none", F_UNLCK, 0, 0 },
	};

	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		CHECK(lock(fd, F_SETLK, steps[i].type, SEEK_SET, steps[i].start, steps[i].len) ==
		      0);
		list(steps[i].what, fd);
	}
}

static void closing(int fd)
{
	int other = open(path, O_RDWR), copy = dup(fd);

	result("lock", lock(fd, F_SETLK, F_WRLCK, SEEK_SET, 0, 5));
	close(copy);
	map("a copy closed", fd, 8);
	result("lock", lock(fd, F_SETLK, F_WRLCK, SEEK_SET, 0, 5));
	close(other);
	map("another open file closed", fd, 8);
	result("lock", lock(fd, F_SETLK, F_WRLCK, SEEK_SET, 0, 5));
	copy = dup(fd);
	CHECK(dup2(0, copy) == copy);
	map("replaced", fd, 8);
	close(copy);
}

static void open_files(int fd)
{
	int other = open(path, O_RDWR);
	struct flock fl = { .l_type = F_WRLCK, .l_pid = 5 };
	pid_t pid;

	result("open file", lock(fd, F_OFD_SETLK, F_WRLCK, SEEK_SET, 0, 5));
	result("another", lock(other, F_OFD_SETLK, F_WRLCK, SEEK_SET, 4, 5));
	result("record", lock(fd, F_SETLK, F_WRLCK, SEEK_SET, 4, 5));
	ask("who", other, F_OFD_GETLK, F_WRLCK, 0, 0);
	ask("who", other, F_GETLK, F_WRLCK, 0, 0);
	result("pid", fcntl(fd, F_OFD_SETLK, &fl));
	result("record", lock(fd, F_SETLK, F_WRLCK, SEEK_SET, 10, 5));
	ask("who", fd, F_OFD_GETLK, F_WRLCK, 10, 0);
	pid = child();
	if (!pid) {
		/* The child has the same open file. */
		result("inherited", lock(fd, F_OFD_SETLK, F_WRLCK, SEEK_SET, 0, 3));
		fflush(stdout);
		_exit(0);
	}
	CHECK(ended(pid) == 0);
	close(other);
	map("still", fd, 8);
	result("unlock", lock(fd, F_OFD_SETLK, F_UNLCK, SEEK_SET, 0, 0));
	other = open(path, O_RDWR);
	result("lock", lock(other, F_OFD_SETLK, F_WRLCK, SEEK_SET, 0, 5));
	close(other);
	map("gone with the open file", fd, 8);
}

/* A lock goes with its file, whatever has become of what the file stands for. */
static void lock_of_a_signalfd(void)
{
	sigset_t first, second;
	int fd;

	sigemptyset(&first);
	sigaddset(&first, SIGUSR1);
	sigemptyset(&second);
	sigaddset(&second, SIGUSR2);
	fd = signalfd(-1, &first, 0);
	result("signalfd", flock(fd, LOCK_EX | LOCK_NB));
	result("another set", signalfd(fd, &second, 0) == fd);
	close(fd);
	fd = signalfd(-1, &first, 0);
	result("of another with the first set", flock(fd, LOCK_EX | LOCK_NB));
	close(fd);
}

static void flocks(int fd)
{
	int other = open(path, O_RDONLY), one = 1, zero = 0;

	result("shared", flock(fd, LOCK_SH));
	result("shared", flock(other, LOCK_SH));
	result("exclusive", flock(other, LOCK_EX | LOCK_NB));
	result("was lost", flock(fd, LOCK_EX | LOCK_NB));
	result("shared", flock(other, LOCK_SH | LOCK_NB));
	result("record beside it", lock(fd, F_SETLK, F_WRLCK, SEEK_SET, 0, 0));
	result("unlock", flock(fd, LOCK_UN));
	result("exclusive", flock(other, LOCK_EX | LOCK_NB));
	result("unlock again", flock(fd, LOCK_UN));
	result("operation", flock(fd, 0));
	result("operation", flock(fd, LOCK_SH | LOCK_EX));
	result("closed", flock(99, LOCK_SH));
	close(other);
	result("gone", flock(fd, LOCK_EX | LOCK_NB));
	result("unlock", flock(fd, LOCK_UN));
	result("FIOASYNC off", ioctl(fd, FIOASYNC, &zero));
	result("FIOASYNC", ioctl(fd, FIOASYNC, &one));
	result("owner", fcntl(fd, F_GETOWN));
	result("set owner", fcntl(fd, F_SETOWN, getpid()));
	result("owner", fcntl(fd, F_GETOWN) == getpid());
	result("nobody", fcntl(fd, F_SETOWN, 4000000));
}

/* --- waiting ----------------------------------------------------------------------------- */

/* One byte of what another process has locked, or all of it. */
static int wait_for_lock(int fd, int kind)
{
	return kind == 0   ? lock(fd, F_SETLKW, F_WRLCK, SEEK_SET, 5, 1)
	       : kind == 1 ? lock(fd, F_OFD_SETLKW, F_WRLCK, SEEK_SET, 5, 1)
			   : flock(fd, LOCK_EX);
}

static void waiting(int fd)
{
	int ready[2], told[2];
	pid_t pid;
	char c;

	CHECK(pipe(ready) == 0 && pipe(told) == 0);
	for (int kind = 0; kind < 3; kind++) {
		pid = child();
		if (!pid) {
			const int mine = open(path, O_RDWR);

			CHECK((kind == 0   ? lock(mine, F_SETLK, F_WRLCK, SEEK_SET, 0, 10)
			       : kind == 1 ? lock(mine, F_OFD_SETLK, F_WRLCK, SEEK_SET, 0, 10)
					   : flock(mine, LOCK_EX)) == 0);
			CHECK(write(ready[1], "r", 1) == 1);
			_exit(read(told[0], &c, 1) != 1);
		}
		CHECK(read(ready[0], &c, 1) == 1);
		alarms_start(0, -1);
		result("interrupted", alarms_end(wait_for_lock(fd, kind)));
		alarms_start(SA_RESTART, told[1]);
		result("gone on", alarms_end(wait_for_lock(fd, kind)));
		printf("holder %d\n", ended(pid));
		lock(fd, F_SETLK, F_UNLCK, SEEK_SET, 0, 0);
		lock(fd, F_OFD_SETLK, F_UNLCK, SEEK_SET, 0, 0);
		flock(fd, LOCK_UN);
	}
	for (int i = 0; i < 2; i++) {
		close(ready[i]);
		close(told[i]);
	}
}

/* Three processes in a ring: the last one that waits is told. */
static void deadlock(int fd)
{
	int ready[2], told[2];
	pid_t pids[3];
	char c;

	CHECK(pipe(ready) == 0 && pipe(told) == 0);
	for (int i = 0; i < 3; i++) {
		pids[i] = child();
		if (!pids[i]) {
			int ret;

			CHECK(lock(fd, F_SETLK, F_WRLCK, SEEK_SET, i, 1) == 0);
			CHECK(write(ready[1], "r", 1) == 1);
			CHECK(read(told[0], &c, 1) == 1);
			ret = lock(fd, F_SETLKW, F_WRLCK, SEEK_SET, (i + 1) % 3, 1);
			_exit(ret == 0 ? 0 : errno == EDEADLK ? 1 : 2);
		}
	}
	for (int i = 0; i < 3; i++)
		CHECK(read(ready[0], &c, 1) == 1);
	CHECK(write(told[1], "ttt", 3) == 3);
	{
		int count[3] = { 0 };

		for (int i = 0; i < 3; i++)
			count[ended(pids[i]) % 3]++;
		printf("deadlock: %d got it, %d told, %d else\n", count[0], count[1], count[2]);
	}
}

/* A counter that only locks protect. */
static void counter(int fd, int how)
{
	unsigned long *count =
		mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	pid_t pids[4];

	CHECK(count != MAP_FAILED);
	CHECK(pwrite(fd, count, sizeof(*count), 0) == sizeof(*count));
	for (int i = 0; i < 4; i++) {
		pids[i] = child();
		if (pids[i])
			continue;
		const int mine = open(path, O_RDWR);

		for (int k = 0; k < 200; k++) {
			if (how == 0)
				CHECK(lock(mine, F_SETLKW, F_WRLCK, SEEK_SET, 0, 8) == 0);
			else if (how == 1)
				CHECK(lock(mine, F_OFD_SETLKW, F_WRLCK, SEEK_SET, 0, 8) == 0);
			else
				CHECK(flock(mine, LOCK_EX) == 0);
			CHECK(pread(mine, count, sizeof(*count), 0) == sizeof(*count));
			if (k % 16 == 0)
				sched_yield();
			(*count)++;
			CHECK(pwrite(mine, count, sizeof(*count), 0) == sizeof(*count));
			if (how == 0)
				CHECK(lock(mine, F_SETLK, F_UNLCK, SEEK_SET, 0, 0) == 0);
			else if (how == 1)
				CHECK(lock(mine, F_OFD_SETLK, F_UNLCK, SEEK_SET, 0, 8) == 0);
			else
				CHECK(flock(mine, LOCK_UN) == 0);
		}
		_exit(0);
	}
	for (int i = 0; i < 4; i++)
		CHECK(ended(pids[i]) == 0);
	CHECK(pread(fd, count, sizeof(*count), 0) == sizeof(*count));
	printf("counter: %lu\n", *count);
}

/* Random ranges by two open files, as two owners, against arrays. */
static void model(void)
{
	enum {
		N = 40
	};
	int fds[2] = { open(path, O_RDWR), open(path, O_RDWR) };
	char held[2][N] = { { 0 } };
	uint64_t rnd = 4711, h = HASH_INIT;

	for (int i = 0; i < 4000; i++) {
		const int who = (int)(next_random(&rnd) % 2), type = (int)(next_random(&rnd) % 3);
		const int start = (int)(next_random(&rnd) % N);
		const int len = 1 + (int)(next_random(&rnd) % (unsigned)(N - start));
		int fits = 1;

		for (int k = start; type != F_UNLCK && k < start + len; k++)
			fits &= !held[!who][k] || (type == F_RDLCK && held[!who][k] == 1);
		CHECK((lock(fds[who], F_OFD_SETLK, type, SEEK_SET, start, len) == 0) == fits);
		if (fits)
			memset(held[who] + start, type == F_UNLCK ? 0 : type + 1, (size_t)len);
		h = hash_bytes(h, held, sizeof(held));
	}
	printf("model: %llx\n", (unsigned long long)h);
	close(fds[0]);
	close(fds[1]);
}

int main(void)
{
	const int fd = mkstemp(path);
	int ro;

	CHECK(fd >= 0);
	CHECK(ftruncate(fd, 128) == 0);
	ro = open(path, O_RDONLY);
	records(fd, ro);
	in_order(fd);
	closing(fd);
	open_files(fd);
	flocks(fd);
	lock_of_a_signalfd();
	waiting(fd);
	deadlock(fd);
	for (int how = 0; how < 3; how++)
		counter(fd, how);
	model();
	close(fd);
	unlink(path);
	return 0;
}
