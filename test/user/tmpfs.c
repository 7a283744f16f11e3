/* SPDX-License-Identifier: MIT */
/*
 * Every call that changes files, in an empty directory of a tmpfs: prints what each answers, so
 * that two runs can be compared byte for byte.
 *
 *	tmpfs DIR [GROUP]
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define T(e)                                            \
	do {                                            \
		errno = 0;                              \
		long r_ = (long)(e);                    \
		printf("%s = %ld", #e, r_);             \
		if (r_ < 0)                             \
			printf(" %s", strerror(errno)); \
		printf("\n");                           \
	} while (0)

static char big[1 << 20], buf[1 << 20];
static void *volatile nowhere = (void *)16;

/* --- telling what is there ------------------------------------------------------------ */

static int rename2(const char *a, const char *b, unsigned int flags)
{
	return (int)syscall(SYS_renameat2, AT_FDCWD, a, AT_FDCWD, b, flags);
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The names in @path, sorted; "." and ".." are expected and not told. */
static void list(const char *path)
{
	DIR *d = opendir(path);
	char *names[512];
	size_t n = 0, dots = 0;
	struct dirent *e;

	printf("list %s:", path);
	if (!d) {
		printf(" %s\n", strerror(errno));
		return;
	}
	while ((e = readdir(d)) && n < 512) {
		if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..")) {
			dots++;
			continue;
		}
		names[n] = malloc(strlen(e->d_name) + 8);
		sprintf(names[n++], "%s:%d", e->d_name, e->d_type);
	}
	closedir(d);
	qsort(names, n, sizeof(names[0]), by_name);
	for (size_t i = 0; i < n; i++) {
		printf(" %s", names[i]);
		free(names[i]);
	}
	printf(" dots %zu\n", dots);
}

static void show(const char *path)
{
	struct stat st;

	if (lstat(path, &st)) {
		printf("show %s: %s\n", path, strerror(errno));
		return;
	}
	printf("show %s: mode %o links %lu uid %u gid %u size %lld blocks %lld\n", path, st.st_mode,
	       (unsigned long)st.st_nlink, st.st_uid, st.st_gid, (long long)st.st_size,
	       (long long)st.st_blocks);
}

static void put(const char *path, const char *text)
{
	const int fd = open(path, O_CREAT | O_WRONLY | O_TRUNC, 0644);

	if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text))
		printf("put %s: %s\n", path, strerror(errno));
	close(fd);
}

static void get(const char *path)
{
	const int fd = open(path, O_RDONLY);
	const ssize_t n = fd < 0 ? -1 : read(fd, buf, 200);

	if (n < 0)
		printf("get %s: %s\n", path, strerror(errno));
	else
		printf("get %s: %zd <%.*s>\n", path, n, (int)n, buf);
	close(fd);
}

/* --- open, read, write ------------------------------------------------------------------ */

static void opening(void)
{
	char name[300];
	int fd;

	umask(022);
	T(open("none", O_RDONLY));
	T(fd = open("a", O_CREAT | O_RDWR, 0666));
	show("a");
	T(write(fd, "hello", 5));
	T(close(fd));
	get("a");
	T(open("a", O_CREAT | O_EXCL | O_RDWR, 0666));
	T(open("a", O_DIRECTORY));
	T(open("a/", O_RDONLY));
	T(open("a/b", O_RDONLY));
	T(open("b/", O_CREAT | O_RDWR, 0666));
	T(open(".", O_RDWR));
	T(open(".", O_CREAT, 0666));
	T(open("", O_RDONLY));
	T(open("..", O_CREAT | O_EXCL, 0666));
	T(open("a", O_RDONLY | O_CREAT | O_DIRECTORY, 0666));
	T(fd = open("a", O_WRONLY | O_TRUNC));
	T(read(fd, buf, 1));
	T(close(fd));
	show("a");
	T(fd = open("a", O_RDONLY));
	T(write(fd, "x", 1));
	T(ftruncate(fd, 3));
	T(close(fd));
	T(fd = open("a", O_WRONLY | O_APPEND));
	T(write(fd, "one", 3));
	T(lseek(fd, 0, SEEK_SET));
	T(write(fd, "two", 3));
	T(pwrite(fd, "three", 5, 0));
	T(lseek(fd, 0, SEEK_CUR));
	T(close(fd));
	get("a");
	T(fd = open("a", O_PATH));
	T(read(fd, buf, 1));
	T(fchmod(fd, 0600));
	T(fsync(fd));
	T(close(fd));
	memset(name, 'n', sizeof(name));
	name[255] = '\0';
	T(close(open(name, O_CREAT | O_RDWR, 0600)));
	T(unlink(name));
	name[255] = 'n';
	name[256] = '\0';
	T(open(name, O_CREAT | O_RDWR, 0600));
	T(symlink("a", "la"));
	T(open("la", O_RDONLY | O_NOFOLLOW));
	T(close(open("la", O_RDONLY)));
	T(open("la", O_CREAT | O_EXCL | O_RDWR, 0600));
	T(symlink("made", "lmade"));
	T(close(open("lmade", O_CREAT | O_RDWR, 0600)));
	show("made");
	T(symlink("self", "self"));
	T(open("self", O_RDONLY));
	T(umask(077));
	T(close(open("private", O_CREAT | O_RDWR, 0666)));
	show("private");
	T(umask(022));
	T(close(creat("c", 04755)));
	show("c");
	list(".");
}

