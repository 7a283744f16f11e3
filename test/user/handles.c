/* SPDX-License-Identifier: MIT */
/*
 * Files by handle: name_to_handle_at, open_by_handle_at. argv[1]: a directory, which it makes.
 * Prints the same on any file system that has handles.
 */
#include "call.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>

struct handle {
	struct file_handle h;
	unsigned char bytes[128];
};

#ifndef AT_HANDLE_FID
# define AT_HANDLE_FID 0x200
#endif
#define AT_UNIQUE 0x1 /* as yet in no header of the C library */

static int get(int dfd, const char *path, struct handle *h, int flags)
{
	int mount_id;

	memset(h, 0, sizeof(*h));
	h->h.handle_bytes = sizeof(h->bytes);
	return name_to_handle_at(dfd, path, &h->h, &mount_id, flags);
}

/* The first bytes of the file of the handle. */
static void show(const char *what, int dfd, struct handle *h)
{
	char text[16] = "";
	const int fd = open_by_handle_at(dfd, &h->h, O_RDONLY);

	call(what, fd < 0 ? -1 : 0);
	if (fd < 0)
		return;
	CHECK(read(fd, text, sizeof(text) - 1) >= 0);
	printf("  %s\n", text);
	close(fd);
}

static void names(void)
{
	struct handle h, other;
	struct statx sx;
	uint64_t id = 0;
	int old = 0;

	h.h.handle_bytes = 0;
	call("no room", name_to_handle_at(AT_FDCWD, "file", &h.h, &old, 0));
	printf("it needs some: %d\n", h.h.handle_bytes > 0 && h.h.handle_bytes <= 128);
	h.h.handle_bytes--;
	call("a byte less", name_to_handle_at(AT_FDCWD, "file", &h.h, &old, 0));
	call("just enough", name_to_handle_at(AT_FDCWD, "file", &h.h, &old, 0));
	h.h.handle_bytes = 129;
	call("too much", name_to_handle_at(AT_FDCWD, "file", &h.h, &old, 0));
	call("flags", get(AT_FDCWD, "file", &h, 0x8));
	call("no path", get(AT_FDCWD, "", &h, 0));
	call("not there", get(AT_FDCWD, "none", &h, 0));
	call("no descriptor", get(99, "file", &h, 0));
	call("nowhere", name_to_handle_at(AT_FDCWD, "file", (struct file_handle *)8, &old, 0));
	h.h.handle_bytes = 128;
	call("no number", name_to_handle_at(AT_FDCWD, "file", &h.h, (int *)8, 0));
	call("of proc", get(AT_FDCWD, "/proc/self", &h, 0));
	call("of proc, only to compare", get(AT_FDCWD, "/proc/self", &h, AT_HANDLE_FID));
	call("the link", get(AT_FDCWD, "link", &h, 0));
	CHECK(get(AT_FDCWD, "file", &other, 0) == 0);
	printf("is the file: %d\n", !memcmp(&h, &other, sizeof(h)));
	call("followed", get(AT_FDCWD, "link", &h, AT_SYMLINK_FOLLOW));
	printf("is the file: %d\n", !memcmp(&h, &other, sizeof(h)));
	call("the same, only to compare", get(AT_FDCWD, "file", &h, AT_HANDLE_FID));
	printf("is the file: %d\n", !memcmp(h.bytes, other.bytes, sizeof(h.bytes)));
	h.h.handle_bytes = 128;
	call("with the mount's number",
	     name_to_handle_at(AT_FDCWD, "file", &h.h, (int *)&id, AT_UNIQUE));
	CHECK(statx(AT_FDCWD, "file", 0, 0x4000, &sx) == 0);
	printf("is statx's: %d\n", id == sx.stx_mnt_id);
}

