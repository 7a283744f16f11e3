/* SPDX-License-Identifier: MIT */
/*
 * splice, tee and vmsplice between pipes, files and sockets: what arrives, what stays, offsets and
 * errors. Prints the same on both.
 */
#include "call.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>

static int *volatile nowhere = (int *)8;
static char buf[300000], more[300000] __attribute__((aligned(4096)));
static volatile sig_atomic_t pipes_broken;

static void broken(int signo __attribute__((unused)))
{
	pipes_broken++;
}

static int file(const char *text)
{
	const int fd = memfd_create("splices", 0);

	CHECK(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
	CHECK(lseek(fd, 0, SEEK_SET) == 0);
	return fd;
}

/* All that the pipe has now. */
static void rest(const char *what, int fd)
{
	int n = 0;

	CHECK(ioctl(fd, FIONREAD, &n) == 0);
	if (n) {
		CHECK(n < 200 && read(fd, buf, (size_t)n) == n);
		printf("%s: <%.*s>\n", what, n, buf);
	} else {
		printf("%s: nothing\n", what);
	}
}

static void from_files(void)
{
	const int fd = file("0123456789abcdefghij");
	loff_t off = 5;
	int p[2];

	CHECK(pipe(p) == 0);
	call("three", splice(fd, NULL, p[1], NULL, 3, 0));
	call("five more", splice(fd, NULL, p[1], NULL, 5, SPLICE_F_MORE));
	call("offset", splice(fd, &off, p[1], NULL, 4, SPLICE_F_MOVE));
	printf("at %d, %d\n", (int)off, (int)lseek(fd, 0, SEEK_CUR));
	rest("in the pipe", p[0]);
	call("the rest", splice(fd, NULL, p[1], NULL, 1000, 0));
	call("the end", splice(fd, NULL, p[1], NULL, 1000, 0));
	rest("in the pipe", p[0]);
	off = 100;
	call("behind it", splice(fd, &off, p[1], NULL, 10, 0));
	off = -1;
	call("before it", splice(fd, &off, p[1], NULL, 10, 0));
	call("no length", splice(fd, NULL, p[1], NULL, 0, 0));
	call("flags", splice(fd, NULL, p[1], NULL, 1, 0x10));
	call("no pipe", splice(fd, NULL, fd, NULL, 1, 0));
	call("wrong end", splice(fd, NULL, p[0], NULL, 1, 0));
	call("wrong end too", splice(p[1], NULL, fd, NULL, 1, 0));
	call("offset of a pipe", splice(fd, NULL, p[1], &off, 1, 0));
	call("closed", splice(99, NULL, p[1], NULL, 1, 0));
	call("closed too", splice(fd, NULL, 99, NULL, 1, 0));
	call("nowhere", splice(fd, (void *)nowhere, p[1], NULL, 1, 0));
	call("directory", splice(open("/", O_RDONLY), NULL, p[1], NULL, 1, 0));
	/* No more than there is room for. */
	CHECK(ftruncate(fd, 200000) == 0);
	off = 0;
	call("all that fits", splice(fd, &off, p[1], NULL, 200000, 0));
	call("full", splice(fd, &off, p[1], NULL, 200000, SPLICE_F_NONBLOCK));
	printf("at %d\n", (int)off);
	close(p[0]);
	call("nobody reads", splice(fd, NULL, p[1], NULL, 1, 0));
	printf("SIGPIPE %d\n", (int)pipes_broken);
	close(p[1]);
	close(fd);
}

static void to_files(void)
{
	const int fd = file("----------");
	loff_t off = 2;
	int p[2], s[2];

	CHECK(pipe(p) == 0);
	call("empty", splice(p[0], NULL, fd, NULL, 10, SPLICE_F_NONBLOCK));
	CHECK(write(p[1], "abcdef", 6) == 6);
	call("three", splice(p[0], NULL, fd, &off, 3, 0));
	call("others", splice(p[0], NULL, fd, NULL, 100, 0));
	printf("at %d, %d\n", (int)off, (int)lseek(fd, 0, SEEK_CUR));
	CHECK(pread(fd, buf, 100, 0) == 10);
	printf("<%.10s>\n", buf);
	CHECK(write(p[1], "xyz", 3) == 3);
	CHECK(fcntl(fd, F_SETFL, O_APPEND) == 0);
	call("append", splice(p[0], NULL, fd, NULL, 3, 0));
	CHECK(fcntl(fd, F_SETFL, 0) == 0);
	/* A file that takes nothing: all is there for the next reader, in order. */
	CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, s) == 0 && close(s[1]) == 0);
	call("hung up", splice(p[0], NULL, s[0], NULL, 3, 0));
	close(s[0]);
	CHECK(write(p[1], "!", 1) == 1);
	rest("is left", p[0]);
	CHECK(write(p[1], "gone", 4) == 4);
	call("null", splice(p[0], NULL, open("/dev/null", O_WRONLY), NULL, 100, 0));
	close(p[1]);
	call("nobody writes", splice(p[0], NULL, fd, NULL, 10, 0));
	close(p[0]);
	close(fd);
}

