/* SPDX-License-Identifier: MIT */
/*
 * Pseudo terminals: the two sides, locks, sizes, ends, sessions and hang-up. Prints the same on
 * both.
 */
#include "call.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <termios.h>

#define LONG_MS 20000
#define BULK    300000

static int *volatile nowhere = (int *)8;
static volatile sig_atomic_t seen[65];

static void note(int signo)
{
	seen[signo]++;
}

static void catch(int signo)
{
	struct sigaction sa = { .sa_handler = note };

	CHECK(sigaction(signo, &sa, NULL) == 0);
}

static int master_open(int flags)
{
	int fd = posix_openpt(O_RDWR | O_NOCTTY | flags);

	CHECK(fd >= 0);
	CHECK(grantpt(fd) == 0 && unlockpt(fd) == 0);
	return fd;
}

static int slave_open(int master, int flags)
{
	int fd = open(ptsname(master), O_RDWR | flags);

	CHECK(fd >= 0);
	return fd;
}

static void raw(int fd)
{
	struct termios t;

	CHECK(tcgetattr(fd, &t) == 0);
	cfmakeraw(&t);
	CHECK(tcsetattr(fd, TCSANOW, &t) == 0);
}

static void show(const char *what, const char *p, ssize_t n)
{
	printf("%s: %zd \"", what, n);
	for (ssize_t i = 0; i < n; i++)
		printf(p[i] < ' ' ? "\\%o" : "%c", p[i]);
	printf("\"%s%s\n", n < 0 ? " " : "", n < 0 ? strerrorname_np(errno) : "");
}

/* Exactly @want bytes, however many reads they take, and what is there by then. */
static void get(const char *what, int fd, size_t want)
{
	char buf[256];
	size_t n = 0;

	while (n < want) {
		struct pollfd p = { .fd = fd, .events = POLLIN };
		ssize_t got;

		CHECK(poll(&p, 1, LONG_MS) == 1);
		got = read(fd, buf + n, sizeof(buf) - n);
		if (got <= 0)
			break;
		n += (size_t)got;
	}
	show(what, buf, (ssize_t)n);
}

static void once(const char *what, int fd)
{
	char buf[256];

	show(what, buf, read(fd, buf, sizeof(buf)));
}

static void put(int fd, const char *s)
{
	CHECK(write(fd, s, strlen(s)) == (ssize_t)strlen(s));
}

static void events(const char *what, int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN | POLLOUT | POLLPRI };

	CHECK(poll(&p, 1, 0) >= 0);
	printf("%s: %#x\n", what, p.revents);
}

static void wait_for(int fd, short events)
{
	struct pollfd p = { .fd = fd, .events = events };

	CHECK(poll(&p, 1, LONG_MS) == 1);
}

static void names(void)
{
	int master = posix_openpt(O_RDWR | O_NOCTTY), slave, n = -1, lock = -1;
	char path[64];
	struct stat st;

	CHECK(master >= 0);
	call("number", ioctl(master, TIOCGPTN, &n));
	snprintf(path, sizeof(path), "/dev/pts/%d", n);
	CHECK(strcmp(ptsname(master), path) == 0);
	call("locked?", ioctl(master, TIOCGPTLCK, &lock));
	printf("%d\n", lock);
	call("open it", open(path, O_RDWR | O_NOCTTY));
	call("by its master", ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY));
	call("unlock nowhere", ioctl(master, TIOCSPTLCK, nowhere));
	call("number nowhere", ioctl(master, TIOCGPTN, nowhere));
	call("grant", grantpt(master));
	call("unlock", unlockpt(master));
	CHECK(ioctl(master, TIOCGPTLCK, &lock) == 0);
	printf("%d\n", lock);
	slave = open(path, O_RDWR | O_NOCTTY);
	CHECK(slave >= 0 && strcmp(ttyname(slave), path) == 0);
	printf("terminals %d %d\n", isatty(master), isatty(slave));
	CHECK(fstat(slave, &st) == 0);
	CHECK(minor(st.st_rdev) == (unsigned int)n && st.st_uid == getuid());
	printf("slave %o %u\n", st.st_mode & S_IFMT, major(st.st_rdev));
	call("mode", fchmod(slave, 0641));
	CHECK(stat(path, &st) == 0);
	printf("%o\n", st.st_mode);
	call("owner", fchown(slave, getuid(), getgid()));
	CHECK(fstat(master, &st) == 0);
	printf("master %o %u %u\n", st.st_mode & S_IFMT, major(st.st_rdev), minor(st.st_rdev));
	call("number of a slave", ioctl(slave, TIOCGPTN, &n));
	call("lock of a slave", ioctl(slave, TIOCSPTLCK, &n));
	call("peer of a slave", ioctl(slave, TIOCGPTPEER, O_RDWR));
	CHECK(close(slave) == 0);
	slave = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
	CHECK(slave >= 0 && strcmp(ttyname(slave), path) == 0);
	printf("flags %#x %#x\n", fcntl(slave, F_GETFL) & ~O_CLOEXEC, fcntl(slave, F_GETFD));
	call("seek", lseek(master, 0, SEEK_SET));
	call("truncate", ftruncate(slave, 0));
	CHECK(close(slave) == 0 && close(master) == 0);
	call("nobody has it", open(path, O_RDWR | O_NOCTTY));
}

