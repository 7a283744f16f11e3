// SPDX-License-Identifier: MIT
/*
 * Mounts in user namespaces: what a user may mount there, and that what more privileged ones have
 * mounted stays as it is. usermounts: as root.
 */
#include "user.h"

#include <grp.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>

#define USER 1000
#define TOP  "/tmp/usermounts"

static void put(const char *name, const char *text)
{
	int fd = open(name, O_WRONLY);

	CHECK(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
	close(fd);
}

static void enter_own(int more)
{
	CHECK(!setgroups(0, NULL) && !setgid(USER) && !setuid(USER));
	CHECK(!prctl(PR_SET_DUMPABLE, 1));
	CHECK(!unshare(CLONE_NEWUSER | CLONE_NEWNS | more));
	put("/proc/self/setgroups", "deny");
	put("/proc/self/uid_map", "0 1000 1");
	put("/proc/self/gid_map", "0 1000 1");
}

static void in_child(const char *name, int (*fn)(void))
{
	int status;
	pid_t pid;

	printf("--- %s\n", name);
	fflush(stdout);
	pid = fork();
	if (!pid) {
		const int ret = fn();

		fflush(stdout);
		_exit(ret);
	}
	CHECK(waitpid(pid, &status, 0) == pid);
	if (status)
		printf("child: %x\n", status);
}

static const char *text_of(const char *path)
{
	static char buf[32];
	int fd = open(path, O_RDONLY);
	ssize_t n = fd < 0 ? -1 : read(fd, buf, sizeof(buf) - 1);

	if (fd >= 0)
		close(fd);
	if (n < 0)
		return strerror(errno);
	buf[n] = '\0';
	return buf;
}

/* Does the table have a line for @at? With which flags? */
static void show_mount(const char *at)
{
	char line[1024], where[512], flags[256];
	FILE *f = fopen("/proc/self/mountinfo", "r");

	CHECK(f);
	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%*s %*s %*s %*s %511s %255s", where, flags) == 2 &&
		    !strcmp(where, at))
			printf("%s: %s%s%s%s\n", at, strncmp(flags, "ro", 2) ? "rw" : "ro",
			       strstr(flags, "nosuid") ? " nosuid" : "",
			       strstr(flags, "nodev") ? " nodev" : "",
			       strstr(flags, "noexec") ? " noexec" : "");
	}
	fclose(f);
}

static int new_ones(void)
{
	struct stat st;

	enter_own(0);
	T(mount("none", TOP "/free", "tmpfs", 0, "mode=755"));
	CHECK(!stat(TOP "/free", &st));
	printf("owner %d:%d\n", st.st_uid, st.st_gid);
	T(mknod(TOP "/free/null", S_IFCHR | 0666, makedev(1, 3)));
	T(mkdir(TOP "/free/sub", 0755));
	T(mount("none", TOP "/free/sub", "tmpfs", MS_NOEXEC, "uid=0,gid=0"));
	T(mount("none", TOP "/free/sub", "tmpfs", 0, "uid=5"));
	T(mount("/dev/vda", TOP "/free/sub", "ext4", 0, NULL));
	T(mount("none", TOP "/free/sub", "devtmpfs", 0, NULL));
	T(mount("none", TOP "/free/sub", "proc", 0, NULL));
	T(mount("none", TOP "/free/sub", "sysfs", 0, NULL));
	T(mount(TOP "/free", TOP "/free/sub", NULL, MS_BIND, NULL));
	T(mount("none", TOP "/free/sub", NULL, MS_BIND | MS_REMOUNT | MS_RDONLY, NULL));
	T(mount("none", TOP "/free/sub", NULL, MS_BIND | MS_REMOUNT, NULL));
	T(mount("none", TOP "/free/sub", NULL, MS_REMOUNT | MS_RDONLY, NULL));
	T(umount(TOP "/free/sub"));
	T(umount(TOP "/free/sub"));
	T(umount(TOP "/free"));
	T(umount2(TOP "/free", MNT_FORCE));
	T(umount(TOP "/free"));
	return 0;
}

