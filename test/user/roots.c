// SPDX-License-Identifier: MIT
/*
 * chroot: what "/" and ".." mean below another root, who inherits it, and which ways lead out.
 *
 * roots DIR [removed]: in directory DIR, which it makes; paths are printed without it. With
 * "removed" also in a root that is gone, which only files in memory bear. roots inner: the part
 * that runs as a program of the new root.
 */
#include "user.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define NOBODY 65534
#define RACES  100

static const char *base;

/* Without what differs between two machines. */
static void show(const char *what, const char *path)
{
	const char *at = strstr(path, base);

	if (at)
		printf("%s: %.*sBASE%s\n", what, (int)(at - path), path, at + strlen(base));
	else
		printf("%s: %s\n", what, path);
	fflush(stdout);
}

static void show_cwd(void)
{
	char buf[4096];

	/* The C library hides what is not below the root. */
	if (syscall(SYS_getcwd, buf, sizeof(buf)) > 0)
		show("cwd", buf);
	else
		printf("cwd: %s\n", strerror(errno));
}

static void show_link(const char *what, const char *fmt, int pid)
{
	char path[64], buf[4096];
	ssize_t len;

	snprintf(path, sizeof(path), fmt, pid);
	len = readlink(path, buf, sizeof(buf) - 1);
	buf[len < 0 ? 0 : len] = '\0';
	show(what, len < 0 ? strerror(errno) : buf);
}

/* The first line of a file tells which one it is. */
static void show_file(const char *path)
{
	char buf[64] = "";
	const int fd = open(path, O_RDONLY);
	const ssize_t len = fd < 0 ? 0 : read(fd, buf, sizeof(buf) - 1);

	if (fd < 0)
		printf("%s: %s\n", path, strerror(errno));
	else
		printf("%s: %.*s\n", path, (int)len, buf);
	if (fd >= 0)
		close(fd);
}

static void make(const char *path, const char *text)
{
	const int fd = open(path, O_CREAT | O_TRUNC | O_WRONLY, 0644);

	CHECK(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text) && !close(fd));
}

static void copy(const char *from, const char *to)
{
	const int in = open(from, O_RDONLY), out = open(to, O_CREAT | O_WRONLY, 0755);
	static char buf[65536];
	ssize_t len;

	CHECK(in >= 0 && out >= 0);
	while ((len = read(in, buf, sizeof(buf))) > 0)
		CHECK(write(out, buf, (size_t)len) == len);
	CHECK(!close(in) && !close(out));
}

static void make_tree(void)
{
	CHECK(!mkdir(base, 0755) && !chdir(base));
	make("file", "outside");
	make("marker", "outside");
	CHECK(!mkdir("jail", 0755) && !mkdir("jail/a", 0755) && !mkdir("jail/a/b", 0755));
	CHECK(!mkdir("jail/shut", 0700) && !mkdir("other", 0755));
	make("jail/file", "inside");
	make("jail/a/file", "inside a");
	make("other/file", "other");
	CHECK(!symlink("/file", "jail/a/abs") && !symlink("../../../file", "jail/a/up"));
	CHECK(!symlink("/a", "jail/dir") && !symlink("/marker", "jail/a/b/marker"));
	CHECK(!symlink("../../../../new", "jail/a/b/new") && !symlink("../file", "jail/out"));
}

/* In a child, whose root is its own business. */
static void in_child(void (*fn)(void))
{
	int status;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		fn();
		fflush(stdout);
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid);
	if (status)
		printf("child: status %#x\n", status);
	fflush(stdout);
}

static void errors(void)
{
	T(chroot("jail/none"));
	T(chroot("jail/file"));
	T(chroot(""));
	T(chroot((char *)8));
	T(chroot("jail/a/abs"));
	CHECK(!setgid(NOBODY) && !setuid(NOBODY));
	T(chroot("jail"));
	T(chroot("jail/shut"));
	T(chroot("jail/none"));
}

static void names(void)
{
	static const char *const all[] = {
		"/file",
		"/../file",
		"/../../../file",
		"/a/../../file",
		"/a/b/../../../file",
		"/a/abs",
		"/a/up",
		"/dir/file",
		"/dir/../file",
		"/a/b/../up",
		"/a/b/marker",
		"/marker",
		"/..//.././a/file",
		"/a/../..",
		"/jail/file",
		"/out",
		"out",
	};
	struct stat root, up;

	T(chroot("jail"));
	T(chdir("/"));
	show_cwd();
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		show_file(all[i]);
	show_file("../file");
	show_file("a/../../file");
	T(stat("/", &root));
	T(stat("/..", &up));
	T(root.st_ino == up.st_ino && root.st_dev == up.st_dev);
	T(chdir("a/b"));
	show_cwd();
	show_file("../../../file");
	T(chdir("../../../.."));
	show_cwd();
	T(chdir("/a"));
	T(chroot("."));
	show_file("/file");
	T(chdir(".."));
	show_cwd();
	/* Made where the links lead. */
	T(close(open("/b/new", O_CREAT | O_WRONLY, 0600)));
	T(access("/new", F_OK));
	T(mkdir("/../dir2", 0700));
	T(rename("/../dir2", "/b/../../dir3"));
	T(rmdir("/dir3"));
	T(unlink("/new"));
}

static void cwd_outside(void)
{
	T(chdir("other"));
	T(chroot("../jail"));
	show_cwd();
	show_file("file");
	show_file("../file");
	show_file("/file");
	show_file("../jail/file");
	show_file("../jail/../file");
	show_file("../jail/a/abs");
	show_file("../jail/a/up");
	show_link("own root", "/proc/self/root", 0);
	T(chdir("../jail"));
	show_cwd();
	T(chdir(".."));
	show_cwd();
}