static void reading(void)
{
	struct iovec v[3] = { { "abc", 3 }, { "", 0 }, { "defgh", 5 } };
	struct iovec w[2] = { { buf, 4 }, { buf + 100, 100 } };
	int fd;

	for (size_t i = 0; i < sizeof(big); i++)
		big[i] = (char)(i * 31 + i / 4096);
	T(fd = open("f", O_CREAT | O_RDWR, 0644));
	T(writev(fd, v, 3));
	T(lseek(fd, 0, SEEK_SET));
	T(readv(fd, w, 2));
	printf("%.4s %.4s\n", buf, buf + 100);
	T(read(fd, buf, 10));
	T(preadv2(fd, w, 1, 1, 0));
	printf("%.4s\n", buf);
	T(preadv2(fd, w, 1, -1, 0));
	T(pwritev2(fd, v, 1, 2, 2));
	T(pwritev2(fd, v, 1, 2, 0x8000));
	T(pread(fd, buf, 10, 6));
	T(pread(fd, buf, 10, 8));
	T(pread(fd, buf, 10, -1));
	T(pwrite(fd, big, sizeof(big), 4095));
	memset(buf, 0, sizeof(buf));
	T(pread(fd, buf, sizeof(buf), 4095));
	T(memcmp(buf, big, sizeof(big)));
	show("f");
	T(write(fd, nowhere, 100));
	T(pread(fd, nowhere, 100, 0));
	T(write(fd, buf, 0));
	T(lseek(fd, 10 << 20, SEEK_SET));
	T(write(fd, "end", 3));
	show("f");
	memset(buf, 1, sizeof(buf));
	T(pread(fd, buf, 4096, 9 << 20));
	T(buf[0] | buf[4095]);
	T(lseek(fd, 0, SEEK_DATA));
	T(lseek(fd, 0, SEEK_HOLE));
	T(lseek(fd, 2 << 20, SEEK_DATA));
	T(lseek(fd, 2 << 20, SEEK_HOLE));
	T(lseek(fd, 10 << 20, SEEK_HOLE));
	T(lseek(fd, (10 << 20) + 3, SEEK_DATA));
	T(lseek(fd, -1, SEEK_DATA));
	T(lseek(fd, -1, SEEK_SET));
	T(lseek(fd, 1, SEEK_END));
	T(lseek(fd, 0, 9));
	T(fsync(fd));
	T(fdatasync(fd));
	T(syncfs(fd));
	T(close(fd));
	T(unlink("f"));
}

