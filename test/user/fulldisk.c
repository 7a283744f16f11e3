/* SPDX-License-Identifier: MIT */
/*
 * A disk that becomes full: every byte that write(2) has accepted stays.
 *
 *	fulldisk fill PATH UID write|append|odd   until ENOSPC; says how many bytes were accepted
 *	fulldisk store PATH UID                   into a mapping of a hole, until SIGBUS; the same
 *	fulldisk check PATH BYTES                 the file is these bytes, and no more
 *	fulldisk inodes DIR                       until no inode is left; says how many there were
 *	fulldisk names DIR                        names and paths as long as can be, or longer
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define BLOCK 4096u
#define HOLE  (64u << 20) /* more than the disk has */
#define ODD   50000u /* bytes of one write: pages at both ends are shared with its neighbours */

static void die(const char *what)
{
	fprintf(stderr, "fulldisk: %s: %s\n", what, strerror(errno));
	exit(1);
}

/* The bytes at @pos of every such file. */
static void make(uint8_t *buf, uint64_t pos, size_t len)
{
	for (size_t i = 0; i < len; i++)
		buf[i] = (uint8_t)((pos + i) * 2654435761u >> 13) | 1;
}

static int fill(const char *path, uid_t uid, const char *how)
{
	const int flags = O_CREAT | O_WRONLY | (strcmp(how, "append") ? 0 : O_APPEND);
	const size_t want = strcmp(how, "odd") ? BLOCK : ODD;
	static uint8_t buf[ODD];
	struct statvfs st;
	uint64_t pos = 0;
	ssize_t n = 0;
	int fd;

	if (setgid(uid) || setuid(uid))
		die("setuid");
	fd = open(path, flags, 0644);
	if (fd < 0)
		die(path);
	do {
		pos += (uint64_t)n;
		make(buf, pos, want);
		n = write(fd, buf, want);
	} while (n > 0);
	if (n == 0 || errno != ENOSPC)
		die("write");
	if (lseek(fd, 0, SEEK_END) != (off_t)pos)
		die("the file's size");
	if (fsync(fd))
		die("fsync");
	if (fstatvfs(fd, &st) || (!uid && st.f_bavail))
		die("statvfs");
	if (close(fd))
		die("close");
	printf("%llu\n", (unsigned long long)pos);
	return 0;
}

static sigjmp_buf no_room;

static void on_bus(int sig)
{
	(void)sig;
	siglongjmp(no_room, 1);
}

/* The page whose first store has no room is not there; those before it are. */
static int store(const char *path, uid_t uid)
{
	static volatile uint64_t pos; /* lives over the jump */
	const struct sigaction sa = { .sa_handler = on_bus };
	uint8_t *map;
	int fd;

	if (setgid(uid) || setuid(uid))
		die("setuid");
	fd = open(path, O_CREAT | O_RDWR, 0644);
	if (fd < 0 || ftruncate(fd, HOLE))
		die(path);
	map = mmap(NULL, HOLE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED || sigaction(SIGBUS, &sa, NULL))
		die("mmap");
	if (!sigsetjmp(no_room, 1)) {
		for (pos = 0; pos < HOLE; pos += BLOCK)
			make(map + pos, pos, BLOCK);
	}
	if (map[pos]) /* reading finds the hole */
		die("a store that failed");
	if (pos == HOLE || msync(map, HOLE, MS_SYNC) || ftruncate(fd, (off_t)pos) || fsync(fd) ||
	    munmap(map, HOLE) || close(fd))
		die("the end");
	printf("%llu\n", (unsigned long long)pos);
	return 0;
}

static int check(const char *path, uint64_t bytes)
{
	static uint8_t want[BLOCK], got[BLOCK];
	int fd = open(path, O_RDONLY);
	uint64_t pos = 0;
	ssize_t n;

	if (fd < 0)
		die(path);
	while ((n = read(fd, got, BLOCK)) > 0) {
		make(want, pos, (size_t)n);
		if (memcmp(want, got, (size_t)n)) {
			fprintf(stderr, "%s: other bytes from %llu on\n", path,
				(unsigned long long)pos);
			return 1;
		}
		pos += (uint64_t)n;
	}
	if (n < 0)
		die("read");
	if (pos != bytes) {
		fprintf(stderr, "%s: %llu bytes\n", path, (unsigned long long)pos);
		return 1;
	}
	printf("all right\n");
	return 0;
}

static const char *nth(unsigned int i)
{
	static char name[16];

	snprintf(name, sizeof(name), "i%u", i);
	return name;
}