/* The old way out: another chroot with the working directory above it; root may do that. */
static void escape(void)
{
	T(chroot("jail"));
	T(chdir("/"));
	T(chroot("a"));
	show_cwd();
	for (int i = 0; i < 20; i++)
		CHECK(!chdir(".."));
	T(chroot("."));
	T(access(base, F_OK));
}

/* A descriptor from outside leads there, as long as it is relative to it. */
static void descriptors(void)
{
	const int out = open("other", O_RDONLY | O_DIRECTORY);
	int fd;

	T(chroot("jail"));
	T(chdir("/"));
	fd = openat(out, "../file", O_RDONLY);
	T(fd >= 0);
	close(fd);
	fd = openat(out, "/file", O_RDONLY);
	T(fd >= 0);
	close(fd);
	T(fchdir(out));
	show_cwd();
	show_file("file");
	CHECK(!setgid(NOBODY) && !setuid(NOBODY));
	T(chroot("/"));
	T(chdir("/"));
	show_file("../file");
}

static void *enter(void *arg)
{
	T(chroot(arg));
	return NULL;
}

static void shared(void)
{
	pthread_t th;
	int status;
	pid_t pid;

	/* A thread's root is everybody's; a child's is its own. */
	CHECK(!pthread_create(&th, NULL, enter, "jail") && !pthread_join(th, NULL));
	show_file("/file");
	pid = fork();
	if (!pid) {
		T(chroot("/a"));
		show_file("/file");
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid && !status);
	show_file("/file");
}

static void program(void)
{
	T(chroot("jail"));
	T(chdir("/a/b"));
	execl("/self", "self", "inner", NULL);
	printf("exec: %s\n", strerror(errno));
}

static int inner(void)
{
	base = "/none";
	show_cwd();
	show_file("/file");
	show_file("../file");
	show_file("../../../../file");
	return 0;
}

/* How others see it. */
static void looked_at(void)
{
	int ready[2], go[2], status;
	char c, path[64];
	pid_t pid;

	CHECK(!pipe(ready) && !pipe(go));
	pid = fork();
	if (!pid) {
		CHECK(!chroot("jail") && !chdir("/a"));
		CHECK(write(ready[1], "x", 1) == 1 && read(go[0], &c, 1) == 1);
		show_cwd();
		show_file("../../file");
		_exit(0);
	}
	CHECK(read(ready[0], &c, 1) == 1);
	show_link("root", "/proc/%d/root", pid);
	show_link("cwd", "/proc/%d/cwd", pid);
	snprintf(path, sizeof(path), "/proc/%d/root/file", pid);
	T(access(path, F_OK));
	snprintf(path, sizeof(path), "/proc/%d/root/a/abs", pid);
	T(access(path, F_OK)); /* an absolute link begins at the root of the process that looks */
	/* It moves, and goes on. */
	T(rename("jail", "moved"));
	show_link("root", "/proc/%d/root", pid);
	CHECK(write(go[1], "x", 1) == 1 && waitpid(pid, &status, 0) == pid);
	T(status);
	T(rename("moved", "jail"));
}

static void removed(void)
{
	T(mkdir("gone", 0755));
	T(chroot("gone"));
	T(chdir("/"));
	/* The parent's hands: a descriptor of its directory. */
	T(unlinkat(3, "gone", AT_REMOVEDIR));
	show_cwd();
	T(access("/", F_OK));
	T(mkdir("/x", 0755));
	T(access("/x", F_OK));
	T(access("..", F_OK));
	T(access("../file", F_OK));
}

/* The root moves while a process below it climbs: it never comes out. */
static void raced(void)
{
	volatile int *stop =
		mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	long out = 0, in = 0;
	int ready[2], status;
	pid_t pid, ended = 0;
	char c;

	CHECK(stop != MAP_FAILED && !pipe(ready));
	pid = fork();
	if (!pid) {
		CHECK(!chroot("jail") && !chdir("/a/b"));
		CHECK(write(ready[1], "x", 1) == 1);
		for (int i = 0; i < RACES; i++) {
			struct stat st;

			out += !stat("../../../marker", &st) || !stat("/../marker", &st);
			in += !stat("../../../file", &st);
		}
		printf("out %ld, in %d\n", out, in > 0);
		fflush(stdout);
		*stop = 1;
		_exit(0);
	}
	CHECK(read(ready[0], &c, 1) == 1);
	/* A climber that fails sets no mark. */
	while (!*stop && !(ended = waitpid(pid, &status, WNOHANG))) {
		CHECK(!rename("jail", "moved"));
		CHECK(!rename("moved", "jail"));
	}
	CHECK((ended ? ended : waitpid(pid, &status, 0)) == pid);
	T(status);
}

int main(int argc, char **argv)
{
	struct stat st;

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc == 2 && !strcmp(argv[1], "inner"))
		return inner();
	CHECK(argc == 2 || argc == 3);
	base = argv[1];
	umask(022);
	make_tree();
	CHECK(open(".", O_RDONLY | O_DIRECTORY) == 3);
	copy("/proc/self/exe", "jail/self");
	in_child(errors);
	in_child(names);
	in_child(cwd_outside);
	in_child(escape);
	in_child(descriptors);
	in_child(shared);
	in_child(program);
	in_child(looked_at);
	if (argc == 3)
		in_child(removed);
	in_child(raced);
	/* Nothing of all this is the parent's. */
	show_link("own root", "/proc/self/root", 0);
	show_file("file");
	T(stat("/proc/self/root/.", &st));
	return 0;
}
