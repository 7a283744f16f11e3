/* SPDX-License-Identifier: MIT */
/*
 * A file in /dev/shm is open for writing or is executed, not both: ETXTBSY, in all the ways to
 * write and to execute. Prints the same as on Linux.
 */
#include "user.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

static char dir[] = "/dev/shm/busy.XXXXXX";

static int said(const char *what, int ret)
{
	const int err = errno;

	printf("%s: %s\n", what, ret < 0 ? strerrorname_np(err) : "done");
	return ret;
}

static void copy_to(int out)
{
	static char buf[65536];
	const int in = open("/proc/self/exe", O_RDONLY);
	ssize_t n;

	CHECK(in >= 0);
	while ((n = read(in, buf, sizeof(buf))) > 0)
		CHECK(write(out, buf, (size_t)n) == n);
	close(in);
}

/* Run @name in a child; it tells how that went, or what the program did. */
static void runs(const char *what, const char *name, const char *mode)
{
	int status;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		execl(name, name, mode, NULL);
		said(what, -1);
		exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
}

/* Start "prog", which waits until the pipe's other end is closed, and says when it is there. */
static pid_t start(const char *mode, int *hold)
{
	int in[2], out[2];
	char c;
	pid_t pid;

	CHECK(pipe(in) == 0 && pipe(out) == 0);
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		dup2(in[0], 0);
		dup2(out[1], 1);
		close(in[1]);
		close(out[0]);
		execl("prog", "prog", mode, NULL);
		_exit(1);
	}
	close(in[0]);
	close(out[1]);
	CHECK(read(out[0], &c, 1) == 1);
	if (strcmp(mode, "leave") == 0)
		CHECK(waitpid(pid, NULL, 0) == pid);
	close(out[0]);
	*hold = in[1];
	return pid;
}

static void writing(const char *when)
{
	printf("%s\n", when);
	close(said(" open to write", open("prog", O_WRONLY)));
	close(said(" open to read and write", open("prog", O_RDWR)));
	close(said(" open to append", open("prog", O_WRONLY | O_APPEND)));
	close(said(" open and truncate", open("prog", O_RDONLY | O_TRUNC)));
	close(said(" open to read", open("prog", O_RDONLY)));
	said(" truncate", truncate("prog", 12));
	said(" chmod", chmod("prog", 0700));
}

int main(int argc, char **argv)
{
	struct stat st;
	int fd, hold, status, mem;
	pid_t pid;
	char name[32];

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc > 1 && strcmp(argv[1], "hello") == 0)
		return puts("the program runs") < 0;
	if (argc > 1) { /* "wait", or "leave" it to a child */
		if (strcmp(argv[1], "leave") == 0 && fork() > 0)
			return 0;
		CHECK(write(1, "x", 1) == 1);
		return read(0, name, 1) != 0;
	}
	CHECK(mkdtemp(dir) && chdir(dir) == 0);
	fd = open("prog", O_WRONLY | O_CREAT, 0700);
	CHECK(fd >= 0);
	copy_to(fd);
	runs("open for writing", "./prog", "hello");
	close(fd);
	runs("closed", "./prog", "hello");
	fd = open("script", O_RDWR | O_CREAT, 0700);
	CHECK(write(fd, "#!./prog hello\n", 15) == 15);
	runs("a script, open", "./script", NULL);
	close(fd);
	runs("a script, closed", "./script", NULL);

	pid = start("wait", &hold);
	writing("while it runs");
	said(" link", link("prog", "other"));
	close(said(" the other name", open("other", O_WRONLY)));
	close(hold);
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	close(said("when it has ended", open("other", O_WRONLY)));
	/* The refused opens have left no trace: nobody else has the file open. */
	fd = open("other", O_RDWR);
	said("a lease", fcntl(fd, F_SETLEASE, F_WRLCK));
	said("no lease", fcntl(fd, F_SETLEASE, F_UNLCK));
	close(fd);

	start("leave", &hold);
	writing("while its child runs");
	said(" rename another over it", rename("script", "prog"));
	close(said(" the new one", open("prog", O_WRONLY)));
	close(hold);
	do
		fd = open("other", O_WRONLY);
	while (fd < 0 && errno == ETXTBSY);
	said("when that has ended", fd);
	close(fd);

	/* A process may execute a file without a name that it holds open. */
	mem = memfd_create("prog", 0);
	CHECK(mem >= 0);
	copy_to(mem);
	snprintf(name, sizeof(name), "/proc/self/fd/%d", mem);
	runs("a memfd", name, "hello");
	fd = said("open it once more", open(name, O_RDWR));
	runs("a memfd, opened by a name", name, "hello");
	close(fd);
	runs("a memfd", name, "hello");
	CHECK(stat("other", &st) == 0);
	unlink("prog");
	unlink("other");
	CHECK(chdir("/") == 0 && rmdir(dir) == 0);
	return 0;
}
