/* SPDX-License-Identifier: MIT */
/*
 * Pipes as one program sees them: what fits, what a read and a write return, packets, sizes,
 * errors, poll. Prints the same on both.
 */
#include "user.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>

static char buf[300000];

static void result(const char *what, long ret)
{
	printf("%s: %ld%s%s\n", what, ret, ret < 0 ? " " : "",
	       ret < 0 ? strerrorname_np(errno) : "");
}

static int pending(int fd)
{
	int n = -1;

	CHECK(ioctl(fd, FIONREAD, &n) == 0);
	return n;
}

/* Writes of @size until the pipe says no. */
static void fill(const char *what, int fds[2], size_t size)
{
	long total = 0, n, calls = 0;

	while ((n = write(fds[1], buf, size)) > 0) {
		total += n;
		calls++;
	}
	printf("%s: %ld writes, %ld bytes, then %s, pending %d\n", what, calls, total,
	       strerrorname_np(errno), pending(fds[0]));
}

static void drain(int fd, size_t size)
{
	long total = 0, n, calls = 0;

	while ((n = read(fd, buf, size)) > 0) {
		total += n;
		calls++;
	}
	printf("drained by %zu: %ld reads, %ld bytes, then %s\n", size, calls, total,
	       n ? strerrorname_np(errno) : "end");
}

static void capacity(void)
{
	static const size_t sizes[] = { 1,    7,    100,  1000,  2048,  3000,  4095,  4096,
					4097, 5000, 8191, 10000, 65535, 65536, 65537, 200000 };
	static const size_t reads[] = { 1, 3, 4096, 5000, 300000 };
	int fds[2];

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		char what[32];

		CHECK(pipe2(fds, O_NONBLOCK) == 0);
		snprintf(what, sizeof(what), "by %zu", sizes[i]);
		fill(what, fds, sizes[i]);
		drain(fds[0], reads[i % 5]);
		/* Once more, from the middle. */
		fill(what, fds, sizes[i]);
		result("some", read(fds[0], buf, 5001));
		fill(what, fds, sizes[i]);
		close(fds[1]);
		drain(fds[0], reads[(i + 2) % 5]);
		close(fds[0]);
	}
}

static void contents(void)
{
	uint64_t rnd = 88172645463325252UL, in = HASH_INIT, out = HASH_INIT;
	int fds[2];

	CHECK(pipe2(fds, O_NONBLOCK) == 0);
	for (int i = 0; i < 20000; i++) {
		size_t size = next_random(&rnd) % (i % 10 ? 700 : 70000) + 1;
		ssize_t n;

		if (next_random(&rnd) & 1) {
			for (size_t k = 0; k < size; k += 8)
				memcpy(buf + k, &(uint64_t){ next_random(&rnd) }, 8);
			n = write(fds[1], buf, size);
			if (n > 0)
				in = hash_bytes(in, buf, (size_t)n);
		} else {
			n = read(fds[0], buf, size);
			if (n > 0)
				out = hash_bytes(out, buf, (size_t)n);
		}
	}
	close(fds[1]);
	for (ssize_t n; (n = read(fds[0], buf, 999)) > 0;)
		out = hash_bytes(out, buf, (size_t)n);
	printf("contents: %s\n", in == out ? "equal" : "DIFFERENT");
	close(fds[0]);
}

static void vectors(void)
{
	char a[10] = "abcdefghi", b[10] = "jklmnopqr", c[32] = "";
	const struct iovec out[3] = { { a, 9 }, { NULL, 0 }, { b, 9 } };
	const struct iovec in[2] = { { c, 4 }, { c + 4, 20 } };
	int fds[2];

	CHECK(pipe2(fds, O_NONBLOCK) == 0);
	result("writev", writev(fds[1], out, 3));
	result("readv", readv(fds[0], in, 2));
	printf("got %s\n", c);
	result("nothing from an empty pipe", read(fds[0], c, 0));
	result("nothing to a pipe", write(fds[1], c, 0));
	result("empty", read(fds[0], c, 1));
	close(fds[0]);
	close(fds[1]);
}

