/* SPDX-License-Identifier: MIT */
/*
 * SIGKILL at random moments: killsoak SEED ROUNDS [PORT [ADDRESS]]
 *
 * Each round starts one of five programs that never end by themselves, lets it go for a while,
 * kills its group and waits until everything that descends from it is gone. Afterwards no process,
 * descriptor or file is left; what the kernel has left its counters tell. With PORT it is always
 * the program of sockets, which talks to a server at that port of ADDRESS or 127.0.0.1 as well
 * (`across serve`, perhaps on another processor). Prints the same on Linux.
 */
#include "user.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>

#define HEAP    (2 * MB)
#define GONE_S  60
#define LONGEST 400000 /* microseconds that a program lives at most */
#define KINDS   5U
#define SOCKETS 4U /* the kind that talks by sockets */

static const char *self;
static char *heap;

static void touch(char *p, size_t size, uint64_t *rnd)
{
	for (int i = 0; i < 20; i++)
		p[next_random(rnd) % size]++;
}

/* --- threads: futexes, a shared heap, mappings that come and go ---------------------------- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void *short_life(void *arg)
{
	return arg;
}

static void *thread(void *arg)
{
	uint64_t rnd = (uintptr_t)arg * 77 + 1;

	for (;;) {
		char *own = mmap(NULL, 16 * PAGE, PROT_READ | PROT_WRITE,
				 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		pthread_t t;

		CHECK(own != MAP_FAILED);
		touch(own, 16 * PAGE, &rnd);
		pthread_mutex_lock(&lock);
		touch(heap, HEAP, &rnd);
		pthread_mutex_unlock(&lock);
		CHECK(mprotect(own, PAGE, PROT_READ) == 0 && munmap(own, 16 * PAGE) == 0);
		CHECK(madvise(heap + MB, 64 * PAGE, MADV_DONTNEED) == 0);
		CHECK(pthread_create(&t, NULL, short_life, NULL) == 0 &&
		      pthread_join(t, NULL) == 0);
	}
	return NULL;
}

static void threads(void)
{
	pthread_t t;

	for (uintptr_t i = 0; i < 4; i++)
		CHECK(pthread_create(&t, NULL, thread, (void *)(i + 1)) == 0);
	thread((void *)9);
}

/* --- processes: copies of written memory, pipes, tmpfs, shared memory ---------------------- */

