/* SPDX-License-Identifier: MIT */
/*
 * Pipes, eventfds, poll and epoll between processes: waiting tasks are woken, records of up to
 * PIPE_BUF bytes stay whole, ends are seen, signals end waits with what was moved. Prints the same
 * on both.
 */
#include "alarms.h"
#include "state.h"
#include "user.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/wait.h>

static char buf[1 << 20];

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

/* --- a stream of known bytes, in pieces of every size --------------------------------- */

static void stream(size_t total)
{
	uint64_t rnd = 12345, in = HASH_INIT, out = HASH_INIT;
	int fds[2];
	pid_t pid;

	for (size_t i = 0; i < sizeof(buf); i += 8)
		memcpy(buf + i, &(uint64_t){ next_random(&rnd) }, 8);
	CHECK(pipe(fds) == 0);
	pid = child();
	if (!pid) {
		close(fds[0]);
		for (size_t done = 0; done < total;) {
			const size_t at = done % (sizeof(buf) / 2);
			size_t n = next_random(&rnd) % (next_random(&rnd) % 8 ? 5000 : 200000) + 1;

			n = n < total - done ? n : total - done;
			CHECK(write(fds[1], buf + at, n) == (ssize_t)n);
			done += n;
		}
		_exit(0);
	}
	close(fds[1]);
	for (size_t done = 0;;) {
		static char got[300000];
		const ssize_t n = read(fds[0], got, next_random(&rnd) % sizeof(got) + 1);

		CHECK(n >= 0);
		if (!n) {
			printf("stream: %zu bytes\n", done);
			break;
		}
		for (ssize_t i = 0; i < n; i++) {
			in = hash_word(in, (unsigned char)got[i]);
			done++;
		}
	}
	/* The writer's pieces follow from the same numbers. */
	rnd = 12345;
	for (size_t i = 0; i < sizeof(buf); i += 8)
		next_random(&rnd);
	for (size_t done = 0; done < total;) {
		const size_t at = done % (sizeof(buf) / 2);
		size_t n = next_random(&rnd) % (next_random(&rnd) % 8 ? 5000 : 200000) + 1;

		n = n < total - done ? n : total - done;
		out = hash_bytes(out, buf + at, n);
		done += n;
	}
	printf("contents: %s, writer %d\n", in == out ? "equal" : "DIFFERENT", ended(pid));
	close(fds[0]);
}

/* --- many writers, many readers -------------------------------------------------------- */

#define WRITERS 5
#define READERS 3
#define RECORDS 400

struct record {
	uint32_t len, writer, number, sum;
	unsigned char data[];
};

static uint32_t sum_of(const struct record *r)
{
	return (uint32_t)hash_bytes(HASH_INIT + r->writer + r->number, r->data,
				    r->len - sizeof(*r));
}

static int write_records(int fd, unsigned writer)
{
	struct record *r = (struct record *)buf;
	uint64_t rnd = writer + 77;

	for (unsigned i = 0; i < RECORDS; i++) {
		r->len = 64 * (1 + (uint32_t)(next_random(&rnd) % 64)); /* up to PIPE_BUF */
		r->writer = writer;
		r->number = i;
		memset(r->data, (int)(i + writer), r->len - sizeof(*r));
		r->sum = sum_of(r);
		if (write(fd, r, r->len) != (ssize_t)r->len)
			return 1;
	}
	return 0;
}

/* One reader at a time: a lock made of a pipe with one byte in it. */
static int read_records(int fd, int lock[2])
{
	struct record *r = (struct record *)buf;
	int n = 0;

	for (;;) {
		ssize_t got;
		char token;

		if (read(lock[0], &token, 1) != 1)
			return 255;
		got = read(fd, r, 64);
		if (got == 64 && r->len > 64) {
			size_t have = 64;

			while (have < r->len) {
				got = read(fd, buf + have, r->len - have);
				if (got <= 0)
					return 254;
				have += (size_t)got;
			}
		}
		if (write(lock[1], "t", 1) != 1)
			return 253;
		if (got == 0)
			return n;
		if (r->sum != sum_of(r) || r->writer >= WRITERS)
			return 252;
		n++;
		if (n == 250)
			return n;
	}
}