static int old_ones(void)
{
	enter_own(0);
	printf("covered: %s\n", text_of(TOP "/covered/file"));
	T(umount(TOP "/covered"));
	T(umount2(TOP "/covered", MNT_DETACH));
	T(mount(TOP "/covered", TOP "/free", NULL, MS_MOVE, NULL));
	T(mount(TOP, TOP "/free", NULL, MS_BIND, NULL));
	T(mount(TOP "/covered", TOP "/free", NULL, MS_BIND, NULL));
	T(umount(TOP "/free"));
	T(mount("none", TOP, NULL, MS_REMOUNT, NULL));
	T(mount("none", TOP, NULL, MS_REMOUNT | MS_RDONLY, NULL));
	show_mount(TOP "/fixed");
	T(mount("none", TOP "/fixed", NULL, MS_BIND | MS_REMOUNT, NULL));
	T(mount("none", TOP "/fixed", NULL, MS_BIND | MS_REMOUNT | MS_RDONLY, NULL));
	T(mount("none", TOP "/fixed", NULL, MS_BIND | MS_REMOUNT | MS_RDONLY | MS_NOSUID | MS_NODEV,
		NULL));
	T(mount("none", TOP "/fixed", NULL,
		MS_BIND | MS_REMOUNT | MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL));
	T(mount(TOP "/fixed", TOP "/free", NULL, MS_BIND, NULL));
	T(mount("none", TOP "/free", NULL, MS_BIND | MS_REMOUNT, NULL));
	show_mount(TOP "/free");
	T(umount(TOP "/free"));
	return 0;
}

/* A copy of the tree is a unit, too, whose top alone can go. */
static int copies(void)
{
	int fd;

	enter_own(0);
	T(mount(TOP, TOP "/free", NULL, MS_BIND | MS_REC, NULL));
	printf("copy: %s\n", text_of(TOP "/free/covered/file"));
	T(umount(TOP "/free/covered"));
	T(umount2(TOP "/free/covered", MNT_DETACH));
	T(mount(TOP "/free", TOP "/other", NULL, MS_BIND, NULL));
	fd = open(TOP "/free", O_RDONLY | O_DIRECTORY);
	CHECK(fd >= 0);
	T(umount(TOP "/free"));
	T(umount2(TOP "/free", MNT_DETACH));
	T(fchdir(fd));
	printf("detached: %s\n", text_of("covered/file"));
	T(chdir("covered"));
	printf("in it: %s\n", text_of("file"));
	return 0;
}

static int pivots(void)
{
	enter_own(0);
	CHECK(!mount("none", TOP "/free", "tmpfs", 0, NULL) && !chdir(TOP "/free"));
	T(syscall(SYS_pivot_root, TOP "/covered", TOP "/covered"));
	T(mkdir("old", 0755));
	T(syscall(SYS_pivot_root, ".", "old"));
	T(chdir("/old" TOP));
	T(umount("/old" TOP "/covered"));
	T(umount2("/old" TOP "/covered", MNT_DETACH));
	T(umount2("/old", MNT_DETACH));
	printf("detached: %s\n", text_of("covered/file"));
	T(unshare(CLONE_NEWUSER));
	return 0;
}

/* The namespace ends while a directory of it is open elsewhere. */
static int ends(void)
{
	int sv[2], fd, status;
	char control[CMSG_SPACE(sizeof(int))] = { 0 }, c = 0;
	struct iovec iov = { &c, 1 };
	struct msghdr h = { .msg_iov = &iov,
			    .msg_iovlen = 1,
			    .msg_control = control,
			    .msg_controllen = sizeof(control) };
	struct cmsghdr *m = CMSG_FIRSTHDR(&h);
	pid_t pid;

	enter_own(0);
	CHECK(!socketpair(AF_UNIX, SOCK_DGRAM, 0, sv));
	fflush(stdout);
	pid = fork();
	if (!pid) {
		CHECK(!unshare(CLONE_NEWNS));
		fd = open(TOP, O_RDONLY | O_DIRECTORY);
		m->cmsg_level = SOL_SOCKET;
		m->cmsg_type = SCM_RIGHTS;
		m->cmsg_len = CMSG_LEN(sizeof(fd));
		memcpy(CMSG_DATA(m), &fd, sizeof(fd));
		CHECK(sendmsg(sv[1], &h, 0) == 1);
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid && !status);
	CHECK(recvmsg(sv[0], &h, 0) == 1);
	memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&h)), sizeof(fd));
	T(fchdir(fd));
	printf("of the end: %s\n", text_of("covered/file"));
	return 0;
}

