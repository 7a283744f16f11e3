/* SPDX-License-Identifier: MIT */
/*
 * Asynchronous I/O by its system calls: contexts, requests and their errors, events, waits,
 * eventfds. Prints the same on both.
 */
#include "alarms.h"
#include "user.h"

#include <fcntl.h>
#include <linux/aio_abi.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>

#define NOWAIT 8

static char path[] = "/dev/shm/aios.XXXXXX";
static void *volatile nowhere = (void *)8;
static char buf[8192];

static void result(const char *what, long ret)
{
	printf("%s: %ld%s%s\n", what, ret, ret < 0 ? " " : "", ret < 0 ? strerror(errno) : "");
}

static struct iocb request(int fd, int how, void *at, size_t len, long long off)
{
	return (struct iocb){ .aio_fildes = (uint32_t)fd,
			      .aio_lio_opcode = (uint16_t)how,
			      .aio_buf = (uintptr_t)at,
			      .aio_nbytes = len,
			      .aio_offset = off,
			      .aio_data = 1000 + (uint64_t)how };
}

static long submit(aio_context_t ctx, struct iocb *cb)
{
	return syscall(SYS_io_submit, ctx, 1L, &cb);
}

static void events(const char *what, aio_context_t ctx, long min, long nr,
		   const struct timespec *timeout)
{
	struct io_event ev[8];
	const long n = syscall(SYS_io_getevents, ctx, min, nr, ev, timeout);

	result(what, n);
	for (long i = 0; i < n; i++)
		printf("  data %lld, result %lld %lld\n", (long long)ev[i].data,
		       (long long)ev[i].res, (long long)ev[i].res2);
}

static void one(const char *what, aio_context_t ctx, struct iocb *cb)
{
	const long n = submit(ctx, cb);

	result(what, n);
	if (n == 1)
		events("event", ctx, 1, 1, NULL);
}

static void contexts(void)
{
	aio_context_t a = 0, b = 0;

	result("none", syscall(SYS_io_setup, 0, &a));
	result("too many", syscall(SYS_io_setup, -1, &a));
	result("no address", syscall(SYS_io_setup, 1, NULL));
	result("bad address", syscall(SYS_io_setup, 1, nowhere));
	a = 7;
	result("not zero", syscall(SYS_io_setup, 1, &a));
	a = 0;
	result("one", syscall(SYS_io_setup, 1, &a));
	result("another one", syscall(SYS_io_setup, 100, &b));
	printf("differ: %d\n", a && b && a != b);
	result("destroyed", syscall(SYS_io_destroy, a));
	result("again", syscall(SYS_io_destroy, a));
	events("no context", a, 0, 0, NULL);
	result("no context", submit(a, NULL));
	result("cancel without an address", syscall(SYS_io_cancel, b, NULL, NULL));
	/* Not freed: it goes with the process. */
}

static volatile int racing;

static void *destroy(void *arg)
{
	while (racing)
		(void)syscall(SYS_io_destroy, *(aio_context_t *)arg);
	return NULL;
}

/* The number cannot be told, and another thread guesses it. */
static void not_told(void)
{
	aio_context_t *to = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	aio_context_t guess = 0;
	pthread_t thread;
	int refused = 0;

	CHECK(to != MAP_FAILED && syscall(SYS_io_setup, 1, &guess) == 0);
	CHECK(syscall(SYS_io_destroy, guess) == 0);
	racing = 1;
	CHECK(pthread_create(&thread, NULL, destroy, &guess) == 0);
	for (int i = 0; i < 500; i++)
		refused += syscall(SYS_io_setup, 1, to) < 0 && errno == EFAULT;
	racing = 0;
	CHECK(pthread_join(thread, NULL) == 0);
	printf("not told: %d\n", refused);
}

static void vectors(aio_context_t ctx, int fd)
{
	struct iovec iov[2] = { { buf, 3 }, { buf + 100, 4 } };
	struct iocb cb = request(fd, IOCB_CMD_PREADV, iov, 2, 2);

	one("vectors", ctx, &cb);
	printf("<%.3s> <%.4s>\n", buf, buf + 100);
	cb = request(fd, IOCB_CMD_PWRITEV, iov, 2, 20);
	one("written", ctx, &cb);
	cb = request(fd, IOCB_CMD_PREADV, nowhere, 2, 0);
	one("bad vectors", ctx, &cb);
	cb = request(fd, IOCB_CMD_PREADV, iov, 5000, 0);
	one("too many vectors", ctx, &cb);
}