static void between_pipes(void)
{
	int p[2], q[2];
	loff_t off = 0;

	CHECK(pipe(p) == 0 && pipe(q) == 0);
	CHECK(write(p[1], "from one to the other", 21) == 21);
	call("the same", splice(p[0], NULL, p[1], NULL, 5, 0));
	call("offset", splice(p[0], &off, q[1], NULL, 5, 0));
	call("tee", tee(p[0], q[1], 8, 0));
	rest("a copy", q[0]);
	call("tee", tee(p[0], q[1], 100, 0));
	call("splice", splice(p[0], NULL, q[1], NULL, 8, 0));
	rest("copy and part", q[0]);
	rest("the rest", p[0]);
	call("empty tee", tee(p[0], q[1], 1, SPLICE_F_NONBLOCK));
	call("empty splice", splice(p[0], NULL, q[1], NULL, 1, SPLICE_F_NONBLOCK));
	call("tee with itself", tee(p[0], p[1], 1, 0));
	call("tee no pipe", tee(file("x"), p[1], 1, 0));
	call("tee wrong end", tee(p[1], q[1], 1, 0));
	call("tee flags", tee(p[0], q[1], 1, 0x20));
	close(p[1]);
	call("tee nobody writes", tee(p[0], q[1], 1, 0));
	call("splice nobody writes", splice(p[0], NULL, q[1], NULL, 1, 0));
	close(p[0]);
	close(q[0]);
	close(q[1]);
}

static void memory(void)
{
	struct iovec v[3] = { { "first ", 6 }, { NULL, 0 }, { "second", 6 } };
	struct iovec large = { more, sizeof(more) };
	struct iovec bad[2] = { { "good", 4 }, { nowhere, 4 } };
	int p[2];

	CHECK(pipe(p) == 0);
	call("in", vmsplice(p[1], v, 3, 0));
	v[0] = (struct iovec){ buf, 4 };
	v[2] = (struct iovec){ buf + 4, 100 };
	call("out", vmsplice(p[0], v, 3, 0));
	printf("<%.12s>\n", buf);
	call("nothing", vmsplice(p[1], v, 0, 0));
	call("empty", vmsplice(p[0], v, 3, SPLICE_F_NONBLOCK));
	call("no pipe", vmsplice(file("x"), v, 3, 0));
	call("closed", vmsplice(99, v, 3, 0));
	call("flags", vmsplice(p[1], v, 3, 0x10));
	call("nowhere", vmsplice(p[1], (void *)nowhere, 1, 0));
	call("many", vmsplice(p[1], v, 1025, 0));
	call("bad memory", vmsplice(p[1], bad + 1, 1, 0));
	call("room", vmsplice(p[1], &large, 1, 0));
	call("full", vmsplice(p[1], &large, 1, SPLICE_F_NONBLOCK));
	close(p[0]);
	call("nobody reads", vmsplice(p[1], &large, 1, 0));
	printf("SIGPIPE %d\n", (int)pipes_broken);
	close(p[1]);
}

/* A megabyte through a socket, a pipe and a second process, into a file. */
static void relay(void)
{
	const int out = memfd_create("relay", 0);
	int s[2], p[2], status;
	uint64_t h = HASH_INIT, r = 1;
	pid_t pid;

	CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, s) == 0 && pipe(p) == 0);
	fflush(stdout);
	pid = fork();
	if (!pid) {
		close(s[0]);
		for (int i = 0; i < 1 << 20; i += 4096) {
			for (int j = 0; j < 4096; j++)
				buf[j] = (char)next_random(&r);
			CHECK(write(s[1], buf, 4096) == 4096);
		}
		_exit(0);
	}
	close(s[1]);
	pid = fork();
	if (!pid) {
		ssize_t n;

		close(p[0]);
		while ((n = splice(s[0], NULL, p[1], NULL, 1 << 20, 0)) > 0)
			;
		_exit(n != 0);
	}
	close(p[1]);
	while (splice(p[0], NULL, out, NULL, 1 << 20, 0) > 0)
		;
	for (int i = 0; i < 2; i++) {
		CHECK(wait(&status) > 0);
		printf("status %d\n", status);
	}
	CHECK(lseek(out, 0, SEEK_SET) == 0);
	for (ssize_t n; (n = read(out, buf, sizeof(buf))) > 0;)
		h = hash_bytes(h, buf, (size_t)n);
	printf("hash %#lx\n", (unsigned long)h);
}

int main(void)
{
	struct sigaction sa = { .sa_handler = broken };

	sigaction(SIGPIPE, &sa, NULL);
	from_files();
	to_files();
	between_pipes();
	memory();
	relay();
	return 0;
}