static void records(void)
{
	int fds[2], lock[2], left = WRITERS * RECORDS, bad = 0;
	pid_t w[WRITERS];

	CHECK(pipe(fds) == 0 && pipe(lock) == 0);
	for (unsigned i = 0; i < WRITERS; i++) {
		w[i] = child();
		if (!w[i])
			_exit(write_records(fds[1], i));
	}
	close(fds[1]);
	CHECK(write(lock[1], "t", 1) == 1);
	/* Readers take up to 250 records each, one after the other and some at once. */
	while (left > 0) {
		pid_t r[READERS];

		for (int i = 0; i < READERS; i++) {
			r[i] = child();
			if (!r[i])
				_exit(read_records(fds[0], lock));
		}
		for (int i = 0; i < READERS; i++) {
			const int n = ended(r[i]);

			bad += n > 250;
			left -= n;
		}
		if (bad)
			break;
	}
	for (unsigned i = 0; i < WRITERS; i++)
		bad += ended(w[i]);
	printf("records: %d left, %d bad\n", left, bad);
	close(fds[0]);
	close(lock[0]);
	close(lock[1]);
}

/* --- signals ---------------------------------------------------------------------------- */

static void interrupted(int fds[2])
{
	int told[2], n;
	pid_t pid;
	char c;

	CHECK(pipe(told) == 0);
	alarms_start(0, -1);
	result("read", alarms_end(read(fds[0], buf, 10)));
	alarms_start(0, -1);
	result("write, as much as fits", alarms_end(write(fds[1], buf, 100000)));
	CHECK(ioctl(fds[0], FIONREAD, &n) == 0);
	printf("in it %d\n", n);
	alarms_start(0, -1);
	result("write, nothing fits", alarms_end(write(fds[1], buf, 100)));
	/* With SA_RESTART it goes on until somebody reads. */
	pid = child();
	if (!pid)
		_exit(read(told[0], &c, 1) != 1 || read(fds[0], buf, 65536) != 65536);
	alarms_start(SA_RESTART, told[1]);
	result("write goes on", alarms_end(write(fds[1], buf, 100)));
	printf("reader %d\n", ended(pid));
	CHECK(read(fds[0], buf, 1000) == 100);
	pid = child();
	if (!pid)
		_exit(read(told[0], &c, 1) != 1 || write(fds[1], "late", 4) != 4);
	alarms_start(SA_RESTART, told[1]);
	result("read goes on", alarms_end(read(fds[0], buf, 1000)));
	printf("writer %d\n", ended(pid));
	close(told[0]);
	close(told[1]);
}

static void signals(void)
{
	int fds[2];
	pid_t pid;

	CHECK(pipe(fds) == 0);
	interrupted(fds);
	/* A waiting process can be killed. */
	pid = child();
	if (!pid)
		_exit((int)read(fds[0], buf, 1));
	await_asleep(pid);
	kill(pid, SIGKILL);
	printf("killed reader %d\n", ended(pid));
	pid = child();
	if (!pid)
		_exit((int)write(fds[1], buf, sizeof(buf)) & 1);
	await_asleep(pid);
	kill(pid, SIGTERM);
	printf("killed writer %d\n", ended(pid));
	/* A writer that waits sees the last reader go. */
	pid = child();
	if (!pid) {
		close(fds[0]);
		(void)!write(fds[1], buf, sizeof(buf));
		_exit(0);
	}
	await_asleep(pid);
	close(fds[0]);
	printf("writer without a reader %d\n", ended(pid));
	close(fds[1]);
}

/* --- waiting for several ---------------------------------------------------------------- */

/*
 * The parent says that it is about to wait; what it waits for then comes when it sleeps, and
 * nothing else does.
 */
