/* SPDX-License-Identifier: MIT */
/*
 * Takes what a node's kernel has to give until it refuses, gives it back, and does it again:
 * bombs KIND [unlimited | once | held]
 *
 * held: unlimited, once, and what was taken is kept until there is a byte to read.
 *
 * Prints how it was refused, never how much there was: that depends on the machine.
 */
#include "user.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#define ROUNDS 3
#define MOST   200000

static int taken[MOST];

static void say(const char *what, int nr, int err)
{
	const bool documented = err == EMFILE || err == ENFILE || err == EAGAIN || err == ENOMEM;

	printf("%s: %s after %s\n", what, documented ? "refused" : strerror(err),
	       nr >= 10 ? "many" : "few");
	fflush(stdout);
}

static bool held;

/* It has been refused, and has still all that it took. */
static void hold(const char *what)
{
	char byte;

	if (!held)
		return;
	printf("%s: held\n", what);
	fflush(stdout);
	CHECK(read(0, &byte, 1) == 1);
}

/* Pipes, each filled: their pages are the kernel's. */
static void pipes(void)
{
	static char page[65536];
	int nr = 0, err;

	while (nr + 2 <= MOST && pipe2(&taken[nr], O_NONBLOCK) == 0) {
		(void)!write(taken[nr + 1], page, sizeof(page));
		nr += 2;
	}
	err = errno;
	hold("pipes");
	for (int i = 0; i < nr; i++)
		close(taken[i]);
	say("pipes", nr, err);
}

static void files(void)
{
	int nr = 0, err;

	while (nr < MOST && (taken[nr] = open("/proc/self/status", O_RDONLY)) >= 0)
		nr++;
	err = errno;
	hold("files");
	for (int i = 0; i < nr; i++)
		close(taken[i]);
	say("files", nr, err);
}

static void processes(void)
{
	int nr = 0, err;
	pid_t pid;

	while (nr < MOST && (pid = fork()) >= 0) {
		if (pid == 0) {
			pause();
			_exit(0);
		}
		taken[nr++] = pid;
	}
	err = errno;
	hold("processes");
	for (int i = 0; i < nr; i++)
		CHECK(kill(taken[i], SIGKILL) == 0);
	for (int i = 0; i < nr; i++)
		CHECK(waitpid(taken[i], NULL, 0) == taken[i]);
	say("processes", nr, err);
}

static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;

static void *wait_at_gate(void *arg)
{
	pthread_mutex_lock(&gate);
	pthread_mutex_unlock(&gate);
	return arg;
}

static void threads(void)
{
	static pthread_t all[MOST];
	pthread_attr_t attr;
	int nr = 0, err = 0;

	CHECK(pthread_attr_init(&attr) == 0 && pthread_attr_setstacksize(&attr, 65536) == 0);
	pthread_mutex_lock(&gate);
	while (nr < MOST && (err = pthread_create(&all[nr], &attr, wait_at_gate, NULL)) == 0)
		nr++;
	hold("threads");
	pthread_mutex_unlock(&gate);
	for (int i = 0; i < nr; i++)
		CHECK(pthread_join(all[i], NULL) == 0);
	say("threads", nr, err);
}

/* Socket pairs, each filled: what waits in them is the kernel's. */
static void sockets(void)
{
	static char data[8192];
	int nr = 0, full = 0, err;

	while (nr + 2 <= MOST &&
	       socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, &taken[nr]) == 0) {
		while (write(taken[nr], data, sizeof(data)) > 0)
			;
		full += errno == ENOBUFS || errno == ENOMEM;
		nr += 2;
	}
	err = errno;
	hold("sockets");
	for (int i = 0; i < nr; i++)
		close(taken[i]);
	CHECK(full > 0); /* the bytes end before the descriptors */
	say("sockets", nr, err);
}

static struct sockaddr_in bound(int fd)
{
	struct sockaddr_in in = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(in);

