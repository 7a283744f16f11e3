/* SPDX-License-Identifier: MIT */
/*
 * Symbolic links on the way of paths, again and again while they change: relative and absolute
 * ones, chains, loops, ends with a slash, links that are replaced or moved, and those of a root
 * that is not "/". Argument: a directory to be made. Prints the same on every Linux.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *base;

static void fill(const char *path, const char *text)
{
	const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);

	if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text))
		perror(path);
	close(fd);
}

static void link_to(const char *target, const char *path)
{
	if (symlink(target, path))
		perror(path);
}

static void show(const char *path)
{
	char text[64] = "", target[PATH_MAX] = "";
	struct stat st = { 0 }, lst = { 0 };
	int fd, err, lerr;
	ssize_t n;

	err = stat(path, &st) ? errno : 0;
	lerr = lstat(path, &lst) ? errno : 0;
	n = readlink(path, target, sizeof(target) - 1);
	if (n > 0 && !strncmp(target, base, strlen(base))) {
		memmove(target, target + strlen(base), strlen(target + strlen(base)) + 1);
		n -= (ssize_t)strlen(base);
		lst.st_size -= (off_t)strlen(base);
	}
	printf("%-24s %d %o, %d %o %lld %zd, %s", path, err, st.st_mode & S_IFMT, lerr,
	       lst.st_mode & S_IFMT, S_ISLNK(lst.st_mode) ? (long long)lst.st_size : 0LL, n,
	       target);
	fd = open(path, O_RDONLY);
	if (fd >= 0 && read(fd, text, sizeof(text) - 1) < 0)
		snprintf(text, sizeof(text), "%d", errno);
	printf(", %s", fd < 0 ? strerror(errno) : text);
	if (fd >= 0)
		close(fd);
	fd = open(path, O_RDONLY | O_NOFOLLOW);
	printf(", %s\n", fd < 0 ? strerror(errno) : "open");
	if (fd >= 0)
		close(fd);
}

static void show_all(const char *when)
{
	static const char *const paths[] = {
		"l1",       "l1/",       "l1/b",     "l1/b/f",     "l2",
		"l2/f",     "l2/f/",     "l2/none",  "abs",        "abs/b/f",
		"abs/l3/f", "a/l3",      "a/l3/f",   "up/b/f",     "self/self/a/b/f",
		"x",        "x/f",       "dangling", "dangling/f", "to_file",
		"to_file/", "to_file/f", "c40/f",    "c41/f",      "l1/../l2/f",
	};

	for (int round = 0; round < 2; round++) {
		printf("%s, %d\n", when, round);
		for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++)
			show(paths[i]);
	}
}

static void make(void)
{
	char name[32], to[32], abs[PATH_MAX];

	mkdir("a", 0755);
	mkdir("a/b", 0755);
	mkdir("other", 0755);
	mkdir("other/b", 0755);
	fill("a/b/f", "in a");
	fill("other/b/f", "in other");
	link_to("a", "l1");
	link_to("l1/b", "l2");
	snprintf(abs, sizeof(abs), "%s/a", base);
	link_to(abs, "abs");
	link_to("b", "a/l3");
	link_to("a/../a", "up");
	link_to(".", "self");
	link_to("x2", "x");
	link_to("x", "x2");
	link_to("nothing", "dangling");
	link_to("a/b/f", "to_file");
	link_to("a/b", "c1");
	for (int i = 2; i <= 41; i++) {
		snprintf(name, sizeof(name), "c%d", i);
		snprintf(to, sizeof(to), "c%d", i - 1);
		link_to(to, name);
	}
}

static void change(void)
{
	char abs[PATH_MAX];

	show_all("made");
	unlink("l1");
	show_all("l1 is gone");
	link_to("other", "l1");
	show_all("l1 to other");
	link_to("a", "l1.new");
	rename("l1.new", "l1");
	show_all("l1 replaced");
	rename("a", "moved");
	show_all("a moved");
	rename("other", "a");
	show_all("other is a");
	rename("moved/l3", "a/l3");
	unlink("abs");
	snprintf(abs, sizeof(abs), "%s/moved", base);
	link_to(abs, "abs");
	unlink("dangling");
	fill("nothing", "something");
	link_to("nothing", "dangling");
	unlink("to_file");
	mkdir("to_file", 0755);
	fill("to_file/f", "below");
	show_all("changed");
}

/* Below a root of its own: no link leads out of it. */
static void in_root(void)
{
	static const char *const paths[] = { "/down",     "/down/f", "/out/f",   "/out2/f",
					     "/root/b/f", "/root/f", "/b/out/f", "/b/out2/b/f" };

	fill("f", "outside");
	link_to("/b", "a/down");
	link_to("..", "a/out");
	link_to("b/../..", "a/out2");
	link_to("/", "a/root");
	link_to("../../..", "a/b/out");
	link_to("../../../..", "a/b/out2");
	if (chroot("a") || chdir("/"))
		perror("chroot");
	for (int round = 0; round < 2; round++)
		for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++)
			show(paths[i]);
}

int main(int argc, char **argv)
{
	int status;

	if (argc != 2 || mkdir(argv[1], 0755) || chdir(argv[1]))
		return 2;
	base = argv[1];
	make();
	change();
	fflush(stdout);
	if (!fork()) {
		in_root();
		fflush(stdout);
		_exit(0);
	}
	wait(&status);
	printf("%x\n", status);
	return 0;
}