static int procs(void)
{
	int status;
	pid_t pid;

	enter_own(CLONE_NEWPID);
	fflush(stdout);
	pid = fork();
	if (!pid) {
		char link[32] = "";

		T(mount("none", TOP "/free", "proc", 0, NULL));
		T(readlink(TOP "/free/self", link, sizeof(link)));
		T(umount(TOP "/free"));
		/* Not beside one that does not show everything. */
		T(mount("none", "/proc/sys", "tmpfs", 0, NULL));
		T(mount("none", TOP "/free", "proc", 0, NULL));
		fflush(stdout);
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid);
	printf("status %x\n", status);
	return 0;
}

static int hidden_procs(void)
{
	int status;
	pid_t pid;

	CHECK(!mount("none", "/proc/sys", "tmpfs", 0, NULL));
	enter_own(CLONE_NEWPID);
	fflush(stdout);
	pid = fork();
	if (!pid) {
		T(mount("none", TOP "/free", "proc", 0, NULL));
		fflush(stdout);
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid);
	return status;
}

/* A device that is there can be used; one on a file system of the user's could not. */
static int devices(void)
{
	enter_own(0);
	CHECK(!mount("none", TOP "/free", "tmpfs", 0, NULL));
	CHECK(!make_file(TOP "/free/null", ""));
	T(mount("/dev/null", TOP "/free/null", NULL, MS_BIND, NULL));
	T(open(TOP "/free/null", O_RDWR) >= 0);
	return 0;
}

/* A user's mounts do not keep others from their files. */
static int in_the_way(void)
{
	int ready[2], go[2], status;
	char c;
	pid_t pid;

	CHECK(!pipe(ready) && !pipe(go) && !mkdir(TOP "/spare", 0755));
	fflush(stdout);
	pid = fork();
	if (!pid) {
		enter_own(0);
		T(mount("none", TOP "/spare", "tmpfs", 0, NULL));
		fflush(stdout);
		CHECK(write(ready[1], "", 1) == 1 && read(go[0], &c, 1) == 1);
		_exit(0);
	}
	CHECK(read(ready[0], &c, 1) == 1);
	T(rename(TOP "/spare", TOP "/saved"));
	T(rmdir(TOP "/saved"));
	CHECK(write(go[1], "", 1) == 1);
	CHECK(waitpid(pid, &status, 0) == pid);
	return status;
}

int main(void)
{
	umask(022);
	CHECK(!unshare(CLONE_NEWNS) && !mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL));
	CHECK(!mkdir(TOP, 0755) && !mount("none", TOP, "tmpfs", 0, "mode=755"));
	CHECK(!mkdir(TOP "/covered", 0755) && !mkdir(TOP "/free", 0755));
	CHECK(!mkdir(TOP "/other", 0755) && !mkdir(TOP "/fixed", 0755));
	CHECK(!make_file(TOP "/covered/file", "what is covered"));
	CHECK(!mount("none", TOP "/covered", "tmpfs", 0, "mode=755"));
	CHECK(!make_file(TOP "/covered/file", "what covers it"));
	CHECK(!mount("none", TOP "/fixed", "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL));
	CHECK(!mount("none", TOP "/fixed", NULL,
		     MS_BIND | MS_REMOUNT | MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL));
#define RUN(fn) in_child(#fn, fn)
	RUN(new_ones);
	RUN(old_ones);
	RUN(copies);
	RUN(pivots);
	RUN(ends);
	RUN(procs);
	RUN(hidden_procs);
	CHECK(!umount("/proc/sys"));
	RUN(devices);
	RUN(in_the_way);
	CHECK(!umount2(TOP, MNT_DETACH) && !rmdir(TOP));
	return 0;
}
