/* SPDX-License-Identifier: MIT */
/*
 * Pairs of AF_UNIX sockets: streams, datagrams and packets; ends, errors, waiting, poll and
 * options. Prints the same on both.
 */
#include "call.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

static char buf[300000];
static int *volatile nowhere = (int *)8;
static const int types[] = { SOCK_STREAM, SOCK_DGRAM, SOCK_SEQPACKET };
static const char *const names[] = { "stream", "datagram", "packet" };

static void events(const char *what, int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN | POLLOUT | POLLPRI | POLLRDHUP };

	CHECK(poll(&p, 1, 0) >= 0);
	printf("%s: %#x\n", what, p.revents);
}

static void pair(int type, int fds[2])
{
	CHECK(socketpair(AF_UNIX, type, 0, fds) == 0);
}

static void make(void)
{
	int fds[2];
	char link[64];
	struct stat st;

	call("pair of files", socketpair(AF_UNIX, 7, 0, fds));
	call("of raw", socketpair(AF_UNIX, SOCK_RAW, 0, fds));
	call("protocol", socketpair(AF_UNIX, SOCK_STREAM, 1, fds));
	call("other protocol", socketpair(AF_UNIX, SOCK_STREAM, 6, fds));
	call("flags", socketpair(AF_UNIX, SOCK_STREAM | 0x100, 0, fds));
	call("nowhere", socketpair(AF_UNIX, SOCK_STREAM, 0, nowhere));
	call("both", socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds));
	printf("flags %#x %#x\n", fcntl(fds[0], F_GETFL), fcntl(fds[1], F_GETFD));
	CHECK(fstat(fds[0], &st) == 0);
	printf("mode %o links %d size %d\n", st.st_mode, (int)st.st_nlink, (int)st.st_size);
	snprintf(buf, sizeof(buf), "/proc/self/fd/%d", fds[0]);
	CHECK(readlink(buf, link, sizeof(link)) > 0);
	printf("link %.8s\n", link);
	call("open it", open(buf, O_RDWR));
	call("seek", lseek(fds[0], 0, SEEK_SET));
	call("pread", pread(fds[0], buf, 1, 0));
	call("nothing yet", read(fds[0], buf, 1));
	call("truncate", ftruncate(fds[0], 0));
	call("sync", fsync(fds[0]));
}

static void data(int type)
{
	int fds[2], n;

	pair(type, fds);
	events("new", fds[0]);
	call("write", write(fds[0], "hello", 5));
	call("write more", write(fds[0], "world!", 6));
	call("send empty", send(fds[0], "", 0, 0));
	events("to read", fds[1]);
	CHECK(ioctl(fds[1], FIONREAD, &n) == 0);
	printf("pending %d\n", n);
	memset(buf, 0, 16);
	call("peek", recv(fds[1], buf, 3, MSG_PEEK));
	call("peek all", recv(fds[1], buf, 100, MSG_PEEK));
	printf("%s\n", buf);
	call("read 2", read(fds[1], buf, 2));
	memset(buf, 0, 16);
	call("its length", recv(fds[1], buf, 3, MSG_TRUNC | MSG_DONTWAIT));
	call("read", recv(fds[1], buf, 100, MSG_DONTWAIT));
	printf("%s\n", buf);
	call("read at the end", recv(fds[1], buf, 100, MSG_DONTWAIT));
	call("out of band", recv(fds[1], buf, 100, MSG_OOB | MSG_DONTWAIT) < 0);
	call("both ways", write(fds[1], "back", 4));
	call("to nowhere", recv(fds[0], nowhere, 4, 0));
	call("what is left", recv(fds[0], buf, 4, MSG_DONTWAIT));
	call("from nowhere", send(fds[0], nowhere, 4, 0));
	call("large", send(fds[0], buf, 150000, MSG_DONTWAIT));
	call("and back", recv(fds[1], buf, sizeof(buf), MSG_DONTWAIT));
	close(fds[0]);
	close(fds[1]);
}

