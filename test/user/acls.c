/* SPDX-License-Identifier: MIT */
/*
 * Access control lists of files: what is taken as one, how modes and lists follow each other,
 * whom they let in, and what is inherited. Prints the same as on Linux.
 *
 * usage: acls [DIR]: of files below DIR (/dev/shm)
 */
#include "call.h"

#include <fcntl.h>
#include <grp.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>

#define ACCESS  "system.posix_acl_access"
#define DEFAULT "system.posix_acl_default"
#define OWNER   1000u
#define NAMED   1001u
#define OTHER   1002u
#define GROUP   2000u
#define GROUP2  2001u

struct entry {
	uint16_t tag, perm;
	uint32_t id;
};

static struct {
	uint32_t version;
	struct entry e[12];
} acl;

/* "u:7 U1001:6 g:4 G2000:5 m:7 o:0": the letters are tags, the numbers after them ids. */
static size_t parse(const char *text)
{
	static const char letters[] = "uUgGmo";
	size_t nr = 0;

	acl.version = 2;
	while (*text) {
		const char *tag = strchr(letters, *text);
		struct entry *e = &acl.e[nr++];

		CHECK(tag && nr <= 12);
		e->tag = (uint16_t)(1u << (tag - letters));
		e->id = text[1] == ':' ? ~0u : (uint32_t)strtoul(text + 1, NULL, 10);
		e->perm = (uint16_t)strtoul(strchr(text, ':') + 1, (char **)&text, 10);
		while (*text == ' ')
			text++;
	}
	return 4 + nr * sizeof(struct entry);
}

static void set(const char *path, const char *name, const char *text)
{
	const size_t len = parse(text);

	printf("%s of %s ", name + 17, path);
	call(text, setxattr(path, name, &acl, len, 0));
}

/* The mode, and both lists. */
static void show(const char *path)
{
	static const char *const names[] = { ACCESS, DEFAULT };
	struct stat st;

	CHECK(lstat(path, &st) == 0);
	printf("%s: %o", path, st.st_mode & 07777);
	for (int i = 0; i < 2; i++) {
		const ssize_t n = getxattr(path, names[i], &acl, sizeof(acl));

		if (n < 0) {
			printf(" %s", strerrorname_np(errno));
			continue;
		}
		printf(" [%u", acl.version);
		for (size_t k = 0; k < ((size_t)n - 4) / sizeof(struct entry); k++)
			printf(" %x.%d.%o", acl.e[k].tag, (int)acl.e[k].id, acl.e[k].perm);
		printf("]");
	}
	putchar('\n');
}

static void list(const char *path)
{
	char buf[400];
	const ssize_t n = listxattr(path, buf, sizeof(buf));

	printf("names of %s:", path);
	for (char *at = buf; n > 0 && at < buf + n; at += strlen(at) + 1)
		if (!strncmp(at, "system.", 7))
			printf(" %s", at);
	putchar('\n');
}

/* As a user with two groups, in a process of its own. */
static void as(unsigned int uid, unsigned int gid, unsigned int gid2, void (*what)(void))
{
	const gid_t more[] = { gid2 };
	pid_t pid;

	fflush(stdout);
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		CHECK(setgroups(1, more) == 0 && setgid(gid) == 0 && setuid(uid) == 0);
		what();
		fflush(stdout);
		_exit(0);
	}
	CHECK(waitpid(pid, NULL, 0) == pid);
}

static void ways_in(void)
{
	static const int ways[] = { O_RDONLY, O_WRONLY, O_RDWR };

	for (int i = 0; i < 3; i++) {
		const int fd = open("file", ways[i]);

		printf(" %s", fd < 0 ? strerrorname_np(errno) : "open");
		if (fd >= 0)
			close(fd);
	}
	printf(" %d%d%d\n", access("file", R_OK), access("file", W_OK), access("file", X_OK));
}

static void who_may(const char *text)
{
	printf("-- %s\n", text);
	CHECK(setxattr("file", ACCESS, &acl, parse(text), 0) == 0);
	show("file");
	as(OWNER, OWNER, OWNER, ways_in);
	as(NAMED, NAMED, NAMED, ways_in);
	as(NAMED, GROUP, NAMED, ways_in);
	as(OTHER, GROUP, OTHER, ways_in);
	as(OTHER, OTHER, GROUP2, ways_in);
	as(OTHER, GROUP, GROUP2, ways_in);
	as(OTHER, OTHER, OTHER, ways_in);
}