static void settings(void)
{
	int master = master_open(0), slave = slave_open(master, O_NOCTTY);
	struct winsize ws = { 24, 80, 1, 2 };
	struct termios t, u;

	CHECK(tcgetattr(slave, &t) == 0 && tcgetattr(master, &u) == 0);
	printf("%#x %#x %#x %#x\n", t.c_iflag, t.c_oflag, t.c_cflag, t.c_lflag);
	printf("the same %d\n", t.c_lflag == u.c_lflag && t.c_oflag == u.c_oflag);
	t.c_lflag &= ~(tcflag_t)ECHO;
	CHECK(tcsetattr(master, TCSANOW, &t) == 0 && tcgetattr(slave, &u) == 0);
	printf("echo %d\n", !!(u.c_lflag & ECHO));
	CHECK(ioctl(master, TIOCSWINSZ, &ws) == 0);
	memset(&ws, 0, sizeof(ws));
	CHECK(ioctl(slave, TIOCGWINSZ, &ws) == 0);
	printf("%u %u %u %u\n", ws.ws_row, ws.ws_col, ws.ws_xpixel, ws.ws_ypixel);
	ws.ws_row = 99;
	CHECK(ioctl(slave, TIOCSWINSZ, &ws) == 0 && ioctl(master, TIOCGWINSZ, &ws) == 0);
	printf("%u\n", ws.ws_row);
	call("drain", tcdrain(slave));
	call("signal 0", ioctl(master, TIOCSIG, 0));
	call("signal 65", ioctl(master, TIOCSIG, 65));
	call("signal nobody", ioctl(master, TIOCSIG, SIGINT));
	call("signal by a slave", ioctl(slave, TIOCSIG, SIGINT));
	call("group of nobody", tcgetpgrp(slave));
	call("session of nobody", tcgetsid(master));
	call("give up", ioctl(master, TIOCNOTTY));
	CHECK(close(slave) == 0 && close(master) == 0);
}

static void bytes(void)
{
	int master = master_open(O_NONBLOCK), slave, n;

	once("nothing yet", master);
	events("never opened", master);
	put(master, "early\n");
	slave = slave_open(master, O_NOCTTY | O_NONBLOCK);
	get("typed before", slave, 6);
	get("its echo", master, 7);
	once("no more", slave);
	events("slave", slave);
	events("master", master);
	put(master, "a line\nhalf");
	get("line", slave, 7);
	put(master, "\177\177ve\n");
	get("corrected", slave, 5);
	get("echo", master, 8 + 4 + 6 + 4);
	put(slave, "shown\n");
	do {
		wait_for(master, POLLIN); /* the newline may come by itself */
		CHECK(ioctl(master, FIONREAD, &n) == 0);
	} while (n < 7);
	printf("to read %d\n", n);
	get("shown", master, 7);
	put(master, "\4");
	wait_for(slave, POLLIN);
	once("end of file", slave);
	raw(slave);
	put(master, "\3\4\n");
	get("raw", slave, 3);
	events("no echo", master);
	put(slave, "\n");
	get("newline", master, 1);
	call("not a place", read(master, nowhere, 0));
	CHECK(close(slave) == 0 && close(master) == 0);
}

