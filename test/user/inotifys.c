/* SPDX-License-Identifier: MIT */
/*
 * inotify: which events come for what is done, in which order. Prints the same on both. argv[1]: a
 * directory for the files, or /tmp.
 */
#include "call.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

static int in;
static uint32_t first_cookie;

static const char *const names[] = { "ACCESS",        "MODIFY", "ATTRIB",      "CLOSE_WRITE",
				     "CLOSE_NOWRITE", "OPEN",   "MOVED_FROM",  "MOVED_TO",
				     "CREATE",        "DELETE", "DELETE_SELF", "MOVE_SELF" };

static void show_event(const struct inotify_event *e)
{
	printf("  wd %d", e->wd);
	for (unsigned int i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (e->mask & 1u << i)
			printf(" %s", names[i]);
	}
	printf("%s%s%s", e->mask & IN_ISDIR ? " ISDIR" : "", e->mask & IN_IGNORED ? " IGNORED" : "",
	       e->mask & IN_Q_OVERFLOW ? " OVERFLOW" : "");
	if (e->cookie && !first_cookie)
		first_cookie = e->cookie;
	if (e->cookie)
		printf(" cookie %u", e->cookie - first_cookie);
	if (e->len)
		printf(" '%s' %u", e->name, e->len);
	putchar('\n');
}

static void show(const char *what)
{
	static char buf[65536] __attribute__((aligned(8)));
	ssize_t len = read(in, buf, sizeof(buf));

	printf("%s:%s\n", what, len < 0 ? " nothing" : "");
	for (ssize_t at = 0; at < len;) {
		const struct inotify_event *e = (const void *)(buf + at);

		show_event(e);
		at += (ssize_t)(sizeof(*e) + e->len);
	}
}

static int make(const char *name)
{
	const int fd = open(name, O_CREAT | O_RDWR, 0644);

	CHECK(fd >= 0);
	return fd;
}

static void errors(void)
{
	int fds[2];

	call("bad flags", inotify_init1(1));
	call("no fd", inotify_add_watch(-1, ".", IN_OPEN));
	CHECK(pipe(fds) == 0);
	call("a pipe", inotify_add_watch(fds[0], ".", IN_OPEN));
	call("rm of a pipe", inotify_rm_watch(fds[0], 1));
	call("no mask", inotify_add_watch(in, ".", 0));
	call("two flags", inotify_add_watch(in, ".", IN_OPEN | IN_MASK_ADD | IN_MASK_CREATE));
	call("no file", inotify_add_watch(in, "none", IN_OPEN));
	call("no path", inotify_add_watch(in, (const char *)8, IN_OPEN));
	call("no watch", inotify_rm_watch(in, 77));
	close(make("plain"));
	call("only dir", inotify_add_watch(in, "plain", IN_OPEN | IN_ONLYDIR));
	call("write", write(in, "x", 1));
	CHECK(unlink("plain") == 0);
}

static void directory(void)
{
	char buf[16];
	int fd, wd = inotify_add_watch(in, ".", IN_ALL_EVENTS);

	call("watch", wd);
	call("again", inotify_add_watch(in, ".", IN_ALL_EVENTS | IN_MASK_CREATE));
	fd = make("a");
	CHECK(write(fd, "12345", 5) == 5 && write(fd, "67890", 5) == 5);
	CHECK(pread(fd, buf, 3, 0) == 3);
	show("made, written twice, read");
	CHECK(fchmod(fd, 0600) == 0 && ftruncate(fd, 3) == 0);
	close(fd);
	show("mode, truncated, closed");
	CHECK(chmod("a", 0644) == 0 && truncate("a", 1) == 0);
	show("by path");
	CHECK(link("a", "b") == 0 && symlink("a", "l") == 0 && mkdir("d", 0755) == 0);
	CHECK(mkfifo("a-rather-long-name", 0644) == 0);
	show("link, symlink, mkdir, mkfifo");
	CHECK(rename("b", "c") == 0 && rename("c", "d/c") == 0 && rename("d/c", "b") == 0);
	show("renames");
	CHECK(unlink("b") == 0 && unlink("l") == 0 && rmdir("d") == 0);
	CHECK(unlink("a-rather-long-name") == 0);
	show("removed");
	close(open("a", O_RDONLY));
	close(open("a", O_WRONLY | O_TRUNC));
	show("opened, truncated");
	CHECK(unlink("a") == 0);
	show("gone");
	call("rm", inotify_rm_watch(in, wd));
	show("rm_watch");
	close(make("a"));
	show("after it");
}