	CHECK(bind(fd, (struct sockaddr *)&in, len) == 0);
	CHECK(getsockname(fd, (struct sockaddr *)&in, &len) == 0);
	return in;
}

/* Connections over loopback, each with all that it takes in either direction. */
static void streams(void)
{
	static char data[65536];
	const int l = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	const struct sockaddr_in in = bound(l);
	int nr = 0, full = 0, err = 0;

	CHECK(listen(l, 10) == 0);
	while (nr + 2 <= MOST && !err) {
		taken[nr] = socket(AF_INET, SOCK_STREAM, 0);
		if (taken[nr] < 0 || connect(taken[nr], (const struct sockaddr *)&in, sizeof(in))) {
			err = errno;
			nr += taken[nr] >= 0;
			break;
		}
		taken[nr + 1] = accept(l, NULL, NULL);
		err = taken[nr + 1] < 0 ? errno : 0;
		for (int i = 0; i < 2 && !err; i++) {
			while (send(taken[nr + i], data, sizeof(data), MSG_DONTWAIT) > 0)
				;
			full += errno == ENOBUFS || errno == ENOMEM;
		}
		nr += err ? 1 : 2;
	}
	hold("streams");
	for (int i = 0; i < nr; i++)
		close(taken[i]);
	close(l);
	CHECK(full > 0); /* the bytes end before the descriptors */
	say("streams", nr, err == ENOBUFS ? ENOMEM : err);
}

/* Sockets that send to themselves until their queue takes no more: then datagrams are lost. */
static void datagrams(void)
{
	static char data[8192];
	int nr = 0, full = 0, err = 0;

	while (nr < MOST && !err) {
		taken[nr] = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0);
		if (taken[nr] < 0) {
			err = errno;
			break;
		}
		const struct sockaddr_in in = bound(taken[nr]);

		for (int i = 0; i < 40; i++)
			if (sendto(taken[nr], data, sizeof(data), 0, (const struct sockaddr *)&in,
				   sizeof(in)) < 0)
				full += errno == ENOBUFS || errno == ENOMEM;
		nr++;
	}
	hold("datagrams");
	for (int i = 0; i < nr; i++)
		close(taken[i]);
	CHECK(full > 0);
	say("datagrams", nr, err);
}

static void timers(void)
{
	struct sigevent ev = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1 };
	static timer_t ids[MOST];
	int nr = 0, err;

	while (nr < MOST && timer_create(CLOCK_MONOTONIC, &ev, &ids[nr]) == 0)
		nr++;
	err = errno;
	hold("timers");
	for (int i = 0; i < nr; i++)
		CHECK(timer_delete(ids[i]) == 0);
	say("timers", nr, err);
}

static void locks(void)
{
	struct flock l = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1 };
	const int fd = open("/dev/shm/locks", O_RDWR | O_CREAT, 0600);
	int nr = 0, err;

	CHECK(fd >= 0 && unlink("/dev/shm/locks") == 0);
	while (nr < MOST && fcntl(fd, F_SETLK, &l) == 0) {
		l.l_start += 2;
		nr++;
	}
	err = errno == ENOLCK ? ENOMEM : errno; /* the documented one */
	hold("locks");
	close(fd);
	say("locks", nr, err);
}

/* Many descriptors in many instances. */
static void epolls(void)
{
	struct epoll_event ev = { .events = EPOLLIN };
	int nr = 0, items = 0, err = 0;

	CHECK(pipe(&taken[500]) == 0);
	for (int fd = 1000; fd < 1400; fd++)
		(void)!dup2(taken[500], fd);
	while (nr < 400 && !err && (taken[nr] = epoll_create1(0)) >= 0) {
		for (int fd = 0; fd < 1400 && !err; fd++) {
			if (epoll_ctl(taken[nr], EPOLL_CTL_ADD, fd, &ev) == 0)
				items++;
			else if (errno == ENOSPC || errno == ENOMEM)
				err = errno;
		}
		nr++;
	}
	hold("epolls");
	for (int i = 0; i < nr; i++)
		close(taken[i]);
	for (int fd = 1000; fd < 1400; fd++)
		close(fd);
	close(taken[500]);
	close(taken[501]);
	say("epolls", items, err == ENOSPC ? ENOMEM : err);
}