/* Stopped output: what has been written is there, more has to wait. */
static void flow(void)
{
	int master = master_open(O_NONBLOCK), slave = slave_open(master, O_NOCTTY | O_NONBLOCK);

	put(slave, "before");
	put(master, "\23");
	while (write(slave, "x", 1) == 1)
		usleep(1000);
	call("stopped", -1);
	events("slave stopped", slave);
	wait_for(master, POLLIN);
	put(master, "\21");
	wait_for(slave, POLLOUT);
	put(slave, "after");
	CHECK(tcflow(slave, TCOOFF) == 0);
	call("stopped by itself", write(slave, "x", 1));
	CHECK(tcflow(slave, TCOON) == 0);
	call("and on", write(slave, "x", 1));
	CHECK(close(slave) == 0 && close(master) == 0);
}

static void ends(void)
{
	int master = master_open(O_NONBLOCK), slave = slave_open(master, O_NOCTTY), again;
	char path[64];

	strcpy(path, ptsname(master));
	put(slave, "last words");
	CHECK(close(slave) == 0);
	get("last words", master, 10);
	once("closed", master);
	events("closed", master);
	call("type", write(master, "typed\n", 6));
	slave = slave_open(master, O_NOCTTY);
	get("echo", master, 7);
	once("open again", master);
	events("open again", master);
	get("typed to nobody", slave, 6);
	put(master, "lost\n");
	wait_for(slave, POLLIN);
	CHECK((again = dup(slave)) >= 0);
	CHECK(close(master) == 0);
	events("hung up", slave);
	once("hung up", slave);
	call("write", write(slave, "x", 1));
	call("settings", tcdrain(slave));
	call("group", tcsetpgrp(slave, getpid()));
	call("take it", ioctl(slave, TIOCSCTTY, 0));
	call("open it", open(path, O_RDWR | O_NOCTTY));
	once("the other", again);
	CHECK(close(slave) == 0 && close(again) == 0);
}

static void report(const char *what, int pid)
{
	int status;

	CHECK(waitpid(pid, &status, 0) == pid);
	printf("%s: %#x\n", what, status);
}

static void wait_signal(int signo, const sigset_t *open_mask)
{
	while (!seen[signo])
		sigsuspend(open_mask);
	seen[signo] = 0;
}

/* The leader of a session whose terminal this is. */
static void leader(int slave, const char *path)
{
	sigset_t all, none;
	int tty;

	sigfillset(&all);
	sigemptyset(&none);
	for (int s = SIGHUP; s <= SIGQUIT; s++)
		catch(s);
	catch(SIGWINCH);
	catch(SIGCONT);
	sigprocmask(SIG_SETMASK, &all, NULL);
	call("none of its own", open("/dev/tty", O_RDWR));
	tty = open(path, O_RDWR | O_NOCTTY);
	call("still none", open("/dev/tty", O_RDWR));
	CHECK(close(tty) == 0);
	tty = open(path, O_WRONLY);
	call("nor by writing", open("/dev/tty", O_RDWR));
	CHECK(close(tty) == 0);
	tty = open(path, O_RDWR);
	printf("session %d group %d\n", tcgetsid(tty) == getpid(), tcgetpgrp(tty) == getpid());
	CHECK(close(tty) == 0);
	tty = open("/dev/tty", O_RDWR);
	CHECK(tty >= 0);
	fflush(stdout);
	put(tty, "go\n");
	wait_signal(SIGINT, &none);
	printf("interrupted\n");
	wait_signal(SIGWINCH, &none);
	printf("another size\n");
	wait_signal(SIGQUIT, &none);
	printf("quit\n");
	fflush(stdout);
	put(tty, "bye\n");
	wait_signal(SIGHUP, &none);
	wait_signal(SIGCONT, &none);
	printf("hung up\n");
	call("gone", open("/dev/tty", O_RDWR));
	call("session", tcgetsid(slave));
	once("it", slave);
	fflush(stdout);
	_exit(3);
}