static void sizes(void)
{
	struct rlimit rl = { 8192, RLIM_INFINITY };
	int fd;

	put("t", "0123456789");
	T(truncate("t", 4));
	get("t");
	T(truncate("t", 8));
	T(fd = open("t", O_RDWR));
	T(read(fd, buf, 20));
	T(memcmp(buf, "0123\0\0\0\0", 8));
	T(ftruncate(fd, -1));
	T(truncate("t", -1));
	T(truncate("none", 1));
	T(truncate(".", 1));
	T(ftruncate(fd, 3 << 20));
	show("t");
	T(pwrite(fd, "x", 1, 1 << 20));
	show("t");
	T(ftruncate(fd, (1 << 20) + 1));
	show("t");
	T(ftruncate(fd, 0));
	show("t");
	T(fallocate(fd, 0, 4096, 8192));
	show("t");
	T(fallocate(fd, FALLOC_FL_KEEP_SIZE, 65536, 4096));
	show("t");
	T(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 1 << 20));
	show("t");
	T(pwrite(fd, big, 20000, 0));
	T(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 5000, 10000));
	T(pread(fd, buf, 20000, 0));
	T(memcmp(buf, big, 5000));
	T(buf[5000] | buf[9000] | buf[14999]);
	T(memcmp(buf + 15000, big + 15000, 5000));
	show("t");
	T(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 100, 200));
	T(pread(fd, buf, 400, 0));
	T(buf[100] | buf[299]);
	T(memcmp(buf + 300, big + 300, 100));
	T(fallocate(fd, FALLOC_FL_PUNCH_HOLE, 0, 4096));
	T(fallocate(fd, 0, 0, 0));
	T(fallocate(fd, 0, -1, 10));
	T(fallocate(fd, FALLOC_FL_COLLAPSE_RANGE, 0, 4096));
	signal(SIGXFSZ, SIG_IGN);
	T(setrlimit(RLIMIT_FSIZE, &rl));
	T(pwrite(fd, big, 100, 8150));
	T(pwrite(fd, big, 100, 8192));
	T(ftruncate(fd, 30000));
	T(ftruncate(fd, 10000));
	T(fallocate(fd, 0, 0, 100000));
	rl.rlim_cur = RLIM_INFINITY;
	T(setrlimit(RLIMIT_FSIZE, &rl));
	T(close(fd));
	T(unlink("t"));
}

/* --- names ------------------------------------------------------------------------------ */

static void links(void)
{
	char target[100];
	int fd;

	put("a", "contents");
	T(link("a", "b"));
	show("a");
	T(link("a", "b"));
	T(link("none", "c"));
	T(link(".", "d"));
	T(link("a", "c/"));
	T(fd = open("a", O_RDWR));
	T(unlink("a"));
	show("b");
	T(unlink("b"));
	T(pread(fd, buf, 20, 0));
	T(pwrite(fd, "still", 5, 8));
	T(pread(fd, buf, 20, 0));
	T(close(fd));
	T(unlink("b"));
	T(unlink("."));
	T(unlink(".."));
	T(unlink("none/x"));
	T(symlink("x/y/z", "l"));
	show("l");
	T(readlink("l", target, sizeof(target)));
	printf("%.5s\n", target);
	T(readlink("l", target, 3));
	T(readlink("l", target, 0));
	T(readlink(".", target, 10));
	T(symlink("x", "l"));
	T(symlink("", "m"));
	T(symlink("x", "m/"));
	T(link("l", "l2"));
	show("l2");
	T(linkat(AT_FDCWD, "l", AT_FDCWD, "l3", AT_SYMLINK_FOLLOW));
	T(unlink("l"));
	T(unlink("l2"));
	T(fd = open(".", O_TMPFILE | O_RDWR, 0640));
	T(write(fd, "tmp", 3));
	sprintf(target, "/proc/self/fd/%d", fd);
	T(linkat(AT_FDCWD, target, AT_FDCWD, "named", AT_SYMLINK_FOLLOW));
	get("named");
	show("named");
	T(unlink("named"));
	T(linkat(fd, "", AT_FDCWD, "again", AT_EMPTY_PATH));
	T(close(fd));
	T(fd = open(".", O_TMPFILE | O_EXCL | O_RDWR, 0640));
	T(linkat(fd, "", AT_FDCWD, "never", AT_EMPTY_PATH));
	T(close(fd));
	T(open(".", O_TMPFILE | O_RDONLY, 0640));
	T(open("none", O_TMPFILE | O_RDWR, 0640));
	T(mknod("fifo", S_IFIFO | 0600, 0));
	show("fifo");
	T(open("fifo", O_WRONLY | O_NONBLOCK));
	T(fd = open("fifo", O_RDONLY | O_NONBLOCK));
	T(read(fd, buf, 1));
	T(close(fd));
	T(mknod("reg", 0644, 0));
	show("reg");
	T(mknod("sock", S_IFSOCK | 0600, 0));
	T(open("sock", O_RDONLY));
	T(mknod("dir", S_IFDIR | 0600, 0));
	list(".");
	T(unlink("fifo"));
	T(unlink("reg"));
	T(unlink("sock"));
}