static volatile int nr_sigpipe;

static void on_sigpipe(int signo, siginfo_t *info, void *uc)
{
	(void)signo;
	(void)uc;
	nr_sigpipe++;
	if (info->si_code != SI_USER || info->si_pid != getpid())
		nr_sigpipe += 100;
}

static void broken(void)
{
	const struct sigaction sa = { .sa_sigaction = on_sigpipe, .sa_flags = SA_SIGINFO };
	int fds[2], more;

	CHECK(sigaction(SIGPIPE, &sa, NULL) == 0);
	CHECK(pipe(fds) == 0);
	more = dup(fds[0]);
	close(fds[0]);
	result("one reader left", write(fds[1], buf, 10));
	close(more);
	result("no reader", write(fds[1], buf, 10));
	result("no reader, nothing", write(fds[1], buf, 0));
	printf("SIGPIPE %d\n", nr_sigpipe);
	close(fds[1]);

	CHECK(pipe(fds) == 0);
	more = dup(fds[1]);
	close(fds[1]);
	result("last words", write(more, buf, 5));
	close(more);
	result("read them", read(fds[0], buf, 100));
	result("end", read(fds[0], buf, 100));
	result("end again", read(fds[0], buf, 100));
	close(fds[0]);
}

static void wrong(void)
{
	struct stat st;
	int fds[2];

	CHECK(pipe(fds) == 0);
	result("read the write end", read(fds[1], buf, 1));
	result("write the read end", write(fds[0], buf, 1));
	result("seek", lseek(fds[0], 0, SEEK_SET));
	result("pread", pread(fds[0], buf, 1, 0));
	result("pwrite", pwrite(fds[1], buf, 1, 0));
	result("fsync", fsync(fds[1]));
	result("ftruncate", ftruncate(fds[1], 0));
	result("isatty", isatty(fds[0]));
	result("flags", pipe2(fds, 1));
	result("nowhere", syscall(SYS_pipe2, 8L, 0));
	result("unknown ioctl", ioctl(fds[0], 0x12345, 0));
	CHECK(fstat(fds[0], &st) == 0);
	printf("mode %o, links %d, size %d, block %d\n", st.st_mode, (int)st.st_nlink,
	       (int)st.st_size, (int)st.st_blksize);
	CHECK(fcntl(fds[0], F_GETFL) == O_RDONLY && fcntl(fds[1], F_GETFL) == O_WRONLY);
	CHECK(fcntl(fds[0], F_GETFD) == 0);
	close(fds[0]);
	close(fds[1]);
	CHECK(pipe2(fds, O_CLOEXEC | O_NONBLOCK | O_DIRECT) == 0);
	printf("flags %o %o, %d %d\n", fcntl(fds[0], F_GETFL), fcntl(fds[1], F_GETFL),
	       fcntl(fds[0], F_GETFD), fcntl(fds[1], F_GETFD));
	close(fds[0]);
	close(fds[1]);
}

/* Two pages, the second cannot be touched. */
static char *cliff(void)
{
	char *p = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(p != MAP_FAILED);
	memset(p, 'c', PAGE);
	CHECK(mprotect(p + PAGE, PAGE, PROT_NONE) == 0);
	return p + PAGE;
}

static void faults(void)
{
	char *edge = cliff();
	struct iovec iov[2] = { { edge - 100, 100 }, { edge, 100 } };
	int fds[2];

	CHECK(pipe2(fds, O_NONBLOCK) == 0);
	result("write nothing readable", write(fds[1], edge, 10));
	result("write half", write(fds[1], edge - 10, 20));
	result("merge half", write(fds[1], edge - 10, 20));
	result("writev half", writev(fds[1], iov, 2));
	printf("pending %d\n", pending(fds[0]));
	drain(fds[0], 1000);
	result("write pages", write(fds[1], buf, 10000));
	result("read nowhere", read(fds[0], edge, 10));
	result("read half", read(fds[0], edge - 10, 20));
	result("read over a page", read(fds[0], edge - 4096, 5000));
	iov[0].iov_base = edge - 4096;
	iov[0].iov_len = 4096;
	result("readv half", readv(fds[0], iov, 2));
	printf("pending %d\n", pending(fds[0]));
	result("kernel address", read(fds[0], (void *)0xffff888000000000UL, 10));
	close(fds[0]);
	close(fds[1]);
}

