/* SPDX-License-Identifier: MIT */
/*
 * Calls on files of a disk, in the directory that the argument names: holes, times beside writes
 * that are under way, synchronisation, files without a name, allocation, copies, links. Prints the
 * same as on Linux with ext4 below the directory.
 */
#include "user.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

static void said(const char *what, long ret)
{
	const int err = errno;

	if (ret == -1)
		printf("%s: %s\n", what, strerrorname_np(err));
	else
		printf("%s: %ld\n", what, ret);
}

static int make(const char *name)
{
	const int fd = open(name, O_RDWR | O_CREAT | O_TRUNC, 0644);

	CHECK(fd >= 0);
	return fd;
}

static void holes(void)
{
	const int fd = make("holes");
	char *p;

	CHECK(ftruncate(fd, 4 * MB + 5) == 0);
	said("no data", lseek(fd, 0, SEEK_DATA));
	said("a hole", lseek(fd, 7, SEEK_HOLE));
	CHECK(pwrite(fd, "written", 7, MB) == 7);
	said("data", lseek(fd, 5, SEEK_DATA));
	said("inside", lseek(fd, MB + 3, SEEK_DATA));
	said("behind it", lseek(fd, MB + 3, SEEK_HOLE));
	p = mmap(NULL, 4 * MB, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	CHECK(p != MAP_FAILED);
	p[3 * MB] = 's';
	CHECK(msync(p, 4 * MB, MS_SYNC) == 0);
	said("stored", lseek(fd, 2 * MB, SEEK_DATA));
	said("behind that", lseek(fd, 3 * MB, SEEK_HOLE));
	said("at the end", lseek(fd, 4 * MB + 5, SEEK_DATA));
	said("at the end", lseek(fd, 4 * MB + 5, SEEK_HOLE));
	said("before the file", lseek(fd, -1, SEEK_DATA));
	CHECK(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, MB, MB) == 0);
	said("punched", lseek(fd, 0, SEEK_DATA));
	CHECK(close(fd) == 0);
}

static void time_is(const char *what, int fd)
{
	struct stat st;

	CHECK(fstat(fd, &st) == 0);
	printf("%s: %ld.%09ld\n", what, (long)st.st_mtim.tv_sec, st.st_mtim.tv_nsec);
}

static struct timespec ctime_of(int fd)
{
	struct stat st;

	CHECK(fstat(fd, &st) == 0);
	return st.st_ctim;
}