static void directories(void)
{
	char path[300], cwd[4096];
	DIR *d;
	struct dirent *e;
	int fd, n = 0, seen[100] = { 0 };

	T(mkdir("d", 0777));
	show("d");
	T(mkdir("d", 0777));
	T(mkdir("d/e/", 0755));
	T(mkdir("none/e", 0755));
	T(mkdir(".", 0755));
	T(mkdir("/", 0755));
	show("d");
	put("d/f", "x");
	T(mkdir("d/f", 0755));
	T(mkdir("d/f/g", 0755));
	T(rmdir("d"));
	T(rmdir("d/f"));
	T(rmdir("d/."));
	T(rmdir("d/.."));
	T(rmdir("none"));
	T(unlink("d"));
	T(unlink("d/"));
	T(unlink("d/f/"));
	T(rmdir("d/e"));
	show("d");
	T(unlinkat(AT_FDCWD, "d/f", AT_REMOVEDIR));
	T(unlinkat(AT_FDCWD, "d/f", 1));
	T(unlinkat(AT_FDCWD, "d/f", 0));
	T(unlinkat(AT_FDCWD, "d", AT_REMOVEDIR));
	/* Removing while reading: nothing twice, nothing left out. */
	T(mkdir("many", 0755));
	for (int i = 0; i < 100; i++) {
		sprintf(path, "many/file%d", i);
		put(path, "");
	}
	d = opendir("many");
	while ((e = readdir(d))) {
		if (e->d_name[0] != 'f')
			continue;
		seen[atoi(e->d_name + 4)]++;
		sprintf(path, "many/%s", e->d_name);
		unlink(path);
		n++;
	}
	rewinddir(d);
	while ((e = readdir(d)))
		n += e->d_name[0] == 'f';
	closedir(d);
	for (int i = 0; i < 100; i++)
		n += seen[i] != 1;
	printf("removed while reading: %d\n", n);
	T(rmdir("many"));
	/* A working directory that goes away. */
	T(mkdir("gone", 0755));
	T(fd = open("gone", O_RDONLY | O_DIRECTORY));
	T(chdir("gone"));
	T(rmdir("../gone"));
	T(getcwd(cwd, sizeof(cwd)) ? 0 : -1);
	T(open("x", O_CREAT | O_RDWR, 0600));
	T(mkdirat(fd, "x", 0700));
	T(getdents64(fd, buf, sizeof(buf)));
	T(chdir(".."));
	list(".");
	T(fchdir(fd));
	T(chdir(".."));
	T(close(fd));
	/* Descriptors of directories. */
	T(mkdir("at", 0755));
	T(fd = open("at", O_PATH));
	T(mkdirat(fd, "sub", 0755));
	T(symlinkat("sub", fd, "link"));
	T(renameat(fd, "link", AT_FDCWD, "moved"));
	T(linkat(AT_FDCWD, "moved", fd, "back", 0));
	T(unlinkat(fd, "sub", AT_REMOVEDIR));
	T(faccessat(fd, "back", F_OK, 0));
	T(faccessat(fd, "back", F_OK, AT_SYMLINK_NOFOLLOW));
	T(rename("at", "at2"));
	T(close(openat(fd, "new", O_CREAT | O_RDWR, 0644)));
	list("at2");
	T(fchdir(fd));
	T(getcwd(cwd, sizeof(cwd)) ? 0 : -1);
	printf("cwd ends in %s\n", strrchr(cwd, '/'));
	T(chdir(".."));
	T(unlinkat(fd, "back", 0));
	T(unlinkat(fd, "new", 0));
	T(rmdir("at2"));
	T(unlink("moved"));
	T(openat(fd, "x", O_CREAT | O_RDWR, 0644));
	T(close(fd));
}

