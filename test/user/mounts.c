/* SPDX-License-Identifier: MIT */
/*
 * Paths from one file system into another. The image has links from the root into /tmp and /dev,
 * and files below its own /tmp, which show through.
 *
 * /data has to-tmp -> /tmp/made, to-null -> ../dev/null, to-dots -> /tmp/../data/text.small,
 * loop1 -> /tmp/loop2, and text.small; the image's /tmp has shown/text.
 */
#include "user.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statfs.h>

static long size_of(const char *path)
{
	struct stat st;

	return stat(path, &st) ? -1 : (long)st.st_size;
}

static long is_char(const char *path)
{
	struct stat st;

	return stat(path, &st) ? -1 : S_ISCHR(st.st_mode);
}

/* Is @name in directory @path, exactly once? */
static long count(const char *path, const char *name)
{
	DIR *d = opendir(path);
	struct dirent *e;
	long n = 0;

	if (!d)
		return -1;
	while ((e = readdir(d)))
		n += !strcmp(e->d_name, name);
	closedir(d);
	return n;
}

static const char *cwd(void)
{
	static char buf[4096];

	return getcwd(buf, sizeof(buf)) ? buf : strerror(errno);
}

static long magic(const char *path)
{
	struct statfs sf;

	return statfs(path, &sf) ? -1 : (long)sf.f_type;
}

int main(void)
{
	int fd, root;

	setvbuf(stdout, NULL, _IOLBF, 0);
	/* From the root by links. */
	T(open("/data/to-tmp", O_RDONLY));
	T(fd = open("/data/to-tmp", O_CREAT | O_RDWR, 0644));
	T(write(fd, "12345", 5));
	T(close(fd));
	T(size_of("/tmp/made"));
	T(size_of("/data/to-tmp"));
	T(is_char("/data/to-null"));
	T(size_of("/data/to-dots") == size_of("/data/text.small"));
	/* From tmpfs by links. */
	T(symlink("/data/text.small", "/tmp/abs"));
	T(symlink("../data/text.small", "/tmp/rel"));
	T(symlink("/data/to-tmp", "/tmp/there-and-back"));
	T(symlink("/data/loop1", "/tmp/loop2"));
	T(size_of("/tmp/abs") == size_of("/data/text.small"));
	T(size_of("/tmp/rel") == size_of("/data/text.small"));
	T(size_of("/tmp/there-and-back"));
	T(size_of("/tmp/loop2"));
	T(size_of("/data/loop1"));
	T(open("/tmp/abs/x", O_RDONLY));
	T(size_of("/tmp/../data/../tmp/./made"));
	T(size_of("/dev/../tmp/made"));
	T(size_of("/dev/shm/../../tmp/made"));
	/* The image's own files under /tmp. */
	T(size_of("/tmp/shown/text") == size_of("/data/text.small"));
	T(size_of("/tmp/shown/../made"));
	T(count("/tmp", "shown"));
	T(rmdir("/tmp/shown"));
	T(rename("/tmp/shown", "/tmp/hidden"));
	T(open("/tmp/shown/new", O_CREAT | O_RDWR, 0644));
	/* Mount points. */
	T(count("/", "tmp"));
	T(count("/", "dev"));
	T(count("/", "run"));
	T(count("/dev", "shm"));
	T(rmdir("/tmp"));
	T(rmdir("/dev/shm"));
	T(mkdir("/tmp", 0755));
	T(rename("/tmp", "/tmp2"));
	T(rename("/dev/shm", "/dev/x"));
	T(rename("/tmp/made", "/dev/shm/made"));
	T(rename("/tmp/made", "/data/made"));
	T(link("/tmp/made", "/dev/shm/made"));
	T(link("/data/text.small", "/tmp/text"));
	T(mkdir("/data/x", 0755));
	T(unlink("/data/text.small"));
	T(magic("/tmp") == magic("/dev/shm"));
	T(magic("/tmp") == magic("/data"));
	/* Working directories and descriptors. */
	T(mkdir("/tmp/dir", 0755));
	T(chdir("/tmp/dir"));
	printf("%s\n", cwd());
	T(size_of("../made"));
	T(size_of("../../data/text.small") == size_of("/data/text.small"));
	T(chdir("../../dev/shm"));
	printf("%s\n", cwd());
	T(chdir(".."));
	printf("%s\n", cwd());
	T(chdir("../data"));
	printf("%s\n", cwd());
	T(size_of("../tmp/made"));
	T(chdir("/tmp/shown"));
	printf("%s\n", cwd());
	T(chdir(".."));
	printf("%s\n", cwd());
	T(root = open("/", O_PATH | O_DIRECTORY));
	T(fd = openat(root, "tmp/dir", O_RDONLY | O_DIRECTORY));
	T(fchdir(fd));
	printf("%s\n", cwd());
	T(faccessat(fd, "../made", R_OK, 0));
	T(faccessat(root, "tmp/made", R_OK, 0));
	T(mkdirat(root, "tmp/dir2", 0700));
	T(rename("/tmp/dir", "/tmp/dir2/moved"));
	printf("%s\n", cwd());
	T(unlinkat(fd, "../../made", 0));
	T(chdir("/"));
	T(rmdir("/tmp/dir2/moved"));
	T(rmdir("/tmp/dir2"));
	return 0;
}