static int is_same(struct timespec a, struct timespec b)
{
	return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

/* tar and git take a file for changed when its ctime is another than before. */
static void ctimes(void)
{
	const struct timespec old[2] = { { 1000, 0 }, { 1234567890, 123456000 } };
	const struct timespec late[2] = { { 1000, 0 }, { 4000000000, 5000 } };
	const int fd = make("ctimes");
	struct timespec set;
	struct stat st;

	CHECK(write(fd, "bytes", 5) == 5 && fstat(fd, &st) == 0);
	printf("a write sets both times: %d\n", is_same(st.st_ctim, st.st_mtim));
	CHECK(fsync(fd) == 0);
	printf("ctime is the same when synchronised: %d\n", is_same(st.st_ctim, ctime_of(fd)));
	CHECK(write(fd, "more", 4) == 4 && futimens(fd, old) == 0);
	set = ctime_of(fd);
	printf("it is no older: %d\n", set.tv_sec >= st.st_ctim.tv_sec);
	CHECK(fsync(fd) == 0);
	printf("and stays behind an older mtime: %d\n", is_same(set, ctime_of(fd)));
	CHECK(write(fd, "more", 4) == 4 && futimens(fd, late) == 0);
	set = ctime_of(fd);
	printf("it is the clock's: %d\n", set.tv_sec < late[1].tv_sec);
	CHECK(fsync(fd) == 0);
	printf("and stays before a later mtime: %d\n", is_same(set, ctime_of(fd)));
	CHECK(close(fd) == 0);
}

static void times(void)
{
	const struct timespec t[2] = { { 1000, 0 }, { 1234567890, 123456000 } };
	const int fd = make("times");
	char *p;

	CHECK(write(fd, "bytes", 5) == 5 && futimens(fd, t) == 0);
	time_is("set behind a write", fd);
	CHECK(fsync(fd) == 0);
	time_is("synchronised", fd);
	p = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	CHECK(p != MAP_FAILED);
	p[0] = 'B';
	CHECK(futimens(fd, t) == 0 && munmap(p, PAGE) == 0 && close(fd) == 0);
	sync();
	time_is("and after a store and sync", open("times", O_RDONLY));
}

static void syncs(void)
{
	const int dir = open(".", O_RDONLY | O_DIRECTORY), fd = make("syncs");

	CHECK(write(fd, "synchronised", 12) == 12);
	said("fsync of a directory", fsync(dir));
	said("syncfs", syncfs(fd));
	said("syncfs of a directory", syncfs(dir));
	said("syncfs of a name", syncfs(open(".", O_PATH)));
	said("sync_file_range", sync_file_range(fd, 0, 4, 7));
	said("only write", sync_file_range(fd, 0, 0, SYNC_FILE_RANGE_WRITE));
	said("other flags", sync_file_range(fd, 0, 4, 8));
	close(dir);
	close(fd);
}

static void nameless(void)
{
	const int fd = open(".", O_TMPFILE | O_RDWR, 0600);
	char path[64], got[8] = "";
	struct stat st;
	int named;

	CHECK(fd >= 0 && write(fd, "nameless", 8) == 8 && fstat(fd, &st) == 0);
	printf("links: %d\n", (int)st.st_nlink);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	said("named", linkat(AT_FDCWD, path, AT_FDCWD, "named", AT_SYMLINK_FOLLOW));
	named = open("named", O_RDONLY);
	CHECK(named >= 0 && read(named, got, 4) == 4);
	printf("it is the file: %s\n", got);
	said("once more", linkat(AT_FDCWD, path, AT_FDCWD, "named", AT_SYMLINK_FOLLOW));
	close(named);
	close(fd);
}

static void show(const char *what, int fd)
{
	char got[64] = "";
	struct stat st;

	CHECK(fstat(fd, &st) == 0);
	CHECK(pread(fd, got, 5, 0) >= 0);
	printf("%s: size %ld, %.5s, ", what, (long)st.st_size, got);
	CHECK(pread(fd, got, 1, 2 * PAGE) >= 0);
	printf("%d\n", got[0]);
}

static void allocation(void)
{
	const int fd = make("allocated"), to = make("copied");
	char page[PAGE];
	off_t in = 10, out = PAGE;

	for (int i = 0; i < 8; i++) {
		memset(page, 'a' + i, PAGE);
		CHECK(write(fd, page, PAGE) == PAGE);
	}
	said("larger", fallocate(fd, 0, 0, 10 * PAGE));
	show("it is", fd);
	said("keep size", fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, 20 * PAGE));
	show("it is", fd);
	said("zero", fallocate(fd, FALLOC_FL_ZERO_RANGE, 2 * PAGE, 100));
	show("it is", fd);
	said("collapse", fallocate(fd, FALLOC_FL_COLLAPSE_RANGE, 0, 2 * PAGE));
	show("it is", fd);
	said("collapse, not at a block", fallocate(fd, FALLOC_FL_COLLAPSE_RANGE, 1, PAGE));
	said("punch without keep", fallocate(fd, FALLOC_FL_PUNCH_HOLE, 0, PAGE));
	said("copy", copy_file_range(fd, &in, to, &out, 3 * PAGE, 0));
	printf("offsets %ld %ld\n", (long)in, (long)out);
	CHECK(pread(to, page, PAGE, PAGE + 100) == PAGE);
	printf("it is: %d %c\n", page[0], page[PAGE - 1]);
	close(fd);
	close(to);
}

static void through(const char *what, const char *name, int flags)
{
	const int fd = open(name, O_WRONLY | O_CREAT | flags, 0600);

	if (fd < 0) {
		said(what, -1);
		return;
	}
	said(what, write(fd, what, strlen(what)));
	close(fd);
}

/* Links whose target is missing: O_CREAT makes that. */
static void links(void)
{
	struct stat st;
	char cwd[512], target[600];

	CHECK(mkdir("links", 0755) == 0 && chdir("links") == 0 && mkdir("sub", 0755) == 0);
	CHECK(getcwd(cwd, sizeof(cwd)) && strlen(cwd) < sizeof(cwd));
	snprintf(target, sizeof(target), "%s/absolute", cwd);
	CHECK(symlink("made", "one") == 0 && symlink("../sub/up", "sub/link") == 0);
	CHECK(symlink("sub/second", "first") == 0 && symlink("third", "sub/second") == 0);
	CHECK(symlink(target, "abs") == 0 && symlink("no/dir", "lost") == 0);
	CHECK(symlink("b", "a") == 0 && symlink("a", "b") == 0 && symlink("slash/", "dir") == 0);
	through("exclusive", "one", O_EXCL);
	through("not followed", "one", O_NOFOLLOW);
	through("one", "one", 0);
	said("made", stat("made", &st) ? -1 : (long)st.st_size);
	through("again", "one", O_TRUNC);
	through("up", "sub/link", 0);
	said("made", stat("sub/up", &st) ? -1 : (long)st.st_size);
	through("two links", "first", 0);
	said("made", stat("sub/third", &st) ? -1 : (long)st.st_size);
	through("absolute", "abs", 0);
	said("made", stat("absolute", &st) ? -1 : (long)st.st_size);
	through("no directory", "lost", 0);
	through("a loop", "a", 0);
	through("a slash", "dir", 0);
	CHECK(chdir("..") == 0);
}

int main(int argc, char **argv)
{
	CHECK(argc == 2 && chdir(argv[1]) == 0);
	holes();
	times();
	ctimes();
	syncs();
	nameless();
	allocation();
	links();
	return 0;
}