static void next_step(int turn)
{
	char c;

	CHECK(read(turn, &c, 1) == 1);
	await_asleep(getppid());
}

static void waiting(void)
{
	int fds[2], turn[2], ep = epoll_create1(0), efd = eventfd(0, 0);
	struct epoll_event ev = { .events = EPOLLIN, .data.u64 = 1 };
	struct pollfd p[2];
	uint64_t n;
	pid_t pid;

	CHECK(pipe(fds) == 0 && pipe(turn) == 0);
	pid = child();
	if (!pid) {
		n = 3;
		next_step(turn[0]);
		CHECK(write(fds[1], "x", 1) == 1);
		next_step(turn[0]);
		CHECK(write(efd, &n, 8) == 8);
		next_step(turn[0]);
		CHECK(write(fds[1], "y", 1) == 1);
		next_step(turn[0]);
		CHECK(write(fds[1], "z", 1) == 1);
		next_step(turn[0]);
		_exit(0);
	}
	close(fds[1]);
	p[0] = (struct pollfd){ fds[0], POLLIN, 0 };
	p[1] = (struct pollfd){ efd, POLLIN, 0 };
	CHECK(write(turn[1], "t", 1) == 1);
	result("poll", poll(p, 2, -1));
	printf("%x %x, %zd\n", p[0].revents, p[1].revents, read(fds[0], buf, 10));
	CHECK(write(turn[1], "t", 1) == 1);
	result("poll", poll(p, 2, 60000));
	printf("%x %x\n", p[0].revents, p[1].revents);
	result("eventfd", read(efd, &n, 8));
	printf("%llu\n", (unsigned long long)n);
	CHECK(epoll_ctl(ep, EPOLL_CTL_ADD, fds[0], &ev) == 0);
	ev.data.u64 = 2;
	CHECK(epoll_ctl(ep, EPOLL_CTL_ADD, efd, &ev) == 0);
	for (int i = 0; i < 3; i++) {
		CHECK(write(turn[1], "t", 1) == 1);
		result("epoll", epoll_wait(ep, &ev, 1, -1));
		printf("%llu %x, ", (unsigned long long)ev.data.u64, ev.events);
		result("read", read(fds[0], buf, 1));
	}
	printf("child %d\n", ended(pid));
	close(turn[0]);
	close(turn[1]);
	close(fds[0]);
	close(efd);
	close(ep);
}

/* --- a hundred pipes in a row ----------------------------------------------------------- */

static void row(int length)
{
	int first[2], in, status = 0;
	pid_t pids[128];

	CHECK(pipe(first) == 0);
	in = first[0];
	for (int i = 0; i < length; i++) {
		int next[2];

		CHECK(pipe(next) == 0);
		pids[i] = child();
		if (!pids[i]) {
			ssize_t n;

			close(first[1]);
			close(next[0]);
			while ((n = read(in, buf, 4096)) > 0) {
				for (ssize_t k = 0; k < n; k++)
					buf[k]++;
				CHECK(write(next[1], buf, (size_t)n) == n);
			}
			_exit(0);
		}
		close(in);
		close(next[1]);
		in = next[0];
	}
	memset(buf, 0, 10000);
	CHECK(write(first[1], buf, 10000) == 10000);
	close(first[1]);
	for (int total = 0;;) {
		const ssize_t n = read(in, buf, sizeof(buf));

		for (ssize_t i = 0; i < n; i++)
			status |= buf[i] != length;
		total += (int)n;
		if (n <= 0) {
			printf("row of %d: %d bytes, %s\n", length, total,
			       status ? "wrong" : "right");
			break;
		}
	}
	for (int i = 0; i < length; i++)
		CHECK(ended(pids[i]) == 0);
	close(in);
}

int main(int argc, char **argv)
{
	stream(arg_number(argc, argv, 1, 3 * MB));
	records();
	signals();
	waiting();
	row((int)arg_number(argc, argv, 2, 40));
	return 0;
}