static void packets(void)
{
	int fds[2];

	CHECK(pipe2(fds, O_NONBLOCK | O_DIRECT) == 0);
	result("packet", write(fds[1], "one", 3));
	result("packet", write(fds[1], "two!", 4));
	result("large packet", write(fds[1], buf, 6000));
	printf("pending %d\n", pending(fds[0]));
	result("one", read(fds[0], buf, 100));
	result("half of two", read(fds[0], buf, 2));
	result("first part", read(fds[0], buf, 10000));
	result("second part", read(fds[0], buf, 10000));
	fill("packets of one byte", fds, 1);
	CHECK(fcntl(fds[1], F_SETFL, O_NONBLOCK) == 0);
	result("one away", read(fds[0], buf, 100));
	result("stream", write(fds[1], "abc", 3));
	CHECK(fcntl(fds[1], F_SETFL, O_NONBLOCK | O_DIRECT) == 0);
	printf("flags %o\n", fcntl(fds[1], F_GETFL));
	drain(fds[0], 100);
	close(fds[0]);
	close(fds[1]);
}

static void sizes(void)
{
	static const int asks[] = { 0, 1, 4096, 4097, 65536, 100000, 1048576, 8192, -1 };
	int fds[2];

	CHECK(pipe2(fds, O_NONBLOCK) == 0);
	printf("default %d\n", fcntl(fds[0], F_GETPIPE_SZ));
	for (size_t i = 0; i < sizeof(asks) / sizeof(asks[0]); i++) {
		result("resize", fcntl(fds[i % 2], F_SETPIPE_SZ, asks[i]));
		printf("now %d\n", fcntl(fds[1], F_GETPIPE_SZ));
		if (i == 3)
			fill("fill the small one", fds, 1000);
		if (i == 5)
			fill("fill the large one", fds, 5000);
	}
	drain(fds[0], 1234);
	result("smaller", fcntl(fds[0], F_SETPIPE_SZ, 4096));
	fill("one page", fds, 3);
	result("not a pipe", fcntl(open("/dev/null", O_RDONLY), F_GETPIPE_SZ));
	close(fds[0]);
	close(fds[1]);
}

static void events(const char *what, int fds[2])
{
	struct pollfd p[2] = { { .fd = fds[0], .events = ~0 }, { .fd = fds[1], .events = ~0 } };
	const int n = poll(p, 2, 0);

	printf("%s: %d, %x %x\n", what, n, p[0].revents, p[1].revents);
}

static void polls(void)
{
	int fds[2], second[2];

	CHECK(pipe2(fds, O_NONBLOCK) == 0);
	events("empty", fds);
	CHECK(write(fds[1], "x", 1) == 1);
	events("one byte", fds);
	fill("full", fds, 4096);
	events("full", fds);
	CHECK(read(fds[0], buf, 1) == 1);
	events("a slot", fds);
	CHECK(read(fds[0], buf, 100) == 100);
	events("part of a slot", fds);
	CHECK(pipe(second) == 0);
	dup2(second[1], fds[1]);
	events("no writer", (int[]){ fds[0], second[1] });
	drain(fds[0], 100000);
	events("no writer, empty", (int[]){ fds[0], second[1] });
	close(second[0]);
	events("no reader", (int[]){ fds[0], second[1] });
}

int main(void)
{
	for (size_t i = 0; i < sizeof(buf); i++)
		buf[i] = (char)(i * 31);
	capacity();
	contents();
	vectors();
	broken();
	wrong();
	faults();
	packets();
	sizes();
	polls();
	return 0;
}