static void in_directory(void)
{
	struct stat st;
	const int fd = open("dir/new", O_CREAT | O_WRONLY, 0666);

	printf("create %s,", fd < 0 ? strerrorname_np(errno) : "yes");
	if (fd >= 0)
		close(fd);
	printf(" look %s,", stat("dir/there", &st) ? strerrorname_np(errno) : "yes");
	printf(" rename %s,", rename("dir/new", "dir/newer") ? strerrorname_np(errno) : "yes");
	printf(" link %s,", link("dir/newer", "dir/linked") ? strerrorname_np(errno) : "yes");
	printf(" unlink %s,", unlink("dir/newer") ? strerrorname_np(errno) : "yes");
	printf(" mkdir %s", mkdir("dir/sub", 0777) ? strerrorname_np(errno) : "yes");
	printf(" %s\n", access("dir", W_OK) ? strerrorname_np(errno) : "may write");
	unlink("dir/linked");
	rmdir("dir/sub");
}

static void others_change(void)
{
	set("file", ACCESS, "u:7 g:7 o:7");
	call("remove", removexattr("file", ACCESS));
	show("file");
	printf("now %s", utimensat(AT_FDCWD, "file", NULL, 0) ? strerrorname_np(errno) : "touched");
	printf(" cut %s\n", truncate("file", 1) ? strerrorname_np(errno) : "yes");
}

static void owner_changes(void)
{
	set("file", ACCESS, "u:6 U1002:6 g:4 m:6 o:0");
	show("file");
	call("chmod", chmod("file", 02750));
	show("file");
	set("file", ACCESS, "u:6 U1002:6 g:4 m:6 o:0");
	show("file");
	call("remove", removexattr("file", ACCESS));
	call("remove again", removexattr("file", ACCESS));
	show("file");
}

