// SPDX-License-Identifier: MIT
/*
 * Bind mounts, and mounts of one's own: what is seen through them, and by whom.
 *
 * binds DIR: in directory DIR, which it makes; paths are printed without it. It prints the same on
 * Linux, in a mount namespace of its own with private mounts.
 */
#include "user.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define NOBODY 65534

static const char *base, *last; /* the directory, and its own name in there */

static void show(const char *path)
{
	char buf[64] = "";
	const int fd = open(path, O_RDONLY);
	if (fd >= 0 && read(fd, buf, sizeof(buf) - 1) < 0)
		strcpy(buf, strerror(errno));
	printf("%s: %s\n", path, fd < 0 ? strerror(errno) : buf);
	if (fd >= 0)
		close(fd);
}

static void show_cwd(void)
{
	char buf[4096];

	if (!getcwd(buf, sizeof(buf)))
		printf("cwd: %s\n", strerror(errno));
	else
		printf("cwd: %s\n", strncmp(buf, base, strlen(base)) ? buf : buf + strlen(base));
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The lines of mountinfo that are below the directory, without numbers; roots from its name on. */
static void show_mounts(void)
{
	FILE *f = fopen("/proc/self/mountinfo", "r");
	char line[8192], root[2048], at[2048], options[512];
	char *lines[64];
	int n = 0;

	while (f && fgets(line, sizeof(line), f)) {
		const char *tail;

		if (sscanf(line, "%*d %*d %*s %2047s %2047s %511s", root, at, options) != 3 ||
		    strncmp(at, base, strlen(base)))
			continue;
		tail = strstr(root, last);
		options[2] = '\0'; /* ro or rw */
		CHECK(n < 64 && asprintf(&lines[n++], "%s %s %s", at + strlen(base),
					 tail ? tail : root, options) > 0);
	}
	if (f)
		fclose(f);
	qsort(lines, (size_t)n, sizeof(lines[0]), by_text);
	for (int i = 0; i < n; i++) {
		printf("mount %s\n", lines[i]);
		free(lines[i]);
	}
}

/* --- what is seen through them ----------------------------------------------------------- */

static void a_directory(void)
{
	struct stat a, b;

	T(mount("d/e", "b", NULL, MS_BIND, NULL));
	T(stat("d/e/f", &a));
	T(stat("b/f", &b));
	printf("the same file: %d\n", a.st_dev == b.st_dev && a.st_ino == b.st_ino);
	show("b/f");
	show("b/../top");
	show("b/up");
	show("b/sub/../f");
	show("b/sub/../../top");
	show("b/sub/back");
	T(make_file("b/new", "new"));
	show("d/e/new");
	show_mounts();
	T(chdir("b/sub"));
	show_cwd();
	show("../f");
	T(chdir("../.."));
	show_cwd();
	T(rename("b/new", "d/e/other"));
	T(link("b/new", "d/e/other"));
	T(rename("b/new", "b/other"));
	T(unlink("d/e/other"));
	T(rmdir("b"));
	T(rmdir("d/e"));
	T(mount("b", "b", NULL, MS_REMOUNT | MS_BIND | MS_RDONLY, NULL));
	T(mkdir("b/x", 0755));
	T(mkdir("d/e/x", 0755));
	T(rmdir("b/x"));
	T(rmdir("d/e/x"));
	show_mounts();
	T(mount("b/sub", "c", NULL, MS_BIND, NULL));
	show("c/../top");
	show("c/back");
	show_mounts();
	T(umount2("b", 0));
	show("c/g");
	T(umount2("c", 0));
}

/* A directory that leaves the root of a bind mount by another one: ".." does not follow it. */
static void moved_out(void)
{
	const int top = open(".", O_RDONLY | O_DIRECTORY);
	struct stat st;

	CHECK(top >= 0);
	T(mount("d/e", "b", NULL, MS_BIND, NULL));
	T(chdir("b/sub"));
	show("../f");
	T(renameat(top, "d/e/sub", top, "moved"));
	show("g");
	show("./../f");
	show("../top");
	show("back");
	show("../b/f");
	T(open("..", O_RDONLY));
	T(open("../new", O_CREAT | O_RDWR, 0600));
	T(stat(".", &st));
	T(mkdir("deep", 0755));
	show("deep/../g");
	show("deep/../../top");
	T(chdir("deep"));
	T(chdir("../.."));
	T(open("../../b", O_RDONLY));
	T(renameat(top, "moved", top, "d/e/sub"));
	show("../../f");
	show("../../../top");
	T(chdir("../.."));
	show_cwd();
	T(rmdir("sub/deep"));
	T(fchdir(top));
	T(umount2("b", 0));
	close(top);
}

static void a_file(void)
{
	T(make_file("g", "covered"));
	T(mount("d/e/f", "g", NULL, MS_BIND, NULL));
	show("g");
	T(unlink("g"));
	T(rename("g", "h"));
	show_mounts();
	T(umount2("g", 0));
	show("g");
	T(mount("d", "g", NULL, MS_BIND, NULL));
	T(mount("g", "b", NULL, MS_BIND, NULL));
	T(unlink("g"));
}

static void trees(void)
{
	T(mount("in", "d/e/sub", "tmpfs", 0, NULL));
	T(make_file("d/e/sub/in", "in"));
	T(mount("d", "b", NULL, MS_BIND, NULL));
	show("b/e/sub/in");
	show("b/e/sub/g");
	T(umount2("b", 0));
	T(mount("d", "b", NULL, MS_BIND | MS_REC, NULL));
	show("b/e/sub/in");
	show("b/e/sub/../f");
	T(umount2("b", 0));
	show_mounts();
	T(umount2("b", MNT_DETACH));
	/* Into itself, again and again. */
	for (int i = 0; i < 3; i++)
		T(mount("d", "d/loop", NULL, MS_BIND | MS_REC, NULL));
	show("d/loop/e/f");
	show("d/loop/loop/e/f");
	show("d/loop/loop/loop/loop/e/f");
	show_mounts();
	for (int i = 0; i < 3; i++)
		T(umount2("d/loop", MNT_DETACH));
	T(umount2("d/e/sub", 0));
	show_mounts();
}

static void errors(void)
{
	T(mount(NULL, "b", NULL, MS_BIND, NULL));
	T(mount("", "b", NULL, MS_BIND, NULL));
	T(mount("none", "b", NULL, MS_BIND, NULL));
	T(mount("d", "none", NULL, MS_BIND, NULL));
	T(mount("top/x", "b", NULL, MS_BIND, NULL));
	T(mount("d", "b", NULL, MS_BIND | MS_REC | MS_NODEV, NULL));
	T(umount2("b", MNT_DETACH));
}

/* --- mounts of one's own ------------------------------------------------------------------- */

static void child_of(int in, int out)
{
	char c;

	T(unshare(CLONE_NEWNS));
	T(mount("own", "b", "tmpfs", 0, NULL));
	T(make_file("b/own", "own"));
	T(umount2("c", 0));
	show("c/shared");
	fflush(stdout);
	CHECK(write(out, "c", 1) == 1 && read(in, &c, 1) == 1);
	show("b/own");
	show("b/later");
	show_cwd();
	show_mounts();
	fflush(stdout);
	_exit(0);
}

static void apart(void)
{
	int there[2], back[2];
	pid_t pid;
	char c;

	T(mount("shared", "c", "tmpfs", 0, NULL));
	T(make_file("c/shared", "shared"));
	CHECK(!pipe(there) && !pipe(back));
	fflush(stdout);
	pid = fork();
	if (!pid)
		child_of(there[0], back[1]);
	CHECK(read(back[0], &c, 1) == 1);
	show("b/own");
	show("c/shared");
	T(mount("later", "b", "tmpfs", 0, NULL));
	T(make_file("b/later", "later"));
	fflush(stdout);
	CHECK(write(there[1], "c", 1) == 1);
	waitpid(pid, NULL, 0);
	T(umount2("b", 0));
	T(umount2("c", 0));
	show_mounts();
}

static void *elsewhere(void *arg)
{
	(void)arg;
	T(unshare(CLONE_VM));
	T(unshare(CLONE_THREAD));
	T(unshare(CLONE_FS | CLONE_FILES));
	T(chdir("d/e"));
	T(umask(077));
	T(close(100));
	show_cwd();
	return NULL;
}

static void parts(void)
{
	pthread_t thread;
	pid_t pid;

	T(dup2(1, 100));
	CHECK(!pthread_create(&thread, NULL, elsewhere, NULL));
	pthread_join(thread, NULL);
	show_cwd();
	printf("umask %o\n", umask(022));
	T(fcntl(100, F_GETFD));
	T(close(100));
	T(unshare(0));
	T(unshare(CLONE_VFORK));
	T(unshare(CLONE_SYSVSEM));
	T(syscall(SYS_clone, CLONE_NEWNS | CLONE_FS | SIGCHLD, 0, 0, 0, 0));
	fflush(stdout);
	pid = (pid_t)syscall(SYS_clone, CLONE_NEWNS | SIGCHLD, 0, 0, 0, 0);
	if (!pid) {
		T(mount("clone", "b", "tmpfs", 0, NULL));
		T(make_file("b/x", "of the clone"));
		show("b/x");
		CHECK(!setgid(NOBODY) && !setuid(NOBODY));
		T(unshare(CLONE_NEWNS));
		T(unshare(CLONE_FS));
		T(syscall(SYS_clone, CLONE_NEWNS | SIGCHLD, 0, 0, 0, 0));
		fflush(stdout);
		_exit(0);
	}
	waitpid(pid, NULL, 0);
	show("b/x");
}

static int remove_all(const char *dir)
{
	const pid_t pid = fork();
	int status;

	if (!pid) {
		CHECK(!chdir(dir));
		for (const char *const *p =
			     (const char *const[]){ "d/e/up", "d/e/sub/back", "d/e/sub/g", "d/e/f",
						    "top", "b", "c", "d/loop", "d/e/sub", "d/e",
						    "d", NULL };
		     *p; p++)
			CHECK(!remove(*p));
		_exit(0);
	}
	waitpid(pid, &status, 0);
	return status || rmdir(dir);
}

int main(int argc, char **argv)
{
	CHECK(argc == 2);
	base = argv[1];
	last = strrchr(base, '/');
	umask(022);
	T(mkdir(base, 0755));
	T(chdir(base));
	T(mkdir("d", 0755));
	T(mkdir("d/e", 0755));
	T(mkdir("d/e/sub", 0755));
	T(mkdir("d/loop", 0755));
	T(mkdir("b", 0755));
	T(mkdir("c", 0755));
	T(make_file("top", "top"));
	T(make_file("d/e/f", "f"));
	T(make_file("d/e/sub/g", "g"));
	T(symlink("../top", "d/e/up"));
	T(symlink("../../top", "d/e/sub/back"));
	a_directory();
	moved_out();
	a_file();
	trees();
	errors();
	apart();
	parts();
	show_mounts();
	T(chdir("/"));
	fflush(stdout);
	return remove_all(base);
}