static void family(void)
{
	const int file = open("/tmp/killsoak", O_RDWR | O_CREAT, 0600),
		  mem = memfd_create("killsoak", 0);
	char *shared, *mapped, *both;
	uint64_t rnd = (uint64_t)getpid();

	CHECK(file >= 0 && mem >= 0 && ftruncate(file, MB) == 0 && ftruncate(mem, MB) == 0);
	shared = mmap(NULL, MB, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	mapped = mmap(NULL, MB, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	both = mmap(NULL, MB, PROT_READ | PROT_WRITE, MAP_SHARED, mem, 0);
	CHECK(shared != MAP_FAILED && mapped != MAP_FAILED && both != MAP_FAILED);
	for (;;) {
		static char buf[65536];
		int fds[2];
		pid_t pid;

		CHECK(pipe(fds) == 0);
		pid = fork();
		CHECK(pid >= 0);
		touch(heap, HEAP, &rnd);
		touch(shared, MB, &rnd);
		if (!pid) {
			/* Some have a child of their own, which outlives them. */
			if (next_random(&rnd) % 2 && fork() == 0)
				for (int i = 0; i < 50; i++)
					touch(heap, HEAP, &rnd);
			touch(mapped, MB, &rnd);
			touch(both, MB, &rnd);
			(void)!pwrite(file, buf, 5000, (off_t)(next_random(&rnd) % MB));
			(void)!write(fds[1], buf, sizeof(buf));
			_exit(0);
		}
		close(fds[1]);
		while (read(fds[0], buf, 10000) > 0)
			touch(heap, HEAP, &rnd);
		close(fds[0]);
		CHECK(waitpid(pid, NULL, 0) == pid);
	}
}

/* --- exec: again and again, with long arguments, out of a program with threads --------------- */

static void *spin(void *arg)
{
	for (;;)
		sched_yield();
	return arg;
}

static void exec_again(unsigned long n)
{
	static char number[32], text[60000];
	char *argv[] = { (char *)self, "exec", number, text, NULL };
	pthread_t t;

	memset(text, 'x', sizeof(text) - 1);
	snprintf(number, sizeof(number), "%lu", n + 1);
	if (n % 2)
		CHECK(pthread_create(&t, NULL, spin, NULL) == 0);
	if (n % 3 == 0 && vfork() == 0) {
		execv("/no/such/program", argv);
		_exit(1);
	}
	execv(self, argv);
	die("execv: %d", errno);
}

/* --- waiting: timers, signals, epoll, poll --------------------------------------------------- */

static void on_signal(int signo)
{
	(void)signo;
}

static void waiting(void)
{
	const struct itimerval often = { { 0, 500 }, { 0, 500 } };
	const struct itimerspec soon = { { 0, 700000 }, { 0, 700000 } };
	const int ep = epoll_create1(0), timer = timerfd_create(CLOCK_MONOTONIC, 0),
		  ev = eventfd(0, 0);
	struct epoll_event e = { .events = EPOLLIN };
	struct sigaction sa = { .sa_handler = on_signal };

	CHECK(ep >= 0 && timer >= 0 && ev >= 0);
	CHECK(epoll_ctl(ep, EPOLL_CTL_ADD, timer, &e) == 0 &&
	      epoll_ctl(ep, EPOLL_CTL_ADD, ev, &e) == 0);
	CHECK(sigaction(SIGALRM, &sa, NULL) == 0 && timerfd_settime(timer, 0, &soon, NULL) == 0);
	CHECK(setitimer(ITIMER_REAL, &often, NULL) == 0);
	for (;;) {
		struct pollfd p = { ev, POLLIN, 0 };
		const pid_t pid = fork();
		uint64_t n = 1;

		if (!pid) {
			(void)!write(ev, &n, 8);
			for (;;)
				poll(&p, 1, -1), read(ev, &n, 8), pause();
		}
		epoll_wait(ep, &e, 1, 2);
		(void)!read(timer, &n, 8);
		if (pid > 0) {
			kill(pid, SIGKILL);
			while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
				;
		}
	}
}

/* --- sockets: listeners, connections, datagrams, descriptors under way --------------------- */

#define KEPT 8 /* connections that a server has at a time */

static struct sockaddr_in far; /* a server that is no part of this */

struct servers {
	struct pollfd fds[3 + KEPT]; /* TCP, AF_UNIX, UDP, and connections */
	struct sockaddr_in tcp, udp;
	struct sockaddr_un un;
	socklen_t un_len;
};

static void servers_make(struct servers *s)
{
	const struct sockaddr_in any = { .sin_family = AF_INET,
					 .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	const struct sockaddr_un none = { .sun_family = AF_UNIX };
	socklen_t len = sizeof(any);

	for (int i = 0; i < 3 + KEPT; i++)
		s->fds[i] = (struct pollfd){ -1, POLLIN, 0 };
	s->fds[0].fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	s->fds[1].fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
	s->fds[2].fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0);
	CHECK(bind(s->fds[0].fd, (const void *)&any, sizeof(any)) == 0);
	CHECK(bind(s->fds[2].fd, (const void *)&any, sizeof(any)) == 0);
	CHECK(getsockname(s->fds[0].fd, (void *)&s->tcp, &len) == 0);
	CHECK(getsockname(s->fds[2].fd, (void *)&s->udp, &len) == 0);
	/* An abstract name that the system chooses. */
	CHECK(bind(s->fds[1].fd, (const void *)&none, sizeof(none.sun_family)) == 0);
	s->un_len = sizeof(s->un);
	CHECK(getsockname(s->fds[1].fd, (void *)&s->un, &s->un_len) == 0);
	CHECK(listen(s->fds[0].fd, 3) == 0 && listen(s->fds[1].fd, 3) == 0);
}

/* A descriptor travels over @fd: one end of @pair, or @fd itself, which nobody else may have. */
static void send_fd(int fd, int what)
{
	char data = 'x', room[CMSG_SPACE(sizeof(int))] = "";
	struct iovec iov = { &data, 1 };
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = room,
			      .msg_controllen = sizeof(room) };
	struct cmsghdr *c = CMSG_FIRSTHDR(&msg);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &what, sizeof(what));
	(void)sendmsg(fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static int made_connection(int family, const void *name, socklen_t len)
{
	const struct timeval soon = { 0, 30000 };
	const int fd = socket(family, SOCK_STREAM, 0);

	CHECK(fd >= 0);
	CHECK(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &soon, sizeof(soon)) == 0);
	CHECK(setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &soon, sizeof(soon)) == 0);
	(void)connect(fd, name, len);
	return fd;
}

static void client(const struct servers *s, uint64_t *rnd)
{
	static char buf[100000];
	const struct sockaddr_in *there = far.sin_port ? &far : &s->tcp;
	int pair[2], fds[3];

	CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
	fds[0] = made_connection(AF_INET, &s->tcp, sizeof(s->tcp));
	fds[1] = made_connection(AF_UNIX, &s->un, s->un_len);
	fds[2] = made_connection(AF_INET, there, sizeof(*there));
	for (int i = 0; i < 20; i++) {
		const int fd = fds[next_random(rnd) % 3];
		const size_t n = next_random(rnd) % (i % 4 ? 2000 : sizeof(buf));

		(void)send(fd, buf, n, MSG_NOSIGNAL);
		(void)sendto(s->fds[2].fd, buf, n % 3000, MSG_DONTWAIT, (const void *)&s->udp,
			     sizeof(s->udp));
		if (next_random(rnd) % 2)
			(void)recv(fd, buf, n + 1, 0);
		if (next_random(rnd) % 16 == 0)
			shutdown(fd, SHUT_WR);
		send_fd(fds[1], pair[1]);
		send_fd(pair[0], pair[1]); /* to where it came from: a cycle */
	}
}