static void renames(void)
{
	put("a", "A");
	put("b", "B");
	T(rename("a", "c"));
	T(rename("c", "b"));
	get("b");
	list(".");
	T(rename("none", "x"));
	T(rename("b", "none/x"));
	T(rename("b", "b"));
	T(link("b", "b2"));
	T(rename("b", "b2"));
	list(".");
	T(unlink("b2"));
	T(mkdir("d", 0755));
	T(mkdir("d/e", 0755));
	T(mkdir("f", 0755));
	T(rename("d", "d/e/x"));
	T(rename("d", "d/x"));
	T(rename("b", "d"));
	T(rename("d", "b"));
	T(rename("d/e", "d"));
	T(rename("f", "d"));
	T(rename("d", "f"));
	list("f");
	show("f");
	T(rename("f/e", "e"));
	show("f");
	T(rename("e", "f/"));
	T(rename("b", "f/"));
	T(rename("b", "new/"));
	T(rename("b/", "new"));
	T(rename(".", "x"));
	T(rename("f", ".."));
	T(rename("f", "."));
	put("n", "N");
	T(rename2("b", "n", 1));
	T(rename2("b", "n2", 1));
	T(rename2("n2", "n", 2));
	get("n");
	get("n2");
	T(rename2("n2", "f", 2));
	list(".");
	list("n2");
	T(rename2("n", "none", 2));
	T(rename2("n", "n2", 3));
	T(rename2("n", "n2", 64));
	T(mkdir("p", 0755));
	T(mkdir("p/q", 0755));
	T(rename2("p", "p/q", 2));
	T(rename2("p/q", "p", 2));
	T(mkdir("r", 0755));
	T(rename2("p/q", "r", 2));
	show("p");
	list("p");
	T(rename("r", "p/r"));
	T(rename("p/r", "p/q"));
	list("p");
	show("p");
	T(unlink("n"));
	T(rmdir("n2"));
	T(rmdir("p/q"));
	T(rmdir("p"));
	T(unlink("f"));
	list(".");
}

/* --- attributes ------------------------------------------------------------------------- */

static void permissions(void)
{
	struct stat st;
	int fd;

	T(mkdir("open", 0777));
	T(chmod("open", 01777));
	T(mkdir("closed", 0700));
	put("root", "r");
	put("open/root", "r");
	put("closed/x", "x");
	T(chmod("root", 0644));
	T(chmod("none", 0644));
	T(chown("root", 5, 6));
	show("root");
	T(chmod("root", 06755));
	T(chown("root", -1, 7));
	show("root");
	T(symlink("root", "l"));
	T(lchown("l", 9, 9));
	show("l");
	show("root");
	T(chown("l", 0, 0));
	show("root");
	T(fchmodat(AT_FDCWD, "root", 0600, 0));
	T(mkdir("sgid", 02775));
	T(chown("sgid", 0, 50));
	T(chmod("sgid", 02777));
	put("sgid/f", "");
	show("sgid/f");
	T(mkdir("sgid/d", 0755));
	show("sgid/d");
	T(chmod(".", 0755));
	T(setegid(1000));
	T(seteuid(1000));
	T(open("root", O_RDONLY));
	T(open("root", O_WRONLY));
	T(open("closed/x", O_RDONLY));
	T(stat("closed/x", &st));
	T(open("mine", O_CREAT | O_RDWR, 0600));
	T(unlink("root"));
	T(mkdir("m", 0700));
	T(rename("root", "open/r"));
	T(unlink("open/root"));
	T(rename("open/root", "open/r2"));
	T(fd = open("open/mine", O_CREAT | O_RDWR, 0));
	T(write(fd, "x", 1));
	T(close(fd));
	T(open("open/mine", O_RDONLY));
	T(chmod("open/mine", 0640));
	T(chown("open/mine", 0, -1));
	T(chown("open/mine", -1, 1000));
	T(chown("open/mine", -1, 0));
	T(chmod("root", 0777));
	T(truncate("root", 0));
	T(utimensat(AT_FDCWD, "root", NULL, 0));
	T(open("open", O_TMPFILE | O_RDWR, 0600) >= 0 ? 0 : -1);
	T(link("open/mine", "open/mine2"));
	T(unlink("open/mine2"));
	T(unlink("open/mine"));
	T(chdir("closed"));
	T(seteuid(0));
	T(setegid(0));
	T(access("root", R_OK | W_OK));
	T(access("root", X_OK));
	T(access("closed", X_OK));
	T(faccessat(AT_FDCWD, "l", F_OK, AT_SYMLINK_NOFOLLOW));
	list("open");
}