static void closing(int type)
{
	int fds[2], err = 0;
	socklen_t len = sizeof(err);

	pair(type, fds);
	call("write", write(fds[0], "last", 4));
	close(fds[0]);
	events("closed", fds[1]);
	call("the last", recv(fds[1], buf, 100, MSG_DONTWAIT));
	call("the end", recv(fds[1], buf, 100, MSG_DONTWAIT));
	call("write to none", send(fds[1], "x", 1, MSG_NOSIGNAL));
	call("write to none again", send(fds[1], "x", 1, MSG_NOSIGNAL));
	close(fds[1]);

	pair(type, fds);
	call("write", write(fds[0], "lost", 4));
	close(fds[1]);
	events("unread", fds[0]);
	call("read", recv(fds[0], buf, 100, MSG_DONTWAIT));
	call("read", recv(fds[0], buf, 100, MSG_DONTWAIT));
	events("told", fds[0]);
	CHECK(getsockopt(fds[0], SOL_SOCKET, SO_ERROR, &err, &len) == 0);
	printf("error %d\n", err);
	close(fds[0]);
}

static void shutting(int type, int how)
{
	int fds[2];

	pair(type, fds);
	call("write", write(fds[0], "there", 5));
	call("shutdown", shutdown(fds[0], how));
	events("this", fds[0]);
	events("that", fds[1]);
	call("send", send(fds[0], "x", 1, MSG_NOSIGNAL | MSG_DONTWAIT));
	call("send back", send(fds[1], "x", 1, MSG_NOSIGNAL | MSG_DONTWAIT));
	call("receive", recv(fds[1], buf, 100, MSG_DONTWAIT));
	call("receive", recv(fds[1], buf, 100, MSG_DONTWAIT));
	call("receive here", recv(fds[0], buf, 100, MSG_DONTWAIT));
	close(fds[0]);
	close(fds[1]);
}

static void on_pipe(int signo)
{
	printf("signal %d\n", signo);
}

static void pipe_signal(int type)
{
	int fds[2];

	signal(SIGPIPE, on_pipe);
	pair(type, fds);
	close(fds[1]);
	call("write", write(fds[0], "x", 1));
	close(fds[0]);
	signal(SIGPIPE, SIG_DFL);
}

static void messages(int type)
{
	struct sockaddr_un name = { 0 };
	struct iovec out[3] = { { "ab", 2 }, { "", 0 }, { "cde", 3 } };
	struct iovec in[2] = { { buf, 1 }, { buf + 10, 2 } };
	struct msghdr m = { .msg_iov = out, .msg_iovlen = 3 };
	socklen_t len = sizeof(name);
	int fds[2];

	pair(type, fds);
	call("sendmsg", sendmsg(fds[0], &m, 0));
	m = (struct msghdr){ .msg_iov = in,
			     .msg_iovlen = 2,
			     .msg_name = &name,
			     .msg_namelen = sizeof(name),
			     .msg_flags = 77 };
	memset(buf, 0, 20);
	call("recvmsg", recvmsg(fds[1], &m, 0));
	printf("%s %s name %d flags %#x control %d\n", buf, buf + 10, (int)m.msg_namelen,
	       m.msg_flags, (int)m.msg_controllen);
	call("rest", recv(fds[1], buf, 100, MSG_DONTWAIT));
	call("name", getsockname(fds[0], (void *)&name, &len));
	printf("family %d length %d\n", name.sun_family, (int)len);
	len = 1;
	call("peer", getpeername(fds[0], (void *)&name, &len));
	printf("length %d\n", (int)len);
	write(fds[1], "z", 1);
	len = sizeof(name);
	call("from", recvfrom(fds[0], buf, 10, 0, (void *)&name, &len));
	printf("length %d\n", (int)len);
	call("listen", listen(fds[0], 1));
	call("accept", accept(fds[0], NULL, NULL));
	call("shutdown how", shutdown(fds[0], 3));
	close(fds[0]);
	close(fds[1]);
}

