/* SPDX-License-Identifier: MIT */
/*
 * openat2 with restrictions: which paths each of them refuses, and with what. Prints the same on
 * both. argv[1]: a directory for the files, or /tmp.
 */
#include "call.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <sys/syscall.h>

static long open2(int dfd, const char *path, uint64_t flags, uint64_t mode, uint64_t resolve)
{
	const struct open_how how = { .flags = flags, .mode = mode, .resolve = resolve };

	return syscall(SYS_openat2, dfd, path, &how, sizeof(how));
}

static void make(const char *name, const char *text)
{
	const int fd = open(name, O_CREAT | O_EXCL | O_WRONLY, 0644);

	CHECK(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
	close(fd);
}

/* Open it and say of which kind it is, or why not; a file's first bytes tell which one. */
static void look_as(const char *kind, int dfd, const char *path, uint64_t flags, uint64_t resolve)
{
	const long fd = open2(dfd, path, flags, 0, resolve);
	char text[8] = "";
	struct stat st;

	printf("  %s '%s': ", kind, path);
	if (fd < 0) {
		printf("%s\n", strerrorname_np(errno));
		return;
	}
	CHECK(fstat((int)fd, &st) == 0);
	if (S_ISREG(st.st_mode) && !(flags & O_PATH))
		CHECK(read((int)fd, text, sizeof(text) - 1) >= 0);
	printf("%s %.4s\n",
	       S_ISDIR(st.st_mode)   ? "directory"
	       : S_ISREG(st.st_mode) ? "file"
	       : S_ISLNK(st.st_mode) ? "link"
				     : "other",
	       text);
	close((int)fd);
}

static const struct {
	const char *name;
	uint64_t resolve;
} restrictions[] = {
	{ "free", 0 },
	{ "no links", RESOLVE_NO_SYMLINKS },
	{ "no magic", RESOLVE_NO_MAGICLINKS },
	{ "beneath", RESOLVE_BENEATH },
	{ "in root", RESOLVE_IN_ROOT },
	{ "one mount", RESOLVE_NO_XDEV },
	{ "beneath, no links", RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS },
	{ "in root, one mount", RESOLVE_IN_ROOT | RESOLVE_NO_XDEV },
};

static const char *const paths[] = {
	"file",      "./file",    "sub/../file",   "sub/in",       "file/",   "file/x",   "none",
	"none/x",    "../out",    "sub/../../out", "..",           ".",       "/file",    "/",
	"/sub/..",   "link",      "link/",         "away",         "sub/up",  "sub/away", "up/file",
	"up/sub/in", "self/file", "loop",          "absolute",     "here/in", "here",     "here/",
	"nowhere",   "sub//in",   "down/in",       "down/../file",
};

/* A link to the true root, which is the same mount in one place and another in the other. */
static bool depends(const char *path, uint64_t resolve)
{
	return resolve == RESOLVE_NO_XDEV &&
	       (!strcmp(path, "absolute") || !strncmp(path, "here", 4));
}

static void all_paths(int dfd)
{
	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
		printf("%s\n", paths[i]);
		for (size_t k = 0; k < sizeof(restrictions) / sizeof(restrictions[0]); k++) {
			if (!depends(paths[i], restrictions[k].resolve))
				look_as(restrictions[k].name, dfd, paths[i], O_RDONLY,
					restrictions[k].resolve);
		}
	}
	puts("the link itself");
	for (size_t k = 0; k < sizeof(restrictions) / sizeof(restrictions[0]); k++)
		look_as(restrictions[k].name, dfd, "link", O_PATH | O_NOFOLLOW,
			restrictions[k].resolve);
}

static void mounts_and_magic(int dfd)
{
	static const char *const places[] = { "/proc/self/root", "/proc/self/cwd/file", "/dev/null",
					      "/proc/self/cwd" };
	const int top = open("/", O_PATH);

	CHECK(top >= 0);
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		printf("%s\n", places[i]);
		for (size_t k = 0; k < sizeof(restrictions) / sizeof(restrictions[0]); k++)
			look_as(restrictions[k].name, dfd, places[i], O_PATH,
				restrictions[k].resolve);
	}
	puts("from the top");
	look_as("one mount", top, "dev/null", O_RDONLY, RESOLVE_NO_XDEV);
	look_as("beneath", top, "dev/null", O_RDONLY, RESOLVE_BENEATH);
	look_as("in root", top, "/dev/null", O_RDONLY, RESOLVE_IN_ROOT);
	look_as("beneath", top, "proc/self/cwd", O_RDONLY, RESOLVE_BENEATH);
	look_as("in root", top, "proc/self/status", O_PATH, RESOLVE_IN_ROOT);
	close(top);
}

/* Without a restriction, which is the first, and absolute ones in the true root, none is made. */
static bool makes_here(const char *name, uint64_t resolve)
{
	return name[0] != '/' || (resolve & (RESOLVE_BENEATH | RESOLVE_IN_ROOT));
}

