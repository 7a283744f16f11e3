/* SPDX-License-Identifier: MIT */
/*
 * Files and directories that are immutable, or append only. argv[1]: a directory, which it makes.
 * Prints the same on any file system that has both.
 */
#include "call.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>

#define GETFLAGS  0x80086601u
#define SETFLAGS  0x40086602u
#define IMMUTABLE 0x10
#define APPEND    0x20
#define NODUMP    0x40
#define GUARDED   (IMMUTABLE | APPEND)

static int flags_of(const char *path)
{
	const int fd = open(path, O_RDONLY);
	int flags = -1;

	CHECK(fd >= 0 && ioctl(fd, GETFLAGS, &flags) == 0);
	close(fd);
	return flags & (GUARDED | NODUMP);
}

static int set(const char *path, int flags)
{
	const int fd = open(path, O_RDONLY);
	int ret, now;

	CHECK(fd >= 0 && ioctl(fd, GETFLAGS, &now) == 0);
	now = (now & ~(GUARDED | NODUMP)) | flags;
	ret = ioctl(fd, SETFLAGS, &now);
	close(fd);
	return ret;
}

static void opened(const char *what, const char *path, int flags)
{
	const int fd = open(path, flags, 0644);

	call(what, fd < 0 ? -1 : 0);
	if (fd >= 0)
		close(fd);
}

static void make(const char *path)
{
	const int fd = open(path, O_CREAT | O_WRONLY, 0644);

	CHECK(fd >= 0 && write(fd, "old", 3) == 3);
	close(fd);
}

static void mapped(const char *what, int fd, int prot, int flags)
{
	void *at = mmap(NULL, 4096, prot, flags, fd, 0);

	call(what, at == MAP_FAILED ? -1 : 0);
	if (at != MAP_FAILED)
		munmap(at, 4096);
}

static void mappings(const char *file, int flags)
{
	const int fd = open(file, flags);

	if (fd < 0)
		return;
	mapped("shared, to write", fd, PROT_READ | PROT_WRITE, MAP_SHARED);
	mapped("the same, validated", fd, PROT_READ | PROT_WRITE, MAP_SHARED_VALIDATE);
	mapped("shared, to read", fd, PROT_READ, MAP_SHARED);
	mapped("private", fd, PROT_READ | PROT_WRITE, MAP_PRIVATE);
	close(fd);
}

/* Everything that changes a file, or its names. */
static void changes(const char *file)
{
	const struct timespec past[2] = { { 1, 0 }, { 2, 0 } };
	struct stat st;
	int fd;

	opened("to read", file, O_RDONLY);
	opened("to write", file, O_WRONLY);
	opened("to append", file, O_WRONLY | O_APPEND);
	opened("to truncate", file, O_WRONLY | O_APPEND | O_TRUNC);
	opened("to make it", file, O_RDWR | O_CREAT);
	call("may write", access(file, W_OK));
	call("truncate", truncate(file, 1));
	call("chmod", chmod(file, 0644));
	call("chown", chown(file, 0, 0));
	call("times", utimensat(AT_FDCWD, file, past, 0));
	call("times of now", utimensat(AT_FDCWD, file, NULL, 0));
	call("setxattr", setxattr(file, "user.a", "b", 1, 0));
	call("setxattr", setxattr(file, "trusted.a", "b", 1, 0));
	call("removexattr", removexattr(file, "user.old"));
	call("link", link(file, "another"));
	call("rename", rename(file, "another"));
	call("rename over it", rename("other", file));
	call("exchange", renameat2(AT_FDCWD, file, AT_FDCWD, "other", RENAME_EXCHANGE));
	call("unlink", unlink(file));
	fd = open(file, O_WRONLY | O_APPEND);
	if (fd >= 0) {
		call("write", write(fd, "new", 3));
		call("ftruncate", ftruncate(fd, 1));
		call("allocate", fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, 4096));
		call("punch a hole",
		     fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096));
		call("no O_APPEND", fcntl(fd, F_SETFL, 0));
		call("O_NONBLOCK", fcntl(fd, F_SETFL, O_APPEND | O_NONBLOCK));
		close(fd);
	}
	mappings(file, O_RDONLY);
	mappings(file, O_RDWR | O_APPEND);
	if (stat(file, &st) == 0)
		printf("%lld bytes\n", (long long)st.st_size);
}