static void files(void)
{
	const int dir = open(".", O_RDONLY | O_DIRECTORY), proc = open("/proc", O_RDONLY);
	const int file = open("file", O_RDONLY);
	struct handle h, gone, d;
	struct stat st, st2;
	int fd;

	CHECK(dir >= 0 && proc >= 0 && file >= 0);
	CHECK(get(file, "", &h, AT_EMPTY_PATH) == 0);
	show("by a descriptor", dir, &h);
	show("by the working directory", AT_FDCWD, &h);
	CHECK(rename("file", "other") == 0);
	show("renamed", dir, &h);
	CHECK(close(file) == 0);
	show("closed", dir, &h);
	fd = open_by_handle_at(dir, &h.h, O_RDWR | O_TRUNC);
	call("truncated", fd < 0 ? -1 : 0);
	CHECK(write(fd, "new", 3) == 3 && close(fd) == 0);
	show("written", dir, &h);
	CHECK(stat("other", &st) == 0);
	fd = open_by_handle_at(dir, &h.h, O_PATH);
	CHECK(fstat(fd, &st2) == 0);
	printf("the same: %d\n", st.st_ino == st2.st_ino && st.st_dev == st2.st_dev);
	close(fd);
	CHECK(get(dir, "", &d, AT_EMPTY_PATH) == 0);
	call("a directory to write", open_by_handle_at(dir, &d.h, O_RDWR));
	fd = open_by_handle_at(dir, &d.h, O_RDONLY | O_DIRECTORY);
	call("to read", fd < 0 ? -1 : 0);
	call("what is in it", faccessat(fd, "other", F_OK, 0));
	close(fd);
	call("a file as a directory", open_by_handle_at(dir, &h.h, O_RDONLY | O_DIRECTORY));
	call("by a mount without handles", open_by_handle_at(proc, &h.h, O_RDONLY));
	call("by none", open_by_handle_at(99, &h.h, O_RDONLY));
	fd = open("gone", O_CREAT | O_RDWR, 0600);
	CHECK(fd >= 0 && write(fd, "gone", 4) == 4);
	CHECK(get(dir, "gone", &gone, 0) == 0 && unlink("gone") == 0);
	show("removed, but open", dir, &gone);
	close(fd);
	show("gone", dir, &gone);
	CHECK(get(dir, "link", &d, 0) == 0);
	call("a link", open_by_handle_at(dir, &d.h, O_RDONLY));
	close(dir);
	close(proc);
}

static void hostile(void)
{
	struct handle h, bad;
	int opened = 0, stale = 0;
	uint64_t rnd = 4711;
	pid_t pid;
	int status;

	CHECK(get(AT_FDCWD, "other", &h, 0) == 0);
	for (unsigned int i = 0; i < h.h.handle_bytes; i++) {
		for (unsigned int bit = 0; bit < 8; bit += 3) {
			bad = h;
			bad.bytes[i] ^= (unsigned char)(1u << bit);
			if (open_by_handle_at(AT_FDCWD, &bad.h, O_RDONLY) >= 0)
				opened++;
			else
				stale += errno == ESTALE;
		}
	}
	printf("a bit: %d opened, all others stale: %d\n", opened,
	       stale == (int)h.h.handle_bytes * 3);
	for (int i = 0; i < 200; i++) {
		bad = h;
		for (int k = 0; k < 128; k++)
			bad.bytes[k] = (unsigned char)next_random(&rnd);
		opened += open_by_handle_at(AT_FDCWD, &bad.h, O_RDONLY) >= 0;
	}
	printf("any bytes: %d\n", opened);
	bad = h;
	bad.h.handle_bytes = 0;
	call("no bytes", open_by_handle_at(AT_FDCWD, &bad.h, O_RDONLY));
	bad.h.handle_bytes = 129;
	call("too many", open_by_handle_at(AT_FDCWD, &bad.h, O_RDONLY));
	bad.h.handle_bytes = 4;
	call("too few", open_by_handle_at(AT_FDCWD, &bad.h, O_RDONLY));
	bad = h;
	bad.h.handle_type = -1;
	call("no type", open_by_handle_at(AT_FDCWD, &bad.h, O_RDONLY));
	call("nowhere", open_by_handle_at(AT_FDCWD, (struct file_handle *)8, O_RDONLY));
	fflush(stdout);
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		CHECK(setresuid(65534, 65534, 65534) == 0);
		call("nobody", open_by_handle_at(AT_FDCWD, &h.h, O_RDONLY));
		call("who may name it", get(AT_FDCWD, "other", &bad, 0));
		fflush(stdout);
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
}

int main(int argc, char **argv)
{
	CHECK(argc == 2 && mkdir(argv[1], 0755) == 0 && chdir(argv[1]) == 0);
	CHECK(make_file("file", "text") == 0 && symlink("file", "link") == 0);
	names();
	files();
	hostile();
	CHECK(unlink("other") == 0 && unlink("link") == 0 && chdir("/") == 0);
	CHECK(rmdir(argv[1]) == 0);
	return 0;
}