static void sessions(void)
{
	int master = master_open(0), slave = slave_open(master, O_NOCTTY), pid;
	struct winsize ws = { 50, 132, 0, 0 };
	char path[64];

	strcpy(path, ptsname(master));
	fflush(stdout);
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) {
		CHECK(close(master) == 0 && setsid() == getpid());
		leader(slave, path);
	}
	CHECK(close(slave) == 0);
	get("it says", master, 4);
	printf("session %d group %d\n", tcgetsid(master) == pid, tcgetpgrp(master) == pid);
	put(master, "\3");
	get("^C", master, 2);
	CHECK(ioctl(master, TIOCSWINSZ, &ws) == 0);
	CHECK(ioctl(master, TIOCSWINSZ, &ws) == 0); /* no other size, no signal */
	CHECK(ioctl(master, TIOCSIG, SIGQUIT) == 0);
	get("it says", master, 5);
	CHECK(close(master) == 0);
	report("leader", pid);
}

/*
 * The foreground group, which is not the leader's, hears of the hang-up when the leader dies of
 * it.
 */
static void foreground(void)
{
	int master = master_open(0), slave = slave_open(master, O_NOCTTY), pid, out[2];
	char c;

	CHECK(pipe(out) == 0);
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) {
		int job;

		CHECK(setsid() == getpid() && ioctl(slave, TIOCSCTTY, 0) == 0);
		CHECK(close(master) == 0 && close(out[0]) == 0);
		signal(SIGTTOU, SIG_IGN);
		job = fork();
		CHECK(job >= 0);
		if (job == 0) {
			sigset_t set;
			int got;

			CHECK(setpgid(0, 0) == 0 && tcsetpgrp(slave, getpid()) == 0);
			sigemptyset(&set);
			sigaddset(&set, SIGHUP);
			sigprocmask(SIG_BLOCK, &set, NULL);
			CHECK(write(out[1], "r", 1) == 1);
			CHECK(sigwait(&set, &got) == 0);
			CHECK(write(out[1], got == SIGHUP ? "h" : "?", 1) == 1);
			_exit(0);
		}
		for (;;)
			pause();
	}
	CHECK(close(slave) == 0 && close(out[1]) == 0);
	CHECK(read(out[0], &c, 1) == 1 && c == 'r');
	CHECK(close(master) == 0);
	report("leader without a handler", pid);
	CHECK(read(out[0], &c, 1) == 1);
	printf("its foreground: %c\n", c);
	CHECK(read(out[0], &c, 1) == 0 && close(out[0]) == 0);
}

/* TIOCSCTTY and TIOCNOTTY. */
static void taking(void)
{
	int master = master_open(0), slave = slave_open(master, O_NOCTTY), other = master_open(0),
	    pid;

	fflush(stdout);
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) {
		int theirs = slave_open(other, O_NOCTTY);

		CHECK(setsid() == getpid());
		catch(SIGHUP);
		catch(SIGCONT);
		call("take", ioctl(slave, TIOCSCTTY, 0));
		call("take again", ioctl(slave, TIOCSCTTY, 0));
		call("take a second", ioctl(theirs, TIOCSCTTY, 0));
		fflush(stdout);
		if (fork() == 0) {
			call("child, not a leader", ioctl(theirs, TIOCSCTTY, 0));
			CHECK(setsid() == getpid());
			call("leader, but it is taken", tcgetsid(slave));
			fflush(stdout);
			_exit(0);
		}
		CHECK(wait(NULL) > 0);
		call("give up", ioctl(slave, TIOCNOTTY));
		while (!seen[SIGHUP] || !seen[SIGCONT])
			usleep(1000);
		call("twice", ioctl(slave, TIOCNOTTY));
		call("the second by its master", ioctl(other, TIOCSCTTY, 0));
		printf("session %d\n", tcgetsid(theirs) == getpid());
		fflush(stdout);
		_exit(0);
	}
	report("taking", pid);
	CHECK(close(master) == 0 && close(slave) == 0 && close(other) == 0);
}

static uint64_t state;