static void making(int dfd)
{
	static const char *const names[] = { "new",      "sub/../new2", "../new3", "/new4",
					     "dangling", "far",         "link",    "sub/",
					     "down/new", "new5/" };
	static const char *const made[] = { "top/new",  "top/new2", "new3",       "top/new3",
					    "top/new4", "target",   "top/target", "top/sub/new" };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		for (size_t k = 1; k < sizeof(restrictions) / sizeof(restrictions[0]); k++) {
			long fd;

			if (!makes_here(names[i], restrictions[k].resolve))
				continue;
			fd = open2(dfd, names[i], O_CREAT | O_RDWR, 0600, restrictions[k].resolve);
			printf("making %s, %s: %s\n", names[i], restrictions[k].name,
			       fd < 0 ? strerrorname_np(errno) : "made");
			if (fd >= 0)
				close((int)fd);
		}
	}
	for (size_t i = 0; i < sizeof(made) / sizeof(made[0]); i++)
		printf("%s is %s\n", made[i], unlink(made[i]) ? "not there" : "there");
	call("exclusive", open2(dfd, "link", O_CREAT | O_EXCL | O_RDWR, 0600, RESOLVE_BENEATH));
	call("without a name", open2(dfd, "../", O_TMPFILE | O_RDWR, 0600, RESOLVE_BENEATH));
}

static void errors(int dfd)
{
	const int file = open("top/file", O_RDONLY);

	CHECK(file >= 0);
	call("both", open2(dfd, "file", O_RDONLY, 0, RESOLVE_BENEATH | RESOLVE_IN_ROOT));
	call("unknown", open2(dfd, "file", O_RDONLY, 0, 0x40));
	call("wide", open2(dfd, "file", O_RDONLY, 0, 1UL << 40));
	call("empty", open2(dfd, "", O_RDONLY, 0, RESOLVE_BENEATH));
	call("no directory", open2(-1, "file", O_RDONLY, 0, RESOLVE_BENEATH));
	call("no root", open2(-1, "/file", O_RDONLY, 0, RESOLVE_IN_ROOT));
	call("no root needed", open2(-1, "/file", O_RDONLY, 0, RESOLVE_BENEATH));
	call("a file", open2(file, "file", O_RDONLY, 0, RESOLVE_IN_ROOT));
	call("a file as root", open2(file, "/file", O_RDONLY, 0, RESOLVE_IN_ROOT));
	call("making what is cached", open2(dfd, "x", O_RDWR | O_CREAT, 0600, RESOLVE_CACHED));
	close(file);
}

static void make_tree(void)
{
	CHECK(mkdir("top", 0755) == 0 && mkdir("top/sub", 0755) == 0);
	make("top/file", "file");
	make("top/sub/in", "in");
	make("out", "out");
	CHECK(symlink("file", "top/link") == 0 && symlink("../out", "top/away") == 0);
	CHECK(symlink("../file", "top/sub/up") == 0 && symlink("../../out", "top/sub/away") == 0);
	CHECK(symlink("../top", "top/up") == 0 && symlink(".", "top/self") == 0);
	CHECK(symlink("loop", "top/loop") == 0 && symlink("/none/such", "top/absolute") == 0);
	CHECK(symlink("/sub", "top/here") == 0 && symlink("none", "top/nowhere") == 0);
	CHECK(symlink("sub", "top/down") == 0 && symlink("target", "top/dangling") == 0);
	CHECK(symlink("../target", "top/far") == 0);
}

static void remove_tree(void)
{
	static const char *const all[] = { "top/file", "top/sub/in",  "out",          "top/link",
					   "top/away", "top/sub/up",  "top/sub/away", "top/up",
					   "top/self", "top/loop",    "top/absolute", "top/here",
					   "top/down", "top/nowhere", "top/dangling", "top/far" };

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		CHECK(unlink(all[i]) == 0);
	CHECK(rmdir("top/sub") == 0 && rmdir("top") == 0);
}

int main(int argc, char **argv)
{
	char name[128];
	int dfd;

	snprintf(name, sizeof(name), "%s/resolves-%d", argc > 1 ? argv[1] : "/tmp", getpid());
	CHECK(mkdir(name, 0755) == 0 && chdir(name) == 0);
	make_tree();
	dfd = open("top", O_RDONLY | O_DIRECTORY);
	CHECK(dfd >= 0);
	all_paths(dfd);
	CHECK(fchdir(dfd) == 0);
	puts("from the working directory");
	look_as("beneath", AT_FDCWD, "link", O_RDONLY, RESOLVE_BENEATH);
	look_as("beneath", AT_FDCWD, "away", O_RDONLY, RESOLVE_BENEATH);
	look_as("in root", AT_FDCWD, "/link", O_RDONLY, RESOLVE_IN_ROOT);
	mounts_and_magic(dfd);
	CHECK(chdir(name) == 0);
	making(dfd);
	errors(dfd);
	remove_tree();
	CHECK(chdir("/") == 0 && rmdir(name) == 0);
	return 0;
}