/* The same for a directory with a file and a directory in it. */
static void in_directory(void)
{
	opened("make", "dir/new", O_CREAT | O_WRONLY);
	call("mkdir", mkdir("dir/new.d", 0755));
	call("link", link("other", "dir/other"));
	call("rename out", rename("dir/file", "file.out"));
	call("rename in", rename("other", "dir/in"));
	call("rename within", rename("dir/file", "dir/file2"));
	call("unlink", unlink("dir/file"));
	call("rmdir", rmdir("dir/sub"));
	call("chmod", chmod("dir", 0755));
	call("a file in it", truncate("dir/file", 1));
	call("rename of it", rename("dir", "dir2"));
	call("rmdir of it", rmdir("dir"));
}

static void rights(void)
{
	struct statx sx;
	int status, bad = 0x4000000, fd, fds[2];
	pid_t pid;

	call("nodump", set("file", NODUMP));
	printf("flags %x\n", flags_of("file"));
	CHECK(statx(AT_FDCWD, "file", 0, STATX_BASIC_STATS, &sx) == 0);
	printf("attributes %x of %x\n", (unsigned int)sx.stx_attributes & 0x70,
	       (unsigned int)sx.stx_attributes_mask & 0x70);
	CHECK(set("file", 0) == 0);
	fd = open("file", O_RDONLY);
	call("no flag of ours", ioctl(fd, SETFLAGS, &bad));
	call("a bad address", ioctl(fd, SETFLAGS, 8));
	call("and to read", ioctl(fd, GETFLAGS, 8));
	close(fd);
	fd = open("file", O_PATH);
	call("a path", ioctl(fd, GETFLAGS, &bad));
	close(fd);
	CHECK(pipe(fds) == 0);
	call("a pipe", ioctl(fds[0], GETFLAGS, &bad));
	CHECK(chmod(".", 0777) == 0 && chmod("file", 0666) == 0);
	fflush(stdout);
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		CHECK(setuid(1234) == 0);
		call("another's", set("file", NODUMP));
		make("mine");
		call("one's own", set("mine", NODUMP));
		call("immutable", set("mine", IMMUTABLE));
		call("append only", set("mine", APPEND));
		call("no change of them", set("mine", 0));
		fflush(stdout);
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	CHECK(unlink("mine") == 0 && chmod("file", 0644) == 0);
}

int main(int argc, char **argv)
{
	int fd;

	setvbuf(stdout, NULL, _IOLBF, 0);
	CHECK(argc == 2 && mkdir(argv[1], 0755) == 0 && chdir(argv[1]) == 0);
	make("file");
	make("other");
	CHECK(setxattr("file", "user.old", "x", 1, 0) == 0);
	CHECK(mkdir("dir", 0755) == 0 && mkdir("dir/sub", 0755) == 0);
	make("dir/file");
	rights();
	fd = open("file", O_RDWR);
	CHECK(fd >= 0);
	call("immutable", set("file", IMMUTABLE));
	printf("flags %x\n", flags_of("file"));
	changes("file");
	call("append only", set("file", APPEND));
	mapped("open from before", fd, PROT_READ | PROT_WRITE, MAP_SHARED);
	close(fd);
	changes("file");
	call("both", set("file", GUARDED));
	opened("to append", "file", O_WRONLY | O_APPEND);
	call("neither", set("file", 0));
	call("an immutable directory", set("dir", IMMUTABLE));
	in_directory();
	call("a directory to add to", set("dir", APPEND));
	in_directory();
	CHECK(set("dir", 0) == 0);
	changes("file");
	CHECK(unlink("another") == 0 && unlink("dir/file") == 0 && unlink("dir/in") == 0);
	CHECK(unlink("dir/new") == 0 && unlink("dir/other") == 0);
	CHECK(rmdir("dir/new.d") == 0 && rmdir("dir/sub") == 0 && rmdir("dir") == 0);
	CHECK(rmdir(argv[1]) == 0);
	return 0;
}
