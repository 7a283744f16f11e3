/* SPDX-License-Identifier: MIT */
/*
 * FIFOs: which open waits for which other, what reads, writes and polls answer, names that go away.
 * Prints the same as on Linux.
 *
 * usage: fifos [DIR]: in a new directory below DIR (/dev/shm)
 */
#include "alarms.h"
#include "state.h"
#include "user.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

static char dir[128];

static long call(const char *what, long ret)
{
	const int err = errno;

	printf("%s: %s\n", what, ret < 0 ? strerrorname_np(err) : "done");
	return ret;
}

static int opened(const char *what, const char *name, int flags)
{
	return (int)call(what, open(name, flags));
}

static void got(const char *what, int fd)
{
	char buf[32];
	const ssize_t n = read(fd, buf, sizeof(buf));

	if (n < 0)
		call(what, n);
	else
		printf("%s: %zd \"%.*s\"\n", what, n, (int)n, buf);
}

static void state(const char *what, int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN | POLLOUT };

	CHECK(poll(&p, 1, 0) >= 0);
	printf("%s:%s%s%s%s\n", what, p.revents & POLLIN ? " in" : "",
	       p.revents & POLLOUT ? " out" : "", p.revents & POLLERR ? " err" : "",
	       p.revents & POLLHUP ? " hup" : "");
}

static void names(void)
{
	struct stat st;

	umask(027);
	call("mkfifo", mkfifo("f", 0666));
	call("again", mkfifo("f", 0666));
	call("mknod", mknod("g", S_IFIFO | 0600, 0));
	call("in nothing", mkfifo("no/f", 0600));
	call("below itself", mkfifo("f/f", 0600));
	CHECK(stat("f", &st) == 0);
	printf("mode %o, size %ld, links %lu\n", st.st_mode, (long)st.st_size,
	       (unsigned long)st.st_nlink);
	opened("as a directory", "f", O_RDONLY | O_DIRECTORY | O_NONBLOCK);
	opened("to be new", "f", O_RDWR | O_CREAT | O_EXCL);
	call("truncate", truncate("f", 0));
	call("link", link("f", "h"));
	call("rename", rename("h", "g"));
}

static void one_sided(void)
{
	int r, w, rw;

	opened("write, nobody reads", "f", O_WRONLY | O_NONBLOCK);
	r = opened("read, nobody writes", "f", O_RDONLY | O_NONBLOCK);
	got("read", r);
	state("no writer yet", r);
	w = opened("write", "f", O_WRONLY | O_NONBLOCK | O_TRUNC);
	got("read, empty", r);
	state("reader", r);
	state("writer", w);
	CHECK(write(w, "hello", 5) == 5);
	state("reader, filled", r);
	close(w);
	state("writer gone", r);
	got("rest", r);
	got("end", r);
	state("at the end", r);
	w = opened("another writer", "f", O_WRONLY);
	state("reader", r);
	got("read, empty", r);
	call("seek", lseek(r, 0, SEEK_SET));
	call("pread", pread(r, dir, 1, 0));
	close(r);
	state("reader gone", w);
	call("write", write(w, "x", 1));
	close(w);
	rw = opened("both", "f", O_RDWR);
	CHECK(write(rw, "itself", 6) == 6);
	state("both", rw);
	close(rw);
	r = opened("what was written is gone", "f", O_RDONLY | O_NONBLOCK);
	got("read", r);
	close(r);
}

/* Both ends wait for each other. */
static void meeting(int mine, int other)
{
	int status, fd;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		await_asleep(getppid());
		fd = open("f", other);
		CHECK(fd >= 0);
		if (other == O_WRONLY)
			CHECK(write(fd, "from the child", 14) == 14);
		else
			got("the child reads", fd);
		exit(0);
	}
	fd = opened(mine == O_RDONLY ? "read, waiting" : "write, waiting", "f", mine);
	if (mine == O_RDONLY)
		got("read", fd);
	else
		CHECK(write(fd, "from the parent", 15) == 15);
	close(fd);
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
}

static void interrupted(void)
{
	int status, told[2];
	pid_t pid;
	char c;

	alarms_start(0, -1);
	call("read, interrupted", alarms_end(open("f", O_RDONLY)));
	alarms_start(0, -1);
	call("write, interrupted", alarms_end(open("f", O_WRONLY)));
	CHECK(pipe(told) == 0);
	fflush(stdout);
	pid = fork();
	CHECK(pid >= 0);
	if (!pid)
		exit(read(told[0], &c, 1) != 1 || open("f", O_WRONLY) < 0);
	alarms_start(SA_RESTART, told[1]);
	close((int)call("read, interrupted and again", alarms_end(open("f", O_RDONLY))));
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	close(told[0]);
	close(told[1]);
}

static void without_names(void)
{
	const int r = open("f", O_RDONLY | O_NONBLOCK), w = open("f", O_WRONLY);
	char link[64];
	struct stat st;
	int n, again;

	CHECK(r >= 0 && w >= 0);
	call("unlink", unlink("f"));
	call("unlink the other", unlink("g"));
	CHECK(fstat(r, &st) == 0);
	printf("links %lu\n", (unsigned long)st.st_nlink);
	CHECK(write(w, "still", 5) == 5);
	CHECK(ioctl(r, FIONREAD, &n) == 0);
	printf("%d bytes\n", n);
	call("a new one", mkfifo("f", 0600));
	opened("is another", "f", O_WRONLY | O_NONBLOCK);
	snprintf(link, sizeof(link), "/proc/self/fd/%d", r);
	again = opened("the old one again", link, O_RDONLY | O_NONBLOCK);
	got("read", again);
	close(w);
	state("all writers gone", again);
	close(again);
	close(r);
	call("unlink", unlink("f"));
}

int main(int argc, char **argv)
{
	snprintf(dir, sizeof(dir), "%s/fifos.XXXXXX", argc > 1 ? argv[1] : "/dev/shm");
	setvbuf(stdout, NULL, _IOLBF, 0);
	signal(SIGPIPE, SIG_IGN);
	CHECK(mkdtemp(dir) && chdir(dir) == 0);
	names();
	one_sided();
	meeting(O_RDONLY, O_WRONLY);
	meeting(O_WRONLY, O_RDONLY);
	interrupted();
	without_names();
	CHECK(chdir("/") == 0 && rmdir(dir) == 0);
	return 0;
}