/* Accept, echo, and forget: whatever is there. */
static void serve(struct servers *s, uint64_t *rnd)
{
	static char buf[50000];

	if (poll(s->fds, 3 + KEPT, 2) <= 0)
		return;
	for (int i = 0; i < 3 + KEPT; i++) {
		const int fd = s->fds[i].fd;
		struct pollfd *kept = &s->fds[3 + next_random(rnd) % KEPT];
		ssize_t n;

		if (!s->fds[i].revents)
			continue;
		if (i < 2) {
			if (kept->fd >= 0)
				close(kept->fd); /* perhaps with bytes that nobody has read */
			kept->fd = accept4(fd, NULL, NULL, SOCK_NONBLOCK);
			kept->revents = 0;
			continue;
		}
		n = recv(fd, buf, sizeof(buf), 0);
		if (n > 0 && i > 2)
			n = send(fd, buf, (size_t)n, MSG_NOSIGNAL);
		if (i > 2 && (n == 0 || (n < 0 && errno != EAGAIN))) {
			close(fd);
			s->fds[i].fd = -1;
		}
	}
}

static void sockets(void)
{
	uint64_t rnd = (uint64_t)getpid() * 77 + 1;
	struct servers s;

	servers_make(&s);
	for (;;) {
		const pid_t pid = fork();

		CHECK(pid >= 0);
		if (!pid) {
			rnd = (uint64_t)getpid();
			client(&s, &rnd);
			_exit(0);
		}
		while (waitpid(pid, NULL, WNOHANG) == 0)
			serve(&s, &rnd);
	}
}

/* --- the driver ------------------------------------------------------------------------------- */

static void run(unsigned int kind)
{
	CHECK(setpgid(0, 0) == 0);
	heap = mmap(NULL, HEAP, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(heap != MAP_FAILED);
	memset(heap, 1, HEAP / 2);
	switch (kind) {
	case 0:
		threads();
		break;
	case 1:
		family();
		break;
	case 2:
		exec_again(0);
		break;
	case SOCKETS:
		sockets();
		break;
	default:
		waiting();
		break;
	}
}

static int in_proc(void)
{
	DIR *d = opendir("/proc/self/fd");
	int n = 0;

	CHECK(d);
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

static double now(void)
{
	struct timespec t;

	CHECK(clock_gettime(CLOCK_MONOTONIC, &t) == 0);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/*
 * Everything that came from @pid, which has been killed and has not ended by itself; orphans are
 * given to this process. Returns when there is none.
 */
static void reap_all(pid_t pid, unsigned int round)
{
	const double end = now() + GONE_S;
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	for (;;) {
		const struct timespec some = { 1, 0 };
		int status;
		const pid_t got = waitpid(-1, &status, WNOHANG);

		if (got < 0 && errno == ECHILD)
			return;
		CHECK(got >= 0);
		if (got == pid && (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL))
			die("round %u: pid %d ended by itself, status %#x", round, pid,
			    (unsigned int)status);
		if (got)
			continue;
		if (now() > end)
			die("round %u: pid %d or a child of it is not gone", round, pid);
		sigtimedwait(&set, NULL, &some);
	}
}

int main(int argc, char **argv)
{
	uint64_t rnd = arg_number(argc, argv, 1, 1) * 0x9e3779b97f4a7c15UL + 1;
	const unsigned int rounds = (unsigned int)arg_number(argc, argv, 2, 20);
	double slowest = 0;
	sigset_t set;
	int fds;

	self = argv[0];
	if (argc > 2 && !strcmp(argv[1], "exec"))
		exec_again(arg_number(argc, argv, 2, 0));
	far.sin_family = AF_INET;
	far.sin_port = htons((unsigned short)arg_number(argc, argv, 3, 0));
	CHECK(inet_pton(AF_INET, argc > 4 ? argv[4] : "127.0.0.1", &far.sin_addr) == 1);
	CHECK(prctl(PR_SET_CHILD_SUBREAPER, 1) == 0);
	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	CHECK(sigprocmask(SIG_BLOCK, &set, NULL) == 0);
	fds = in_proc();
	for (unsigned int i = 0; i < rounds; i++) {
		const useconds_t life =
			(useconds_t)(next_random(&rnd) % (i % 8 < 4 ? LONGEST : LONGEST / 20));
		const pid_t pid = fork();
		double killed;

		CHECK(pid >= 0);
		if (!pid) {
			sigprocmask(SIG_UNBLOCK, &set, NULL);
			run(far.sin_port ? SOCKETS : i % KINDS);
		}
		setpgid(pid, pid); /* whoever is first */
		usleep(life);
		killed = now();
		CHECK(kill(-pid, SIGKILL) == 0);
		reap_all(pid, i);
		slowest = now() - killed > slowest ? now() - killed : slowest;
	}
	unlink("/tmp/killsoak");
	CHECK(in_proc() == fds);
	printf("%u killed\n", rounds);
	if (getenv("TIMES"))
		printf("slowest %.0f ms\n", slowest * 1000);
	return 0;
}
