/* SPDX-License-Identifier: MIT */
/*
 * Extended attributes, and of what keeps none. Prints the same as on Linux.
 *
 * usage: xattrs [DIR]: of files below DIR (/dev/shm)
 */
#include "call.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>

static int *volatile nowhere = (int *)8;
static char buf[70000];

static void get(const char *what, const char *path, const char *name, size_t size)
{
	const ssize_t n = getxattr(path, name, buf, size);
	const int err = errno;

	if (n < 0)
		printf("%s: %s\n", what, strerrorname_np(err));
	else
		printf("%s: %d <%.*s>\n", what, (int)n, size ? (int)n : 0, buf);
}

static int cmp(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* In the order of the alphabet: Linux has another one than they were made in. */
static void list(const char *what, const char *path)
{
	const ssize_t n = listxattr(path, buf, sizeof(buf));
	char *names[32];
	int nr = 0;

	printf("%s: %d", what, (int)n);
	for (char *at = buf; n > 0 && at < buf + n; at += strlen(at) + 1)
		if (strncmp(at, "security.", 9))
			names[nr++] = at;
	qsort(names, (size_t)nr, sizeof(names[0]), cmp);
	for (int i = 0; i < nr; i++)
		printf(" %s", names[i]);
	putchar('\n');
}

static void files(void)
{
	char long_name[300];
	int fd = open("file", O_CREAT | O_RDWR, 0644);

	memset(long_name, 'a', sizeof(long_name));
	memcpy(long_name, "user.", 5);
	long_name[299] = '\0';
	CHECK(fd >= 0);
	list("none", "file");
	call("set", setxattr("file", "user.one", "first", 5, 0));
	call("create", setxattr("file", "user.one", "again", 5, XATTR_CREATE));
	call("replace", setxattr("file", "user.one", "second", 6, XATTR_REPLACE));
	call("replace none", setxattr("file", "user.two", "x", 1, XATTR_REPLACE));
	call("create", fsetxattr(fd, "user.two", "", 0, XATTR_CREATE));
	call("both", setxattr("file", "user.three", "x", 1, XATTR_CREATE | XATTR_REPLACE));
	get("get", "file", "user.one", 100);
	get("size", "file", "user.one", 0);
	get("small", "file", "user.one", 3);
	get("empty", "file", "user.two", 100);
	get("none", "file", "user.none", 100);
	list("two", "file");
	call("list size", listxattr("file", NULL, 0));
	call("list small", listxattr("file", buf, 3));
	call("by descriptor", fgetxattr(fd, "user.one", buf, 100));
	call("remove", removexattr("file", "user.one"));
	call("again", fremovexattr(fd, "user.one"));
	list("one", "file");
	call("flags", setxattr("file", "user.x", "x", 1, 4));
	call("no name", setxattr("file", "", "x", 1, 0));
	call("long name", setxattr("file", long_name, "x", 1, 0));
	call("prefix only", setxattr("file", "user.", "x", 1, 0));
	call("no family", setxattr("file", "other.x", "x", 1, 0));
	call("no dot", setxattr("file", "user", "x", 1, 0));
	get("no family", "file", "other.x", 1);
	call("large", setxattr("file", "user.large", buf, 65537, 0));
	memset(buf, 'z', sizeof(buf));
	call("largest", setxattr("file", "user.large", buf, 65536, 0));
	call("its size", getxattr("file", "user.large", NULL, 0));
	call("nowhere", setxattr("file", "user.x", nowhere, 10, 0));
	call("name nowhere", setxattr("file", (void *)nowhere, "x", 1, 0));
	call("to nowhere", getxattr("file", "user.large", nowhere, 65536));
	call("list to nowhere", listxattr("file", (void *)nowhere, 1000));
	call("no file", setxattr("none", "user.x", "x", 1, 0));
	call("closed", fsetxattr(99, "user.x", "x", 1, 0));
	call("trusted", setxattr("file", "trusted.x", "t", 1, 0));
	list("with trusted", "file");
	close(fd);
}

static void others(void)
{
	int p[2];

	CHECK(symlink("file", "link") == 0 && mkdir("dir", 0755) == 0 && mkfifo("fifo", 0644) == 0);
	call("link's file", setxattr("link", "user.by", "link", 4, 0));
	call("link itself", lsetxattr("link", "user.by", "link", 4, 0));
	call("get of link itself", lgetxattr("link", "user.by", buf, 4));
	call("trusted of link", lsetxattr("link", "trusted.by", "link", 4, 0));
	call("list of link", llistxattr("link", buf, sizeof(buf)));
	call("remove of link", lremovexattr("link", "trusted.by"));
	call("directory", setxattr("dir", "user.d", "d", 1, 0));
	call("fifo", setxattr("fifo", "user.d", "d", 1, 0));
	get("fifo", "fifo", "user.d", 1);
	CHECK(rename("file", "dir/file") == 0);
	get("renamed", "dir/file", "user.by", 10);
	CHECK(pipe(p) == 0);
	call("pipe", fgetxattr(p[0], "user.x", buf, 1));
	call("proc", getxattr("/proc/self/stat", "user.x", buf, 1));
	call("list of proc", listxattr("/proc/version", buf, 100));
}

static void strangers(void)
{
	pid_t pid;
	int status;

	if (geteuid())
		return;
	fflush(stdout);
	pid = fork();
	if (!pid) {
		CHECK(setgid(54321) == 0 && setuid(54321) == 0);
		get("may read", "dir/file", "user.by", 10);
		call("may not write", setxattr("dir/file", "user.x", "x", 1, 0));
		call("nor remove", removexattr("dir/file", "user.by"));
		get("trusted", "dir/file", "trusted.x", 10);
		call("no device", mknod("null", S_IFCHR | 0666, 0x103));
		call("nor set that", setxattr("dir/file", "trusted.x", "x", 1, 0));
		list("sees", "dir/file");
		_exit(fflush(stdout));
	}
	CHECK(waitpid(pid, &status, 0) == pid);
	printf("status %d\n", status);
	CHECK(chmod("dir/file", 0600) == 0);
}

int main(int argc, char **argv)
{
	char dir[128];

	snprintf(dir, sizeof(dir), "%s/xattrsXXXXXX", argc > 1 ? argv[1] : "/dev/shm");
	umask(0);
	CHECK(mkdtemp(dir) && chmod(dir, 0755) == 0 && chdir(dir) == 0);
	files();
	others();
	strangers();
	CHECK(unlink("dir/file") == 0 && rmdir("dir") == 0 && unlink("link") == 0 &&
	      unlink("fifo") == 0 && chdir("/") == 0 && rmdir(dir) == 0);
	return 0;
}