static bool is_now(struct timespec t)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return now.tv_sec - t.tv_sec < 60 && t.tv_sec - now.tv_sec < 2;
}

static void times(const char *path)
{
	struct stat st;

	if (lstat(path, &st)) {
		printf("times %s: %s\n", path, strerror(errno));
		return;
	}
	printf("times %s:", path);
	for (int i = 0; i < 3; i++) {
		const struct timespec t = i == 0 ? st.st_atim : i == 1 ? st.st_mtim : st.st_ctim;

		if (is_now(t))
			printf(" now");
		else
			printf(" %lld.%09ld", (long long)t.tv_sec, t.tv_nsec);
	}
	printf("\n");
}

static void utimes_calls(void)
{
	const struct timespec both[2] = { { 1000, 5 }, { 2000, 6 } };
	const struct timespec one[2] = { { 0, UTIME_OMIT }, { 0, UTIME_NOW } };
	const struct timespec none[2] = { { 0, UTIME_OMIT }, { 0, UTIME_OMIT } };
	const struct timespec bad[2] = { { 0, 1000000000 }, { 0, 0 } };
	const struct timeval usec[2] = { { 3000, 7 }, { 4000, 8 } };
	struct stat st, st2;
	int fd;

	put("f", "x");
	times("f");
	T(utimensat(AT_FDCWD, "f", both, 0));
	times("f");
	T(utimensat(AT_FDCWD, "f", one, 0));
	times("f");
	T(utimensat(AT_FDCWD, "none", none, 0));
	T(utimensat(AT_FDCWD, "none", both, 0));
	T(utimensat(AT_FDCWD, "f", bad, 0));
	T(utimes("f", usec));
	times("f");
	T(fd = open("f", O_RDWR));
	T(futimens(fd, both));
	times("f");
	T(read(fd, buf, 1));
	times("f");
	T(futimens(fd, both));
	T(write(fd, "y", 1));
	times("f");
	T(futimens(fd, both));
	T(ftruncate(fd, 1));
	times("f");
	T(close(fd));
	T(symlink("f", "l"));
	T(utimensat(AT_FDCWD, "l", both, AT_SYMLINK_NOFOLLOW));
	times("l");
	T(utimensat(AT_FDCWD, "f", NULL, 0));
	times("f");
	T(mkdir("d", 0755));
	T(utimensat(AT_FDCWD, "d", both, 0));
	put("d/x", "");
	times("d");
	T(utimensat(AT_FDCWD, "d", both, 0));
	T(unlink("d/x"));
	times("d");
	T(stat("f", &st) | stat("l", &st2));
	T(st.st_ino == st2.st_ino && st.st_dev == st2.st_dev);
	T(st.st_blksize);
}

/* --- mappings --------------------------------------------------------------------------- */

static volatile sig_atomic_t faults;
static void *volatile fault_page;