static unsigned int make_files(unsigned int nr)
{
	int fd;

	for (;; nr++) {
		fd = open(nth(nr), O_CREAT | O_EXCL | O_WRONLY, 0644);
		if (fd < 0)
			break;
		close(fd);
	}
	if (errno != ENOSPC)
		die("create");
	return nr;
}

static int inodes(const char *dir)
{
	unsigned int nr;
	struct statvfs st;

	if (chdir(dir))
		die(dir);
	nr = make_files(0);
	if (statvfs(".", &st) || st.f_ffree || !st.f_bavail)
		die("statvfs");
	if (mkdir("d", 0755) == 0 || errno != ENOSPC || symlink("x", "l") == 0 || errno != ENOSPC)
		die("others");
	for (unsigned int i = nr - 3; i < nr; i++)
		unlink(nth(i));
	if (make_files(nr - 3) != nr)
		die("again");
	for (unsigned int i = 0; i < nr; i++) {
		if (unlink(nth(i)))
			die(nth(i));
	}
	printf("%u\n", nr);
	return 0;
}

static void say(const char *what, long ret)
{
	printf("%s: %s\n", what, ret < 0 ? strerror(errno) : "ok");
}

/* A path of @len bytes to @name in the working directory. */
static const char *long_path(size_t len, const char *name)
{
	const size_t pad = len - strlen(name);
	static char path[5000];

	for (size_t i = 0; i < pad; i++)
		path[i] = i % 2 ? '/' : '.';
	path[pad - 1] = '/';
	strcpy(path + pad, name);
	return path;
}

static int names(const char *dir)
{
	char name[300], to[300];

	if (chdir(dir))
		die(dir);
	memset(name, 'n', sizeof(name));
	name[256] = '\0';
	say("create 256", open(name, O_CREAT | O_WRONLY, 0644));
	say("mkdir 256", mkdir(name, 0755));
	say("link to 256", symlink("x", name));
	say("stat 256", access(name, F_OK));
	name[255] = '\0';
	say("create 255", open(name, O_CREAT | O_WRONLY, 0644));
	memset(to, 'm', sizeof(to));
	to[256] = '\0';
	say("rename to 256", rename(name, to));
	to[255] = '\0';
	say("rename to 255", rename(name, to));
	say("unlink 255", unlink(to));
	say("create f", open("f", O_CREAT | O_WRONLY, 0644));
	/* With the working directory's, which counts on a disk: docs/design/vfs.md. */
	say("path of 4000", access(long_path(4000, "f"), F_OK));
	say("path of 4096", access(long_path(4096, "f"), F_OK));
	say("create by 4096", open(long_path(4096, "g"), O_CREAT | O_WRONLY, 0644));
	say("target of 4095", symlink(long_path(4095, "f"), "far"));
	say("open far", open("far", O_RDONLY));
	say("target of 4096", symlink(long_path(4096, "f"), "farther"));
	say("a", symlink("b", "a") | symlink("a", "b"));
	say("open a", open("a", O_RDONLY));
	say("create a", open("a", O_CREAT | O_WRONLY, 0644));
	say("below a", access("a/x", F_OK));
	say("self", symlink("self/self", "self"));
	say("open self", open("self", O_RDONLY));
	say("c0", symlink("f", "c0"));
	for (int i = 1; i <= 40; i++) {
		snprintf(name, sizeof(name), "c%d", i);
		snprintf(to, sizeof(to), "c%d", i - 1);
		if (symlink(to, name))
			die(name);
	}
	say("40 links", open("c39", O_RDONLY));
	say("41 links", open("c40", O_RDONLY));
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 5 && !strcmp(argv[1], "fill"))
		return fill(argv[2], (uid_t)atoi(argv[3]), argv[4]);
	if (argc == 4 && !strcmp(argv[1], "store"))
		return store(argv[2], (uid_t)atoi(argv[3]));
	if (argc == 4 && !strcmp(argv[1], "check"))
		return check(argv[2], strtoull(argv[3], NULL, 10));
	if (argc == 3 && !strcmp(argv[1], "inodes"))
		return inodes(argv[2]);
	if (argc == 3 && !strcmp(argv[1], "names"))
		return names(argv[2]);
	if (argc == 3 && !strcmp(argv[1], "remove"))
		return unlink(argv[2]) ? 1 : 0;
	fprintf(stderr, "usage: fulldisk fill|store|check|inodes|names|remove PATH ...\n");
	return 2;
}