static void fill(unsigned char *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		p[i] = (unsigned char)(next_random(&state) >> 8);
}

/* Much in both directions at once, by blocking calls on one side and poll on the other. */
static void bulk(void)
{
	static unsigned char data[BULK], back[BULK];
	int master = master_open(O_NONBLOCK), slave = slave_open(master, O_NOCTTY), pid;
	size_t sent = 0, got = 0;

	raw(slave);
	state = 42;
	fill(data, sizeof(data));
	fflush(stdout);
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) {
		ssize_t n;

		CHECK(close(master) == 0);
		for (size_t done = 0; done < BULK; done += (size_t)n) {
			n = read(slave, back, sizeof(back));
			CHECK(n > 0 && write(slave, back, (size_t)n) == n);
		}
		_exit(0);
	}
	CHECK(close(slave) == 0);
	while (got < BULK) {
		const short want = POLLIN | (sent < BULK ? POLLOUT : 0);
		struct pollfd p = { .fd = master, .events = want };
		ssize_t n;

		CHECK(poll(&p, 1, LONG_MS) == 1);
		if (p.revents & POLLOUT) {
			n = write(master, data + sent, sent + 5000 < BULK ? 5000 : BULK - sent);
			CHECK(n > 0 || errno == EAGAIN);
			sent += n > 0 ? (size_t)n : 0;
		}
		if (p.revents & POLLIN) {
			n = read(master, back + got, BULK - got);
			CHECK(n > 0);
			got += (size_t)n;
		}
	}
	printf("%zu there and back: %d\n", got, memcmp(data, back, BULK) == 0);
	report("echoing", pid);
	CHECK(close(master) == 0);
}

static void many(void)
{
	enum {
		N = 100
	};
	int fds[N], n, m;

	for (int i = 0; i < N; i++) {
		fds[i] = master_open(0);
		CHECK(ioctl(fds[i], TIOCGPTN, &n) == 0);
		for (int j = 0; j < i; j++)
			CHECK(ioctl(fds[j], TIOCGPTN, &m) == 0 && m != n);
	}
	CHECK(ioctl(fds[7], TIOCGPTN, &m) == 0 && close(fds[7]) == 0);
	fds[7] = master_open(0);
	for (int i = 0; i < N; i++)
		CHECK(close(fds[i]) == 0);
	printf("%d at once\n", N);
}

/* The master is told what happens at the other side. */
static void packets(void)
{
	int master = master_open(O_NONBLOCK), slave = slave_open(master, O_NOCTTY | O_NONBLOCK);
	struct termios t;
	char c = 'x';
	int on = 1;

	call("in packet mode", ioctl(master, TIOCPKT, nowhere));
	call("in packet mode", ioctl(master, TIOCPKT, &on));
	on = 7;
	call("is it", ioctl(master, TIOCGPKT, &on));
	printf("%d\n", on);
	once("nothing", master);
	put(slave, "bytes");
	get("a packet", master, 6);
	put(slave, "more");
	wait_for(master, POLLIN);
	call("one byte", read(master, &c, 1));
	printf("%d\n", c);
	get("the packet", master, 5);
	CHECK(tcflow(slave, TCOOFF) == 0 && tcflow(slave, TCOOFF) == 0);
	events("stopped", master);
	once("stopped", master);
	CHECK(tcflow(slave, TCOOFF) == 0 && tcflow(slave, TCOON) == 0);
	put(slave, "after");
	get("goes on", master, 1);
	get("what follows", master, 6);
	put(master, "\23");
	wait_for(master, POLLPRI);
	get("by a key", master, 1);
	put(master, "\21");
	wait_for(master, POLLPRI);
	get("by another", master, 1);
	put(master, "typed");
	get("echo", master, 6);
	CHECK(tcflush(slave, TCIFLUSH) == 0);
	get("input flushed", master, 1);
	CHECK(tcflush(slave, TCOFLUSH) == 0);
	get("output flushed", master, 1);
	CHECK(tcgetattr(slave, &t) == 0);
	t.c_iflag &= ~(tcflag_t)IXON;
	CHECK(tcsetattr(slave, TCSANOW, &t) == 0);
	get("no keys stop it", master, 1);
	t.c_iflag |= IXON;
	CHECK(tcsetattr(slave, TCSAFLUSH, &t) == 0);
	get("keys do, and a flush", master, 1);
	t.c_cc[VSTOP] = 'x';
	CHECK(tcsetattr(slave, TCSANOW, &t) == 0);
	get("others do", master, 1);
	on = 0;
	call("out of it", ioctl(master, TIOCPKT, &on));
	CHECK(tcflow(slave, TCOOFF) == 0 && tcflow(slave, TCOON) == 0);
	put(slave, "plain");
	get("plain", master, 5);
	CHECK(close(slave) == 0 && close(master) == 0);
}