static void on_bus(int sig)
{
	(void)sig;
	faults++;
	(void)mmap(fault_page, 4096, PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
}

static void mappings(void)
{
	char *shared, *shared2, *private;
	int fd, ro;

	put("m", "0123456789");
	T(fd = open("m", O_RDWR));
	T(ftruncate(fd, 3 * 4096));
	shared = mmap(NULL, 4 * 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	shared2 = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
	private = mmap(NULL, 3 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	printf("mapped %d\n",
	       shared != MAP_FAILED && shared2 != MAP_FAILED && private != MAP_FAILED);
	printf("%.10s %.10s\n", shared, private);
	memcpy(shared, "mapped", 6);
	T(pread(fd, buf, 10, 0));
	printf("%.10s %.10s %.10s\n", buf, shared2, private);
	T(pwrite(fd, "WRITE", 5, 2));
	printf("%.10s %.10s %.10s\n", shared, shared2, private);
	memcpy(private, "own", 3);
	T(pwrite(fd, "xyz", 3, 0));
	printf("%.10s %.10s\n", shared, private);
	strcpy(shared + 8192, "third page");
	T(pread(fd, buf, 20, 8192));
	printf("%s %s\n", buf, private + 8192);
	T(msync(shared, 4096, MS_SYNC));
	signal(SIGBUS, on_bus);
	fault_page = shared + 3 * 4096;
	*(volatile char *)(shared + 3 * 4096) = 1;
	printf("faults %d\n", faults);
	T(ftruncate(fd, 4096));
	fault_page = shared + 4096;
	*(volatile char *)(shared + 4096 + 5) = 1;
	printf("faults %d\n", faults);
	T(pread(fd, buf, 10, 0));
	T(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096));
	printf("after punching: %d %d\n", shared[0], shared2[5]);
	T(ro = open("m", O_RDONLY));
	T(mmap(NULL, 4096, PROT_WRITE, MAP_SHARED, ro, 0) == MAP_FAILED ? -1 : 0);
	T(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, ro, 0) == MAP_FAILED ? -1 : 0);
	T(close(fd));
	T(close(ro));
	T(unlink("m"));
	strcpy(shared, "still here");
	printf("%s\n", shared2);
	T(munmap(shared, 4 * 4096));
	T(munmap(shared2, 4096));
	T(fd = (int)syscall(SYS_memfd_create, "name", 1));
	T(ftruncate(fd, 8192));
	shared = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	strcpy(shared + 4090, "across the pages");
	T(pread(fd, buf, 16, 4090));
	printf("%.16s\n", buf);
	T(fcntl(fd, F_GETFD));
	T(close(fd));
	T(munmap(shared, 8192));
	T(syscall(SYS_memfd_create, "name", 0x8000));
}

/* --- the rest ----------------------------------------------------------------------------- */

static void copies(void)
{
	off_t from = 2, to = 5;
	struct statfs sf;
	char value[8];
	int a, b;

	put("a", "0123456789");
	put("b", "abcdefghij");
	T(a = open("a", O_RDWR));
	T(b = open("b", O_RDWR));
	T(syscall(SYS_copy_file_range, a, &from, b, &to, 4, 0));
	printf("%d %d\n", (int)from, (int)to);
	get("b");
	T(syscall(SYS_copy_file_range, a, NULL, b, NULL, 100, 0));
	get("b");
	T(syscall(SYS_copy_file_range, a, NULL, b, NULL, 1, 1));
	from = 0, to = 2;
	T(syscall(SYS_copy_file_range, a, &from, a, &to, 4, 0));
	from = 3;
	T(sendfile(b, a, &from, 3));
	get("b");
	T(flock(a, LOCK_EX));
	T(flock(a, LOCK_UN));
	T(close(a));
	T(close(b));
	T(statfs(".", &sf));
	printf("%lx %ld %ld\n", (long)sf.f_type, (long)sf.f_bsize, (long)sf.f_namelen);
	T(syscall(SYS_listxattr, "a", value, 0) > 100);
	T(syscall(SYS_removexattr, "none", "user.x"));
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} groups[] = {
		{ "opening", opening },
		{ "reading", reading },
		{ "sizes", sizes },
		{ "links", links },
		{ "directories", directories },
		{ "renames", renames },
		{ "permissions", permissions },
		{ "times", utimes_calls },
		{ "mappings", mappings },
		{ "copies", copies },
	};

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc < 2 || chdir(argv[1])) {
		fprintf(stderr, "usage: tmpfs DIR [GROUP]\n");
		return 2;
	}
	for (size_t i = 0; i < sizeof(groups) / sizeof(groups[0]); i++) {
		if (argc > 2 && strcmp(argv[2], groups[i].name))
			continue;
		printf("--- %s\n", groups[i].name);
		if (mkdir(groups[i].name, 0755) || chdir(groups[i].name)) {
			perror(groups[i].name);
			return 1;
		}
		groups[i].run();
		if (chdir(argv[1]))
			return 1;
	}
	return 0;
}
