/* SPDX-License-Identifier: MIT */
/*
 * F_NOTIFY: which changes of a directory signal its owner, how often, and when the watch ends.
 * Prints the same on both. argv[1]: a directory for the files, or /tmp.
 */
#include "call.h"

#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define SIG (SIGRTMIN + 4)
#define ALL (DN_ACCESS | DN_MODIFY | DN_CREATE | DN_DELETE | DN_RENAME | DN_ATTRIB)

static int dir; /* "." */

static void block(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGIO);
	sigaddset(&set, SIG);
	CHECK(sigprocmask(SIG_BLOCK, &set, NULL) == 0);
}

/* Take all signals that are there, and say what they say. */
static void show(const char *what)
{
	const struct timespec none = { 0 };
	siginfo_t info;
	sigset_t set;
	int signo;

	sigemptyset(&set);
	sigaddset(&set, SIGIO);
	sigaddset(&set, SIG);
	printf("%s:", what);
	while ((signo = sigtimedwait(&set, &info, &none)) > 0) {
		printf(" %s code %#x", signo == SIGIO ? "SIGIO" : "signal", info.si_code);
		if (info.si_code != SI_KERNEL)
			printf(" band %#lx fd +%d", (unsigned long)info.si_band, info.si_fd - dir);
		putchar(';');
	}
	putchar('\n');
}

static int opened(const char *name)
{
	const int fd = open(name, O_RDONLY | O_DIRECTORY);

	CHECK(fd >= 0 && fcntl(fd, F_SETSIG, SIG) == 0);
	return fd;
}

static void make(const char *name)
{
	const int fd = open(name, O_CREAT | O_RDWR, 0644);

	CHECK(fd >= 0);
	close(fd);
}

static void errors(void)
{
	int fds[2], fd;

	make("file");
	fd = open("file", O_RDWR);
	CHECK(fd >= 0 && pipe(fds) == 0);
	call("a file", fcntl(fd, F_NOTIFY, DN_CREATE));
	call("a file, nothing", fcntl(fd, F_NOTIFY, 0));
	call("a pipe", fcntl(fds[0], F_NOTIFY, DN_CREATE | DN_MULTISHOT));
	call("a pipe, nothing", fcntl(fds[0], F_NOTIFY, DN_MULTISHOT));
	call("no descriptor", fcntl(-1, F_NOTIFY, DN_CREATE));
	close(fd);
	fd = open(".", O_PATH);
	call("a path", fcntl(fd, F_NOTIFY, DN_CREATE));
	close(fd);
	call("other bits", fcntl(dir, F_NOTIFY, 0x40));
	make("one");
	show("are nothing");
	call("no watch", fcntl(dir, F_NOTIFY, 0));
	close(fds[0]);
	close(fds[1]);
	CHECK(unlink("one") == 0 && unlink("file") == 0);
}

static void owners(void)
{
	const int fd = open(".", O_RDONLY);
	pid_t child;

	CHECK(fd >= 0);
	call("before", fcntl(fd, F_GETOWN));
	call("plain", fcntl(fd, F_NOTIFY, DN_CREATE));
	printf("owner is the process: %d\n", fcntl(fd, F_GETOWN) == getpid());
	make("one");
	show("made");
	make("two");
	show("once only");
	CHECK(fcntl(fd, F_SETSIG, SIGIO) == 0 && fcntl(fd, F_NOTIFY, DN_DELETE) == 0);
	CHECK(unlink("one") == 0);
	show("SIGIO by name");
	fflush(stdout);
	child = fork();
	if (!child) {
		block();
		CHECK(fcntl(fd, F_NOTIFY, DN_DELETE) == 0 && unlink("two") == 0);
		show("child: another one's");
		fflush(stdout);
		_exit(0);
	}
	CHECK(child > 0 && waitpid(child, NULL, 0) == child);
	show("a child's watch, this owner");
	close(fd);
}

static void contents(void)
{
	char buf[8];
	int fd;

	CHECK(fcntl(dir, F_NOTIFY, ALL | DN_MULTISHOT) == 0);
	fd = open("a", O_CREAT | O_RDWR, 0644);
	show("made");
	CHECK(fd >= 0 && write(fd, "12345", 5) == 5);
	show("written");
	CHECK(pread(fd, buf, 3, 0) == 3);
	show("read");
	CHECK(ftruncate(fd, 2) == 0 && truncate("a", 1) == 0);
	show("truncated twice");
	CHECK(fchmod(fd, 0600) == 0 && chmod("a", 0644) == 0);
	show("mode twice");
	CHECK(utimensat(AT_FDCWD, "a", NULL, 0) == 0);
	show("times");
	close(fd);
	close(open("a", O_RDONLY));
	show("opened and closed");
	CHECK(chmod(".", 0755) == 0);
	show("its own mode");
	CHECK(fcntl(dir, F_NOTIFY, 0) == 0);
	CHECK(chmod("a", 0600) == 0 && unlink("a") == 0);
	show("ended");
}