static void options(int type)
{
	struct ucred cred = { 0 };
	int fds[2], value = 0;
	socklen_t len = sizeof(value);

	pair(type, fds);
	call("type", getsockopt(fds[0], SOL_SOCKET, SO_TYPE, &value, &len));
	printf("%d is %d\n", value, (int)len);
	call("domain", getsockopt(fds[0], SOL_SOCKET, SO_DOMAIN, &value, &len));
	printf("%d\n", value);
	call("buffer", getsockopt(fds[0], SOL_SOCKET, SO_SNDBUF, &value, &len));
	printf("%d\n", value);
	value = 1;
	call("small", setsockopt(fds[0], SOL_SOCKET, SO_SNDBUF, &value, sizeof(value)));
	call("buffer", getsockopt(fds[0], SOL_SOCKET, SO_SNDBUF, &value, &len));
	printf("%d\n", value);
	call("short", setsockopt(fds[0], SOL_SOCKET, SO_SNDBUF, &value, 3));
	if (type != SOCK_STREAM)
		call("too long", send(fds[0], buf, 100000, MSG_DONTWAIT));
	len = sizeof(cred);
	call("credentials", getsockopt(fds[0], SOL_SOCKET, SO_PEERCRED, &cred, &len));
	printf("own %d uid %d of %d\n", cred.pid == getpid(), (int)cred.uid, (int)len);
	call("no such level", getsockopt(fds[0], 6, 1, &value, &len));
	close(fds[0]);
	close(fds[1]);
}

/* A child echoes; the parent sends much more than fits. */
static void waiting(int type)
{
	const long total = type == SOCK_STREAM ? 3000000 : 1500000;
	const size_t size = type == SOCK_STREAM ? 100000 : 5000;
	long sent = 0, got = 0;
	unsigned int sum = 0;
	int fds[2], status;
	pid_t pid;

	pair(type, fds);
	fflush(stdout);
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		ssize_t n;

		close(fds[0]);
		while ((n = read(fds[1], buf, 65536)) > 0 && *buf != 'e') {
			got += n;
			for (ssize_t i = 0; i < n; i += 1000)
				sum += (unsigned char)buf[i] ? 1 : 0;
		}
		_exit(write(fds[1], &got, sizeof(got)) != sizeof(got));
	}
	close(fds[1]);
	memset(buf, 'x', size);
	while (sent < total) {
		ssize_t n = write(fds[0], buf, size);

		CHECK(n > 0);
		sent += n;
	}
	if (type == SOCK_DGRAM)
		CHECK(write(fds[0], "e", 1) == 1);
	else
		CHECK(shutdown(fds[0], SHUT_WR) == 0);
	CHECK(recv(fds[0], &got, sizeof(got), MSG_WAITALL) == sizeof(got));
	CHECK(waitpid(pid, &status, 0) == pid);
	printf("echoed %ld of %ld, status %d\n", got, sent, status);
	close(fds[0]);
}

static void watched(int type)
{
	struct epoll_event ev = { .events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET };
	int ep = epoll_create1(0), fds[2];

	pair(type, fds);
	call("add", epoll_ctl(ep, EPOLL_CTL_ADD, fds[0], &ev));
	for (int i = 0; i < 6; i++) {
		const int n = epoll_wait(ep, &ev, 1, 0);

		printf("%d: %d %#x\n", i, n, n ? ev.events : 0);
		if (i == 1 || i == 2)
			CHECK(write(fds[1], "x", 1) == 1);
		else if (i == 3)
			CHECK(shutdown(fds[1], SHUT_WR) == 0);
		else if (i == 4)
			close(fds[1]);
	}
	close(fds[0]);
	close(ep);
}

/* The writer fills the buffer; poll and a read tell when there is room again. */
static void full(int type)
{
	int fds[2];
	long in = 0, out = 0;
	ssize_t n;

	pair(type, fds);
	while ((n = send(fds[0], buf, 1000, MSG_DONTWAIT)) > 0)
		in += n;
	printf("full: %s, a good deal %d\n", strerrorname_np(errno), in > 50000 && in < 300000);
	events("full", fds[0]);
	while ((n = recv(fds[1], buf, 1000, MSG_DONTWAIT)) > 0)
		out += n;
	printf("drained: %s, all %d\n", strerrorname_np(errno), in == out);
	events("empty", fds[0]);
	close(fds[0]);
	close(fds[1]);
}

int main(void)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	make();
	for (int i = 0; i < 3; i++) {
		printf("--- %s\n", names[i]);
		data(types[i]);
		closing(types[i]);
		for (int how = SHUT_RD; how <= SHUT_RDWR; how++)
			shutting(types[i], how);
		pipe_signal(types[i]);
		messages(types[i]);
		options(types[i]);
		waiting(types[i]);
		watched(types[i]);
		full(types[i]);
	}
	return 0;
}