static void file_itself(void)
{
	int fd;

	call("file", inotify_add_watch(in, "a", IN_ALL_EVENTS));
	fd = open("a", O_RDWR);
	CHECK(write(fd, "x", 1) == 1);
	CHECK(rename("a", "b") == 0);
	CHECK(unlink("b") == 0);
	show("file: open, write, rename, unlink");
	close(fd);
	show("file: the last close");
	close(make("a"));
	call("file", inotify_add_watch(in, "a", IN_ATTRIB | IN_DELETE_SELF));
	CHECK(unlink("a") == 0);
	show("file: unlink");
	close(make("a"));
	close(make("b"));
	call("file", inotify_add_watch(in, "b", IN_ALL_EVENTS));
	CHECK(rename("a", "b") == 0);
	show("file: replaced");
	CHECK(unlink("b") == 0);
}

static void flags(void)
{
	int wd, d;

	CHECK(mkdir("d", 0755) == 0);
	d = inotify_add_watch(in, "d", IN_ALL_EVENTS);
	close(make("d/x"));
	CHECK(rename("d", "e") == 0);
	close(make("e/y"));
	show("a directory moves");
	call("same", inotify_add_watch(in, "e", IN_DELETE | IN_MASK_ADD) == d);
	call("less", inotify_add_watch(in, "e", IN_DELETE) == d);
	close(open("e/x", O_RDONLY));
	CHECK(unlink("e/x") == 0 && unlink("e/y") == 0);
	show("only deletes");
	CHECK(inotify_add_watch(in, "e", IN_DELETE_SELF) == d && rmdir("e") == 0);
	show("rmdir");
	close(make("a"));
	wd = inotify_add_watch(in, "a", IN_OPEN | IN_ONESHOT);
	close(open("a", O_RDONLY));
	close(open("a", O_RDONLY));
	show("one shot");
	call("gone", inotify_rm_watch(in, wd));
	CHECK(symlink("a", "l") == 0);
	call("link", inotify_add_watch(in, "l", IN_ALL_EVENTS | IN_DONT_FOLLOW));
	close(open("a", O_RDONLY));
	show("nothing of the target");
	CHECK(unlink("l") == 0);
	show("the link");
	CHECK(unlink("a") == 0);
}

static void reading(void)
{
	struct pollfd p = { .fd = in, .events = POLLIN };
	char small[20];
	int n = 0, wd = inotify_add_watch(in, ".", IN_CREATE | IN_DELETE);

	call("poll", poll(&p, 1, 0));
	close(make("a"));
	call("poll", poll(&p, 1, 0));
	call("FIONREAD", ioctl(in, FIONREAD, &n));
	printf("bytes %d\n", n);
	call("too small", read(in, small, sizeof(small)));
	if (!fork()) {
		usleep(1000);
		_exit(unlink("a") != 0);
	}
	show("create");
	CHECK(fcntl(in, F_SETFL, 0) == 0);
	show("waited for");
	CHECK(fcntl(in, F_SETFL, O_NONBLOCK) == 0);
	CHECK(wait(NULL) > 0);
	CHECK(inotify_rm_watch(in, wd) == 0);
	show("end");
}

static void overflow(void)
{
	static char buf[1 << 20] __attribute__((aligned(8)));
	const struct inotify_event *e = NULL;
	const int other = inotify_init1(IN_NONBLOCK);
	long max = 0, nr = 0;
	ssize_t len;
	FILE *f = fopen("/proc/sys/fs/inotify/max_queued_events", "r");

	CHECK(f && fscanf(f, "%ld", &max) == 1);
	fclose(f);
	CHECK(other >= 0 && inotify_add_watch(other, ".", IN_OPEN | IN_CLOSE) > 0);
	for (long i = 0; i < max; i++)
		close(open(".", O_RDONLY));
	while ((len = read(other, buf, sizeof(buf))) > 0) {
		for (ssize_t at = 0; at < len; at += (ssize_t)(sizeof(*e) + e->len), nr++)
			e = (const void *)(buf + at);
	}
	printf("overflow: %s, last wd %d overflow %d\n", nr == max + 1 ? "as many" : "others",
	       e ? e->wd : 0, e && (e->mask & IN_Q_OVERFLOW));
	close(other);
}

int main(int argc, char **argv)
{
	char dir[256];

	snprintf(dir, sizeof(dir), "%s/inotifysXXXXXX", argc > 1 ? argv[1] : "/tmp");
	CHECK(mkdtemp(dir) && chdir(dir) == 0);
	in = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	CHECK(in >= 0);
	errors();
	directory();
	file_itself();
	flags();
	reading();
	overflow();
	CHECK(chdir("/") == 0 && rmdir(dir) == 0);
	return 0;
}