static void names_with(const char *what, int mask)
{
	CHECK(mkdir("d", 0755) == 0);
	make("a");
	CHECK(fcntl(dir, F_NOTIFY, mask | DN_MULTISHOT) == 0);
	printf("%s:\n", what);
	CHECK(link("a", "b") == 0 && symlink("a", "l") == 0 && mkdir("e", 0755) == 0 &&
	      mkfifo("f", 0644) == 0);
	show("  four made");
	CHECK(rename("a", "c") == 0);
	show("  renamed");
	CHECK(rename("c", "d/c") == 0);
	show("  moved out");
	CHECK(rename("d/c", "a") == 0);
	show("  moved in");
	CHECK(syscall(SYS_renameat2, AT_FDCWD, "a", AT_FDCWD, "f", 2) == 0);
	show("  exchanged");
	CHECK(rename("a", "f") == 0);
	show("  replaced");
	CHECK(rename("d", "g") == 0);
	show("  a directory");
	CHECK(unlink("b") == 0 && unlink("l") == 0 && rmdir("e") == 0);
	show("  three removed");
	CHECK(fcntl(dir, F_NOTIFY, 0) == 0);
	CHECK(unlink("f") == 0 && rmdir("g") == 0);
	show("  ended");
}

static void masks(void)
{
	CHECK(fcntl(dir, F_NOTIFY, DN_CREATE) == 0 && fcntl(dir, F_NOTIFY, DN_DELETE) == 0);
	make("a");
	show("the first of two");
	CHECK(unlink("a") == 0);
	show("ends both");
	CHECK(fcntl(dir, F_NOTIFY, DN_CREATE | DN_MULTISHOT) == 0);
	CHECK(fcntl(dir, F_NOTIFY, DN_DELETE) == 0);
	make("a");
	make("b");
	CHECK(unlink("a") == 0 && unlink("b") == 0);
	show("once is more than once");
	CHECK(fcntl(dir, F_NOTIFY, DN_MULTISHOT) == 0);
	make("a");
	CHECK(unlink("a") == 0);
	show("only multishot ends it");
}

static int child_closes(void *fd)
{
	close(*(int *)fd);
	return 0;
}

static void ends(void)
{
	static char stack[65536] __attribute__((aligned(16)));
	int fd = opened("."), copy = dup(fd), other = opened(".");
	pid_t child;

	CHECK(copy >= 0);
	CHECK(fcntl(fd, F_NOTIFY, DN_CREATE | DN_MULTISHOT) == 0);
	make("a");
	show("there");
	close(other);
	make("b");
	show("another opening closed");
	fflush(stdout);
	child = fork();
	if (!child) {
		make("c");
		close(fd);
		close(copy);
		make("d");
		_exit(0);
	}
	CHECK(child > 0 && waitpid(child, NULL, 0) == child);
	show("closed by a child");
	close(copy);
	make("e");
	show("a copy closed");
	copy = dup(fd);
	CHECK(fcntl(copy, F_NOTIFY, DN_DELETE | DN_MULTISHOT) == 0);
	CHECK(fcntl(fd, F_NOTIFY, DN_DELETE | DN_MULTISHOT) == 0);
	CHECK(unlink("a") == 0);
	show("two descriptors");
	CHECK(dup2(dir, copy) == copy);
	CHECK(unlink("b") == 0);
	show("replaced by dup2");
	CHECK(fcntl(fd, F_NOTIFY, DN_DELETE | DN_MULTISHOT) == 0);
	child = clone(child_closes, stack + sizeof(stack), CLONE_FILES | SIGCHLD, &copy);
	CHECK(child > 0 && waitpid(child, NULL, 0) == child);
	CHECK(unlink("c") == 0);
	show("not its file");
	child = clone(child_closes, stack + sizeof(stack), CLONE_FILES | SIGCHLD, &fd);
	CHECK(child > 0 && waitpid(child, NULL, 0) == child);
	CHECK(unlink("d") == 0);
	show("closed in the same table");
	CHECK(unlink("e") == 0);
}

static void places(void)
{
	int fd, top;

	CHECK(mkdir("d", 0755) == 0);
	fd = opened("d");
	top = opened(".");
	CHECK(rename("d", "e") == 0);
	CHECK(fcntl(fd, F_NOTIFY, DN_MODIFY | DN_ATTRIB | DN_ACCESS | DN_MULTISHOT) == 0);
	CHECK(fcntl(top, F_NOTIFY, DN_ATTRIB | DN_MULTISHOT) == 0);
	make("e/x");
	CHECK(truncate("e/x", 3) == 0);
	show("in one that was moved before");
	CHECK(rename("e", "f") == 0 && truncate("f/x", 2) == 0);
	show("and after");
	CHECK(mkdir("d", 0755) == 0);
	make("d/x");
	CHECK(truncate("d/x", 3) == 0);
	show("its old name is another's");
	CHECK(chmod("f", 0700) == 0);
	show("itself, and from above");
	CHECK(unlink("f/x") == 0 && rmdir("f") == 0);
	call("removed", fcntl(fd, F_NOTIFY, DN_CREATE));
	CHECK(unlink("d/x") == 0 && rmdir("d") == 0);
	show("nothing more");
	close(fd);
	close(top);
}

int main(int argc, char **argv)
{
	char name[128];

	setvbuf(stdout, NULL, _IOFBF, 1 << 16);
	snprintf(name, sizeof(name), "%s/dnotifys-%d", argc > 1 ? argv[1] : "/tmp", getpid());
	CHECK(mkdir(name, 0755) == 0 && chdir(name) == 0);
	block();
	dir = opened(".");
	errors();
	owners();
	contents();
	names_with("made", DN_CREATE);
	names_with("removed", DN_DELETE);
	names_with("renamed", DN_RENAME);
	names_with("all", ALL);
	masks();
	ends();
	places();
	CHECK(chdir("/") == 0 && rmdir(name) == 0);
	return 0;
}