/* The kernel's structures, which <termios.h> hides, and what is done with them by number. */
#define KTCGETS2  _IOR('T', 0x2a, struct ktermios2)
#define KTCSETS2  _IOW('T', 0x2b, struct ktermios2)
#define KTCSETSW2 _IOW('T', 0x2c, struct ktermios2)
#define KTCSETSF2 _IOW('T', 0x2d, struct ktermios2)

struct ktermios2 {
	unsigned int iflag, oflag, cflag, lflag;
	unsigned char line, cc[19];
	unsigned int ispeed, ospeed;
};

struct ktermio {
	unsigned short iflag, oflag, cflag, lflag;
	unsigned char line, cc[8];
};

static void show2(const char *what, int fd)
{
	struct ktermios2 t;

	CHECK(ioctl(fd, KTCGETS2, &t) == 0);
	printf("%s: %#x %#x %#x %#x %u, %u %u, keys", what, t.iflag, t.oflag, t.cflag, t.lflag,
	       t.line, t.ispeed, t.ospeed);
	for (size_t i = 0; i < sizeof(t.cc); i++)
		printf(" %x", t.cc[i]);
	printf("\n");
}

/* Settings in the shapes of System V and with speeds of any number. */
static void shapes(void)
{
	int master = master_open(O_NONBLOCK), slave = slave_open(master, O_NOCTTY | O_NONBLOCK);
	struct ktermios2 t;
	struct ktermio v;
	struct termios old;
	int n = -1;

	show2("new", slave);
	show2("by its master", master);
	CHECK(ioctl(slave, KTCGETS2, &t) == 0);
	t.cflag = (t.cflag & ~0x100fu) | 0x1000; /* BOTHER */
	t.ispeed = 7;
	t.ospeed = 12345;
	call("any speed", ioctl(slave, KTCSETS2, &t));
	show2("any speed", slave);
	t.cflag |= 0x1000 << 16;
	call("two speeds", ioctl(master, KTCSETSW2, &t));
	show2("two speeds", slave);
	CHECK(tcgetattr(slave, &old) == 0);
	old.c_cflag = (old.c_cflag & ~(tcflag_t)(CSIZE | CREAD)) | CS7 | PARENB | CSTOPB;
	call("seven bits", ioctl(slave, TCSETS, &old));
	show2("seven bits", slave);
	t.cflag = B115200 | CS8 | CREAD | B9600 << 16;
	put(master, "typed\n");
	get("echo", master, 7);
	call("names of speeds", ioctl(slave, KTCSETSF2, &t));
	show2("names of speeds", slave);
	once("flushed", slave);
	t.cflag = 0x100f | CS8 | CREAD;
	call("the fastest", ioctl(slave, KTCSETS2, &t));
	show2("the fastest", slave);
	t.cflag = B0 | CS8 | CREAD;
	call("hang up", ioctl(slave, KTCSETS2, &t));
	show2("hang up", slave);
	t.iflag |= 0x12340000;
	t.cflag = B38400 | CS8 | CREAD | 0x80000000;
	t.cc[12] = 'r';
	CHECK(ioctl(slave, KTCSETS2, &t) == 0);
	memset(&v, 0xee, sizeof(v));
	call("termio", ioctl(slave, TCGETA, &v));
	printf("%#x %#x %#x %#x %u", v.iflag, v.oflag, v.cflag, v.lflag, v.line);
	for (size_t i = 0; i < sizeof(v.cc); i++)
		printf(" %x", v.cc[i]);
	printf(" and %x\n", ((unsigned char *)&v)[sizeof(v) - 1]);
	v.iflag = 0x5;
	v.lflag |= ECHO;
	v.lflag &= (unsigned short)~ICANON;
	v.cc[0] = 'i';
	v.cc[7] = 's';
	call("set it", ioctl(master, TCSETA, &v));
	show2("set it", slave);
	call("drained", ioctl(slave, TCSETAW, &v));
	put(master, "typed");
	get("echo", master, 5);
	v.lflag |= ICANON;
	call("flushed", ioctl(slave, TCSETAF, &v));
	once("flushed", slave);
	call("termio nowhere", ioctl(slave, TCGETA, nowhere));
	call("termio from nowhere", ioctl(slave, TCSETA, nowhere));
	call("termios2 nowhere", ioctl(master, KTCGETS2, nowhere));
	call("termios2 from nowhere", ioctl(master, KTCSETS2, nowhere));
	call("carrier", ioctl(slave, TIOCGSOFTCAR, &n));
	printf("%d\n", n);
	n = 1;
	call("no carrier", ioctl(master, TIOCSSOFTCAR, &n));
	show2("no carrier", slave);
	n = 0;
	call("the usual discipline", ioctl(slave, TIOCSETD, &n));
	n = 1000;
	call("none", ioctl(slave, TIOCSETD, &n));
	call("modem lines", ioctl(slave, TIOCMGET, &n));
	CHECK(close(slave) == 0 && close(master) == 0);
}