static void requests(aio_context_t ctx)
{
	const int fd = open(path, O_RDWR), rd = open(path, O_RDONLY);
	struct iocb cb, other, *list[3];
	int ends[2];

	CHECK(fd >= 0 && rd >= 0 && pipe(ends) == 0);
	cb = request(fd, IOCB_CMD_PWRITE, "hello, world", 12, 0);
	one("write", ctx, &cb);
	cb = request(rd, IOCB_CMD_PREAD, buf, 100, 7);
	one("read", ctx, &cb);
	printf("<%.5s>\n", buf);
	cb = request(rd, IOCB_CMD_PREAD, buf, 100, 700);
	one("behind the end", ctx, &cb);
	cb = request(rd, IOCB_CMD_PREAD, nowhere, 5, 0);
	one("nowhere", ctx, &cb);
	cb = request(rd, IOCB_CMD_PREAD, buf, 5, -1);
	one("negative offset", ctx, &cb);
	cb = request(rd, IOCB_CMD_PWRITE, buf, 5, 0);
	one("not to be written", ctx, &cb);
	cb = request(-1, IOCB_CMD_PREAD, buf, 5, 0);
	one("no descriptor", ctx, &cb);
	cb = request(fd, 99, buf, 5, 0);
	one("no command", ctx, &cb);
	cb = request(fd, IOCB_CMD_PREAD, buf, (size_t)-1, 0);
	one("negative length", ctx, &cb);
	cb = request(fd, IOCB_CMD_PREAD, buf, 5, 0);
	cb.aio_reserved2 = 1;
	one("reserved", ctx, &cb);
	cb = request(ends[0], IOCB_CMD_PREAD, buf, 5, 0);
	cb.aio_rw_flags = NOWAIT;
	one("empty pipe", ctx, &cb);
	CHECK(write(ends[1], "piped", 5) == 5);
	one("pipe", ctx, &cb);
	cb = request(ends[1], IOCB_CMD_PWRITE, buf, 5, 0);
	one("to the pipe", ctx, &cb);
	cb.aio_rw_flags = 1 << 20;
	one("unknown flags", ctx, &cb);
	vectors(ctx, fd);

	other = request(fd, IOCB_CMD_PREAD, buf, 2, 0);
	cb = request(fd, IOCB_CMD_PREAD, buf, 1, 0);
	list[0] = &cb;
	list[1] = &other;
	list[2] = nowhere;
	result("two of three", syscall(SYS_io_submit, ctx, 3L, list));
	result("one of them is nowhere", syscall(SYS_io_submit, ctx, 1L, list + 2));
	result("a list that is nowhere", syscall(SYS_io_submit, ctx, 1L, nowhere));
	result("no list", syscall(SYS_io_submit, ctx, 0L, NULL));
	result("fewer than none", syscall(SYS_io_submit, ctx, -1L, list));
	events("more than are asked for", ctx, 3, 2, NULL);
	events("fewer than none", ctx, -1, 2, NULL);
	events("one", ctx, 1, 1, NULL);
	events("the rest", ctx, 0, 8, NULL);
	result("cancel", syscall(SYS_io_cancel, ctx, &cb, NULL));
	close(fd);
	close(rd);
	close(ends[0]);
	close(ends[1]);
}

static void *later(void *arg)
{
	const aio_context_t ctx = *(aio_context_t *)arg;
	const int fd = open(path, O_RDONLY);
	struct iocb cb = request(fd, IOCB_CMD_PREAD, buf, 5, 0);

	usleep(20000);
	CHECK(submit(ctx, &cb) == 1);
	close(fd);
	return NULL;
}

static void waits(aio_context_t ctx)
{
	const struct timespec soon = { 0, 20000000 }, none = { 0, 0 }, bad = { 0, 1000000000 };
	struct io_event ev;
	pthread_t thread;

	events("none are there", ctx, 0, 1, NULL);
	events("not in time", ctx, 1, 1, &soon);
	events("at once", ctx, 1, 1, &none);
	events("bad time", ctx, 1, 1, &bad);
	CHECK(pthread_create(&thread, NULL, later, &ctx) == 0);
	events("another thread's", ctx, 1, 1, NULL);
	CHECK(pthread_join(thread, NULL) == 0);
	alarms_start(0, -1);
	result("interrupted", alarms_end(syscall(SYS_io_getevents, ctx, 1L, 1L, &ev, NULL)));
	result("with a mask", syscall(SYS_io_pgetevents, ctx, 1L, 1L, &ev, &none, NULL));
}

static void told(aio_context_t ctx)
{
	const int fd = open(path, O_RDONLY), efd = eventfd(0, 0);
	struct iocb cb = request(fd, IOCB_CMD_PREAD, buf, 5, 0);
	uint64_t count = 0;

	CHECK(fd >= 0 && efd >= 0);
	cb.aio_flags = IOCB_FLAG_RESFD;
	cb.aio_resfd = (uint32_t)efd;
	CHECK(submit(ctx, &cb) == 1 && submit(ctx, &cb) == 1);
	CHECK(read(efd, &count, sizeof(count)) == sizeof(count));
	printf("told of %d\n", (int)count);
	events("both", ctx, 2, 2, NULL);
	cb.aio_resfd = (uint32_t)fd;
	one("not an eventfd", ctx, &cb);
	cb.aio_resfd = 999;
	one("no descriptor", ctx, &cb);
	close(efd);
	close(fd);
}

/* A child has none of its parent's. */
static void forked(aio_context_t ctx)
{
	pid_t pid;

	fflush(stdout);
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		events("a child's", ctx, 0, 1, NULL);
		fflush(stdout);
		_exit(0);
	}
	CHECK(waitpid(pid, NULL, 0) == pid);
}

int main(void)
{
	const int made = mkstemp(path);
	aio_context_t ctx = 0;

	CHECK(made >= 0);
	close(made);
	contexts();
	not_told();
	CHECK(syscall(SYS_io_setup, 8, &ctx) == 0);
	requests(ctx);
	waits(ctx);
	told(ctx);
	forked(ctx);
	result("destroyed", syscall(SYS_io_destroy, ctx));
	unlink(path);
	return 0;
}
