/* SPDX-License-Identifier: MIT */
/*
 * A hand inside the system: hand DIR does what stdin says, one command a line, and answers each
 * with one line, "ok", a number, or the name of an error. So a test on the host decides what is
 * done, knows when it was answered, and has a model of it.
 *
 *	create NAME | mkdir NAME | rmdir NAME | unlink NAME
 *	rename OLD NEW | link OLD NEW | symlink TARGET NAME
 *	write NAME OFFSET LENGTH TAG [sync]	(sync: by O_SYNC)
 *	append NAME OFFSET LENGTH TAG		(by O_APPEND; bytes are those of a write at OFFSET)
 *	store NAME OFFSET LENGTH TAG		(by a shared mapping)
 *	cut NAME LENGTH
 *	fsync NAME | fdatasync NAME | sync
 *	hold NAME SLOT | drop SLOT | keep SLOT	(an open descriptor; keep: fsync of it)
 *	read NAME OFFSET LENGTH TAG		(1: other bytes, 2: fewer)
 *	repeat N WHAT ...			(the command N times: the answer is of the last)
 *
 * Written bytes say where they belong: units of 16 bytes, each with the tag and its offset, so
 * offsets and lengths are multiples of 16.
 */
#include "user.h"

#include <fcntl.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define MAX_WORDS 8
#define MAX_SLOTS 64
#define MAGIC     0x7ec5ab1eu

struct unit {
	uint32_t magic;
	uint32_t tag;
	uint64_t offset;
};

static int slots[MAX_SLOTS];

static void fill(struct unit *u, uint64_t offset, size_t len, uint32_t tag)
{
	for (size_t i = 0; i < len / sizeof(*u); i++)
		u[i] = (struct unit){ MAGIC, tag, offset + i * sizeof(*u) };
}

static long with_fd(const char *name, int flags, int (*what)(int))
{
	const int fd = open(name, flags);
	long ret;
	int err;

	if (fd < 0)
		return -1;
	ret = what(fd);
	err = errno;
	if (close(fd) != 0 && ret == 0)
		return -1;
	errno = err;
	return ret;
}

static long put(char **w, int flags)
{
	const uint64_t offset = strtoull(w[2], NULL, 0);
	const size_t len = strtoul(w[3], NULL, 0);
	struct unit *buf = malloc(len + 1);
	const int fd = open(w[1], O_WRONLY | flags);
	long ret = -1;
	int err = errno;

	CHECK(buf);
	if (fd >= 0) {
		fill(buf, offset, len, (uint32_t)strtoul(w[4], NULL, 0));
		ret = flags & O_APPEND ? write(fd, buf, len) : pwrite(fd, buf, len, (off_t)offset);
		err = errno;
		if (close(fd) != 0 && ret >= 0) {
			ret = -1;
			err = errno;
		}
	}
	free(buf);
	errno = err;
	return ret == (long)len ? 0 : ret;
}

static long store(char **w)
{
	const uint64_t offset = strtoull(w[2], NULL, 0);
	const size_t len = strtoul(w[3], NULL, 0);
	const uint64_t first = offset & ~(PAGE - 1);
	const int fd = open(w[1], O_RDWR);
	char *p;

	if (fd < 0)
		return -1;
	p = mmap(NULL, offset + len - first, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)first);
	if (p == MAP_FAILED) {
		close(fd);
		return -1;
	}
	fill((struct unit *)(void *)(p + (offset - first)), offset, len,
	     (uint32_t)strtoul(w[4], NULL, 0));
	return munmap(p, offset + len - first) | close(fd);
}

static long look(char **w)
{
	const uint64_t offset = strtoull(w[2], NULL, 0);
	const size_t len = strtoul(w[3], NULL, 0);
	char *want = malloc(len + 1), *is = malloc(len + 1);
	const int fd = open(w[1], O_RDONLY);
	long ret = -1, err;

	CHECK(want && is);
	if (fd >= 0) {
		fill((struct unit *)(void *)want, offset, len, (uint32_t)strtoul(w[4], NULL, 0));
		ret = pread(fd, is, len, (off_t)offset);
		if (ret >= 0)
			ret = ret != (long)len ? 2 : memcmp(is, want, len) != 0;
	}
	err = errno;
	if (fd >= 0)
		close(fd);
	free(want);
	free(is);
	errno = (int)err;
	return ret;
}