static void signals(void)
{
	union sigval val = { .sival_int = 0 };
	sigset_t set;
	int nr = 0, err;

	CHECK(sigemptyset(&set) == 0 && sigaddset(&set, SIGRTMIN) == 0);
	CHECK(sigprocmask(SIG_BLOCK, &set, NULL) == 0);
	while (nr < 10 * MOST && sigqueue(getpid(), SIGRTMIN, val) == 0)
		nr++;
	err = errno;
	hold("signals");
	for (int i = 0; i < nr; i++)
		CHECK(sigwaitinfo(&set, NULL) == SIGRTMIN);
	say("signals", nr, err);
}

/* Names of the longest kind, of one file. */
static void names(void)
{
	char path[300];
	int nr = 0, err;

	CHECK(mkdir("/dev/shm/names", 0700) == 0 && chdir("/dev/shm/names") == 0);
	CHECK(close(open("file", O_CREAT | O_WRONLY, 0600)) == 0);
	do
		snprintf(path, sizeof(path), "%0250d", ++nr);
	while (nr < MOST && link("file", path) == 0);
	err = errno == ENOSPC ? ENOMEM : errno;
	hold("names");
	for (int i = 1; i < nr; i++) {
		snprintf(path, sizeof(path), "%0250d", i);
		CHECK(unlink(path) == 0);
	}
	CHECK(unlink("file") == 0 && chdir("/") == 0 && rmdir("/dev/shm/names") == 0);
	say("names", nr, err);
}

/* Mappings that do not join their neighbours. */
static void vmas(void)
{
	char *base = mmap(NULL, MOST * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int nr = 0, err;

	CHECK(base != MAP_FAILED);
	while (2 * nr < MOST && mprotect(base + nr * 2 * PAGE, PAGE, PROT_READ) == 0)
		nr++;
	err = errno;
	hold("vmas");
	CHECK(munmap(base, MOST * PAGE) == 0);
	say("vmas", nr, err);
}

/*
 * One page in each 2 MiB: its page table is as large as it. None is refused: tables that the kernel
 * takes back are made again.
 */
static void tables(void)
{
	const size_t step = 2 * MB, nr = 1u << 15;
	char *base = mmap(NULL, nr * step, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	CHECK(base != MAP_FAILED);
	for (size_t i = 0; i < nr; i++)
		*(size_t *)(base + i * step) = i + 1;
	for (size_t i = 0; i < nr; i += 7)
		CHECK(*(size_t *)(base + i * step) == i + 1);
	CHECK(munmap(base, nr * step) == 0);
	puts("tables: all of them");
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} bombs[] = {
		{ "pipes", pipes },     { "files", files },         { "processes", processes },
		{ "threads", threads }, { "sockets", sockets },     { "timers", timers },
		{ "locks", locks },     { "epolls", epolls },       { "signals", signals },
		{ "names", names },     { "vmas", vmas },           { "tables", tables },
		{ "streams", streams }, { "datagrams", datagrams },
	};
	struct rlimit many = { MOST, MOST };
	int rounds = ROUNDS;

	held = argc > 2 && strcmp(argv[2], "held") == 0;
	if (held || (argc > 2 && strcmp(argv[2], "unlimited") == 0))
		CHECK(setrlimit(RLIMIT_NOFILE, &many) == 0);
	if (held || (argc > 2 && strcmp(argv[2], "once") == 0))
		rounds = 1;
	for (int round = 0; round < rounds; round++) {
		for (size_t i = 0; i < sizeof(bombs) / sizeof(bombs[0]); i++) {
			if (argc > 1 && strcmp(argv[1], bombs[i].name) == 0)
				bombs[i].run();
		}
	}
	return 0;
}
