/* SPDX-License-Identifier: MIT */
/*
 * Random changes of a tree: treework DIR SEED OPERATIONS [EVERY]
 *
 * Every call's outcome is printed as a running hash, each hundred operations (or EVERY), so that a
 * run on Linux with the same seed says where another one went another way. The names are few: most
 * kinds of failure happen, too. Times and extended attributes are not looked at. At the end sockets
 * go, which tools that read the disk afterwards do not know.
 */
#include "user.h"

#include <fcntl.h>
#include <ftw.h>
#include <sys/stat.h>

#define NAMES 12u

static uint64_t rng, seen = HASH_INIT;

static uint32_t below(uint32_t n)
{
	return (uint32_t)(next_random(&rng) % n);
}

static const char *name(void)
{
	static char names[4][64];
	static unsigned int turn;
	char *s = names[++turn % 4];
	int n = 0;

	for (uint32_t depth = below(4); depth > 0; depth--)
		n += sprintf(s + n, "d%u/", below(4));
	sprintf(s + n, below(3) ? "f%u" : "d%u", below(NAMES));
	return s;
}

static int done(long ret)
{
	seen = hash_word(seen, ret < 0 ? (uint64_t)errno << 8 : 1);
	return ret < 0 ? -1 : 0;
}

static void write_some(void)
{
	static char bytes[20000];
	const int flags = (below(4) ? 0 : O_TRUNC) | (below(4) ? 0 : O_APPEND);
	const int fd = open(name(), O_WRONLY | O_NONBLOCK | flags);
	const off_t at = below(60000);
	const size_t len = below(sizeof(bytes)) + 1;

	memset(bytes, 'a' + (int)below(26), len);
	if (done(fd) == 0) {
		done(pwrite(fd, bytes, len, at));
		if (!below(20))
			done(fsync(fd));
		close(fd);
	}
}

static void read_some(void)
{
	static char bytes[30000];
	const int fd = open(name(), O_RDONLY | O_NONBLOCK);
	const off_t at = below(60000);
	ssize_t n;

	if (done(fd) < 0)
		return;
	n = pread(fd, bytes, sizeof(bytes), at);
	seen = n < 0 ? hash_word(seen, (uint64_t)errno) : hash_bytes(seen, bytes, (size_t)n);
	close(fd);
}

static void look(void)
{
	const char *which = name();
	struct stat st;
	char target[64];
	ssize_t n;

	if (done(lstat(which, &st)) < 0)
		return;
	seen = hash_word(seen, st.st_mode);
	seen = hash_word(seen, st.st_uid);
	if (!S_ISDIR(st.st_mode)) {
		seen = hash_word(seen, st.st_nlink);
		seen = hash_word(seen, (uint64_t)st.st_size);
	}
	n = readlink(which, target, sizeof(target));
	if (done(n) == 0)
		seen = hash_bytes(seen, target, (size_t)n);
}

static void make(void)
{
	int fd;

	switch (below(6)) {
	case 0:
	case 1:
		done(mkdir(name(), 0700 + below(64)));
		return;
	case 2:
		done(symlink(name(), name()));
		return;
	case 3:
		done(mknod(name(), S_IFSOCK | 0600, 0));
		return;
	default:
		fd = open(name(), O_RDWR | O_NONBLOCK | O_CREAT | (below(2) ? O_EXCL : 0), 0640);
		if (done(fd) == 0)
			close(fd);
	}
}

static void one(void)
{
	switch (below(14)) {
	case 0:
	case 1:
		make();
		return;
	case 2:
		done(unlink(name()));
		return;
	case 3:
		done(rmdir(name()));
		return;
	case 4:
	case 5:
		done(rename(name(), name()));
		return;
	case 6:
		done(link(name(), name()));
		return;
	case 7:
		done(renameat2(AT_FDCWD, name(), AT_FDCWD, name(), 1 + below(2)));
		return;
	case 8:
		done(truncate(name(), below(80000)));
		return;
	case 9:
		done(below(2) ? chmod(name(), below(07777)) : lchown(name(), below(5), below(5)));
		return;
	case 10:
	case 11:
		look();
		return;
	case 12:
		read_some();
		return;
	default:
		write_some();
	}
}

static int no_special(const char *path, const struct stat *st, int type, struct FTW *where)
{
	(void)type;
	(void)where;
	if (S_ISSOCK(st->st_mode))
		CHECK(unlink(path) == 0);
	return 0;
}

int main(int argc, char **argv)
{
	uint64_t most, every;

	CHECK((argc == 4 || argc == 5) && chdir(argv[1]) == 0);
	umask(0);
	rng = (strtoull(argv[2], NULL, 0) + 1) * 0x9e3779b97f4a7c15ull;
	most = strtoull(argv[3], NULL, 0);
	every = argc == 5 ? strtoull(argv[4], NULL, 0) : 100;
	CHECK(every);
	for (uint64_t i = 1; i <= most; i++) {
		one();
		if (i % every == 0 || i == most)
			printf("%llu: %016llx\n", (unsigned long long)i, (unsigned long long)seen);
	}
	CHECK(nftw(".", no_special, 16, FTW_PHYS) == 0);
	return 0;
}