static long slot(char **w, bool hold)
{
	const unsigned long i = strtoul(w[hold ? 2 : 1], NULL, 0);

	CHECK(i < MAX_SLOTS && (slots[i] >= 0) != hold);
	if (hold) {
		slots[i] = open(w[1], O_RDWR);
		return slots[i] < 0 ? -1 : 0;
	}
	close(slots[i]);
	slots[i] = -1;
	return 0;
}

static long keep(const char *word)
{
	const unsigned long i = strtoul(word, NULL, 0);

	CHECK(i < MAX_SLOTS && slots[i] >= 0);
	return fsync(slots[i]);
}

static int close_new(const char *name)
{
	const int fd = open(name, O_WRONLY | O_CREAT | O_EXCL, 0644);

	return fd < 0 ? -1 : close(fd);
}

static long change_names(char **w, int nr)
{
	if (nr == 2 && !strcmp(w[0], "create"))
		return close_new(w[1]);
	if (nr == 2 && !strcmp(w[0], "mkdir"))
		return mkdir(w[1], 0755);
	if (nr == 2 && !strcmp(w[0], "rmdir"))
		return rmdir(w[1]);
	if (nr == 2 && !strcmp(w[0], "unlink"))
		return unlink(w[1]);
	if (nr == 3 && !strcmp(w[0], "rename"))
		return rename(w[1], w[2]);
	if (nr == 3 && !strcmp(w[0], "link"))
		return link(w[1], w[2]);
	if (nr == 3 && !strcmp(w[0], "symlink"))
		return symlink(w[1], w[2]);
	die("what is %s?", w[0]);
}

static long act(char **w, int nr)
{
	if (nr == 5 && !strcmp(w[0], "write"))
		return put(w, 0);
	if (nr == 6 && !strcmp(w[0], "write"))
		return put(w, O_SYNC);
	if (nr == 5 && !strcmp(w[0], "append"))
		return put(w, O_APPEND);
	if (nr == 5 && !strcmp(w[0], "store"))
		return store(w);
	if (nr == 5 && !strcmp(w[0], "read"))
		return look(w);
	if (nr == 3 && !strcmp(w[0], "cut"))
		return truncate(w[1], (off_t)strtoull(w[2], NULL, 0));
	if (nr == 2 && !strcmp(w[0], "fsync"))
		return with_fd(w[1], O_RDONLY, fsync);
	if (nr == 2 && !strcmp(w[0], "fdatasync"))
		return with_fd(w[1], O_RDONLY, fdatasync);
	if (nr == 1 && !strcmp(w[0], "sync"))
		return sync(), 0;
	if (nr == 3 && !strcmp(w[0], "hold"))
		return slot(w, true);
	if (nr == 2 && !strcmp(w[0], "drop"))
		return slot(w, false);
	if (nr == 2 && !strcmp(w[0], "keep"))
		return keep(w[1]);
	return change_names(w, nr);
}

static void one_line(char *line)
{
	char *words[MAX_WORDS], *rest = NULL, **w = words;
	unsigned long times = 1;
	long ret = 0;
	int nr = 0;

	for (char *s = strtok_r(line, " \n", &rest); s; s = strtok_r(NULL, " \n", &rest)) {
		if (nr == MAX_WORDS)
			die("too many words");
		words[nr++] = s;
	}
	if (nr > 2 && !strcmp(w[0], "repeat")) {
		times = strtoul(w[1], NULL, 0);
		w += 2;
		nr -= 2;
	}
	CHECK(nr > 0);
	while (times-- > 0 && ret == 0)
		ret = act(w, nr);
	if (ret < 0)
		printf("%s\n", strerrorname_np(errno));
	else if (ret == 0)
		printf("ok\n");
	else
		printf("%ld\n", ret);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	char *line = NULL;
	size_t room = 0;

	CHECK(argc == 2 && chdir(argv[1]) == 0);
	for (size_t i = 0; i < MAX_SLOTS; i++)
		slots[i] = -1;
	while (getline(&line, &room, stdin) > 0)
		one_line(line);
	free(line);
	return 0;
}