static void nobody_opens(int master)
{
	fflush(stdout);
	if (fork() == 0) {
		CHECK(setgid(65534) == 0 && setuid(65534) == 0);
		call("nobody", open(ptsname(master), O_RDWR | O_NOCTTY));
		call("nobody by the master", ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY));
		fflush(stdout);
		_exit(0);
	}
	CHECK(wait(NULL) > 0);
}

/* One user of a terminal at a time, and bytes that are typed by a program. */
static void exclusive(void)
{
	int master = master_open(O_NONBLOCK), slave = slave_open(master, O_NOCTTY | O_NONBLOCK);
	int n = -1, fd;

	CHECK(fchmod(slave, 0666) == 0);
	call("shared", ioctl(slave, TIOCGEXCL, &n));
	printf("%d\n", n);
	call("alone", ioctl(slave, TIOCEXCL));
	CHECK(ioctl(slave, TIOCGEXCL, &n) == 0 && ioctl(master, TIOCGEXCL, &fd) == 0);
	printf("%d, master %d\n", n, fd);
	fd = slave_open(master, O_NOCTTY); /* root may */
	CHECK(close(fd) == 0);
	nobody_opens(master);
	call("not alone", ioctl(slave, TIOCNXCL));
	call("the master alone", ioctl(master, TIOCEXCL));
	CHECK(ioctl(slave, TIOCGEXCL, &n) == 0 && ioctl(master, TIOCGEXCL, &fd) == 0);
	printf("%d, master %d\n", n, fd);
	call("nowhere", ioctl(slave, TIOCGEXCL, nowhere));
	CHECK(fchmod(slave, 0600) == 0);
	for (const char *p = "tiped\177\177\177\177yped\n"; *p; p++)
		CHECK(ioctl(slave, TIOCSTI, p) == 0);
	get("typed by root", slave, 6);
	call("typed nowhere", ioctl(slave, TIOCSTI, nowhere));
	fflush(stdout);
	if (fork() == 0) {
		CHECK(setgid(65534) == 0 && setuid(65534) == 0);
		/* EPERM on a Linux that lets anybody do so at the terminal that controls him. */
		printf("typed by nobody: %d\n", ioctl(slave, TIOCSTI, "x"));
		fflush(stdout);
		_exit(0);
	}
	CHECK(wait(NULL) > 0);
	CHECK(close(slave) == 0 && close(master) == 0);
}

int main(void)
{
	alarm(120);
	names();
	settings();
	shapes();
	exclusive();
	bytes();
	flow();
	packets();
	ends();
	sessions();
	foreground();
	taking();
	bulk();
	many();
	return 0;
}