static void taken(void)
{
	static const char *const bad[] = {
		"u:7 g:7",         "g:7 u:7 o:7",         "u:7 U1001:7 g:7 o:7",
		"u:7 g:7 m:7",     "u:8 g:7 o:7",         "u:7 u:7 g:7 o:7",
		"u:7 g:7 o:7 o:7", "u:7 g:7 m:7 m:7 o:7", "u:7 G2000:7 g:7 m:7 o:7",
		"u:7 g:7 o:7 m:7", "u:7 g:7 G2000:5 o:7",
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		set("file", ACCESS, bad[i]);
	show("file");
	CHECK(parse("u:7 g:7 o:7") == 28);
	acl.version = 1;
	call("version 1", setxattr("file", ACCESS, &acl, 28, 0));
	acl.version = 2;
	call("part of an entry", setxattr("file", ACCESS, &acl, 27, 0));
	call("three bytes", setxattr("file", ACCESS, &acl, 3, 0));
	acl.e[0].tag = 0x40;
	call("no tag", setxattr("file", ACCESS, &acl, 28, 0));
	set("file", ACCESS, "u:6 g:4 o:0");
	show("file");
	set("file", ACCESS, "u:6 g:4 m:6 o:0");
	show("file");
	list("file");
	call("too small", getxattr("file", ACCESS, &acl, 8));
	printf("size %d\n", (int)getxattr("file", ACCESS, NULL, 0));
	call("only new ones",
	     setxattr("file", ACCESS, &acl, parse("u:7 g:5 m:1 o:0"), XATTR_CREATE));
	show("file");
	call("none", setxattr("file", ACCESS, &acl, 4, 0));
	show("file");
	call("replace none",
	     setxattr("file", ACCESS, &acl, parse("u:7 U5:1 g:5 m:1 o:0"), XATTR_REPLACE));
	call("empty", setxattr("file", ACCESS, "", 0, 0));
	show("file");
	set("file", DEFAULT, "u:7 g:7 o:7");
	call("no default", setxattr("file", DEFAULT, &acl, 4, 0));
	call("remove default", removexattr("file", DEFAULT));
	CHECK(symlink("file", "link") == 0);
	call("of a link", lsetxattr("link", ACCESS, &acl, parse("u:7 g:7 o:7"), 0));
	call("link's", lgetxattr("link", ACCESS, &acl, 8));
	call("through it", setxattr("link", ACCESS, &acl, parse("u:6 U7:4 g:4 m:4 o:4"), 0));
	show("file");
	call("chmod", chmod("file", 0421));
	show("file");
	call("remove", removexattr("file", ACCESS));
	show("file");
}

static void inherited(void)
{
	int fd;

	umask(077);
	CHECK(mkdir("heir", 02755) == 0 && chmod("heir", 02755) == 0);
	set("heir", DEFAULT, "u:7 U1001:7 g:5 G2000:7 m:7 o:5");
	show("heir");
	list("heir");
	fd = open("heir/file", O_CREAT | O_WRONLY, 0664);
	CHECK(fd >= 0 && close(fd) == 0);
	CHECK(mkdir("heir/dir", 0777) == 0 && mkdir("heir/dir/deep", 0700) == 0);
	CHECK(mkfifo("heir/fifo", 0622) == 0 && symlink("x", "heir/link") == 0);
	fd = open("heir", O_TMPFILE | O_RDWR, 0606);
	if (fd >= 0) {
		char at[64];

		snprintf(at, sizeof(at), "/proc/self/fd/%d", fd);
		CHECK(linkat(AT_FDCWD, at, AT_FDCWD, "heir/late", AT_SYMLINK_FOLLOW) == 0);
		CHECK(close(fd) == 0);
		show("heir/late");
	}
	show("heir/file");
	show("heir/dir");
	show("heir/dir/deep");
	show("heir/fifo");
	list("heir/link");
	/* One that says no more than a mode: files get the mode, whatever the umask. */
	set("heir", DEFAULT, "u:7 g:5 o:1");
	fd = open("heir/plain", O_CREAT | O_WRONLY, 0666);
	CHECK(fd >= 0 && close(fd) == 0 && mkdir("heir/plain.d", 0777) == 0);
	show("heir/plain");
	show("heir/plain.d");
	call("remove", removexattr("heir", DEFAULT));
	call("remove again", removexattr("heir", DEFAULT));
	fd = open("heir/masked", O_CREAT | O_WRONLY, 0666);
	CHECK(fd >= 0 && close(fd) == 0);
	show("heir/masked");
	umask(022);
}

static void directories(void)
{
	int fd;

	CHECK(mkdir("dir", 0700) == 0 && chown("dir", OWNER, GROUP) == 0);
	fd = open("dir/there", O_CREAT | O_WRONLY, 0644);
	CHECK(fd >= 0 && close(fd) == 0);
	set("dir", ACCESS, "u:7 U1001:7 g:0 m:7 o:0");
	as(OWNER, OWNER, OWNER, in_directory);
	as(NAMED, NAMED, NAMED, in_directory);
	as(OTHER, GROUP, OTHER, in_directory);
	set("dir", ACCESS, "u:7 U1001:7 g:5 m:1 o:0");
	as(NAMED, NAMED, NAMED, in_directory);
	as(OTHER, GROUP, OTHER, in_directory);
	/* With no bits for the group's class the list is not asked. */
	set("dir", ACCESS, "u:7 U1001:7 g:7 m:0 o:7");
	as(NAMED, NAMED, NAMED, in_directory);
	as(OTHER, OTHER, OTHER, in_directory);
}

int main(int argc, char **argv)
{
	static const char *const made[] = { "dir/there", "dir",          "file",
					    "link",      "heir/file",    "heir/fifo",
					    "heir/link", "heir/plain",   "heir/dir/deep",
					    "heir/dir",  "heir/plain.d", "heir/masked" };
	char dir[100];
	int fd;

	snprintf(dir, sizeof(dir), "%s/aclsXXXXXX", argc > 1 ? argv[1] : "/dev/shm");
	umask(022);
	CHECK(mkdtemp(dir) && chmod(dir, 0777) == 0 && chdir(dir) == 0);
	fd = open("file", O_CREAT | O_WRONLY, 0644);
	CHECK(fd >= 0 && write(fd, "text", 4) == 4 && close(fd) == 0);
	show("file");
	taken();
	CHECK(chown("file", OWNER, GROUP) == 0);
	who_may("u:4 U1001:6 g:4 m:7 o:0");
	who_may("u:6 U1001:6 g:4 m:4 o:2");
	who_may("u:0 U1001:0 g:4 G2001:2 m:7 o:7");
	who_may("u:7 U1001:1 g:1 G2001:6 m:5 o:4");
	who_may("u:6 U1001:7 g:7 m:0 o:4");
	as(NAMED, NAMED, NAMED, others_change);
	who_may("u:6 U1001:6 g:0 m:6 o:0");
	as(NAMED, NAMED, NAMED, others_change);
	as(OWNER, GROUP, OWNER, owner_changes);
	CHECK(chmod("file", 02770) == 0);
	as(OWNER, OWNER, OWNER, owner_changes);
	directories();
	inherited();
	for (size_t i = 0; i < sizeof(made) / sizeof(made[0]); i++)
		CHECK(remove(made[i]) == 0);
	remove("heir/late");
	CHECK(rmdir("heir") == 0 && chdir("/") == 0 && rmdir(dir) == 0);
	return 0;
}
