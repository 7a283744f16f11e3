// SPDX-License-Identifier: MIT
/*
 * Namespaces: their files in /proc, how tasks get and enter them, and the names of the system.
 *
 * namespaces DIR: makes directory DIR, and mounts in it in a namespace of mounts of its own.
 */
#include "user.h"

#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>

#define NOBODY           65534
#define NS_GET_USERNS    0xb701
#define NS_GET_PARENT    0xb702
#define NS_GET_NSTYPE    0xb703
#define NS_GET_OWNER_UID 0xb704

static const char *base;

/* --- what a namespace is ---------------------------------------------------------------- */

static ino_t ino_at(const char *path)
{
	struct stat st = { 0 };

	return stat(path, &st) ? 0 : st.st_ino;
}

static ino_t ino_of(int fd)
{
	struct stat st = { 0 };

	return fstat(fd, &st) ? 0 : st.st_ino;
}

static void show_kind(int fd)
{
	char path[64], text[64] = "";

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	T(readlink(path, text, sizeof(text) - 1) > 0);
	if (strchr(text, ':'))
		*strchr(text, ':') = '\0';
	printf("kind %s\n", text);
}

static void one_file(const char *name)
{
	char path[64], text[64] = "", buf[8];
	unsigned long nr = 0;
	uid_t uid = 99;
	struct stat st, fst;
	struct statfs fs;
	int fd, other;

	printf("--- %s\n", name);
	snprintf(path, sizeof(path), "/proc/self/ns/%s", name);
	T(readlink(path, text, sizeof(text) - 1) > 0);
	printf("%.*s\n", (int)strcspn(text, "["), text);
	CHECK(sscanf(strchr(text, '['), "[%lu]", &nr) == 1);
	CHECK(lstat(path, &st) == 0);
	printf("link %o\n", st.st_mode);
	fd = open(path, O_RDONLY);
	CHECK(fd >= 0 && stat(path, &st) == 0 && fstat(fd, &fst) == 0 && fstatfs(fd, &fs) == 0);
	printf("mode %o, nlink %ld, uid %d, size %ld\n", st.st_mode, (long)st.st_nlink, st.st_uid,
	       (long)st.st_size);
	printf("same %d %d %d\n", st.st_ino == nr, fst.st_ino == nr, fst.st_dev == st.st_dev);
	printf("type %lx\n", (long)fs.f_type);
	show_kind(fd);
	T(read(fd, buf, sizeof(buf)));
	T(open(path, O_RDWR));
	T(chmod(path, 0600));
	T(ioctl(fd, NS_GET_NSTYPE));
	T(ioctl(fd, NS_GET_PARENT));
	T(ioctl(fd, NS_GET_OWNER_UID, &uid));
	printf("uid %d\n", uid);
	T(ioctl(fd, NS_GET_OWNER_UID, 8));
	T(ioctl(fd, 0xb7ff));
	other = ioctl(fd, NS_GET_USERNS);
	printf("userns %s\n", other < 0 ? strerror(errno) : "given");
	if (other >= 0) {
		printf("that of the task %d\n", ino_of(other) == ino_at("/proc/self/ns/user"));
		T(fcntl(other, F_GETFD));
		close(other);
	}
	close(fd);
}

static void files(void)
{
	DIR *d = opendir("/proc/self/ns");
	char *names[32];
	struct dirent *e;
	int n = 0;

	CHECK(d);
	while ((e = readdir(d))) {
		if (e->d_name[0] != '.' && strncmp(e->d_name, "time", 4))
			names[n++] = strdup(e->d_name);
	}
	closedir(d);
	for (int i = 0; i < n; i++) {
		int least = i;

		for (int j = i + 1; j < n; j++)
			least = strcmp(names[j], names[least]) < 0 ? j : least;
		one_file(names[least]);
		names[least] = names[i];
	}
	T(open("/proc/self/ns/none", O_RDONLY));
	T(mkdir("/proc/self/ns/none", 0755));
}

/* --- children ------------------------------------------------------------------------------ */

/* @fn in a child; its output comes where the child has it. */
static void in_child(void (*fn)(void))
{
	int status;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (!pid) {
		fn();
		fflush(stdout);
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid);
	if (status)
		printf("child: %x\n", status);
}

static char host[65]; /* as it was at first */

static void show_names(void)
{
	struct utsname u;

	CHECK(uname(&u) == 0);
	printf("names %s %s\n", strcmp(u.nodename, host) ? u.nodename : "as before",
	       strcmp(u.domainname, "(none)") ? u.domainname : "none");
}

static void show_file(const char *path)
{
	char buf[128] = "";
	const int fd = open(path, O_RDONLY);

	CHECK(fd >= 0 && read(fd, buf, sizeof(buf) - 1) > 0);
	printf("%s: %s", path, buf);
	close(fd);
}

static void put_file(const char *path, const char *text)
{
	const int fd = open(path, O_WRONLY);

	printf("write %d\n", write(fd, text, strlen(text)) == (ssize_t)strlen(text));
	close(fd);
}

static void names(void)
{
	const ino_t old = ino_at("/proc/self/ns/uts");
	char long_name[128];

	T(unshare(CLONE_NEWUTS));
	printf("another one %d\n", ino_at("/proc/self/ns/uts") != old);
	printf("not the parent's %d\n", ino_at("/proc/self/ns/ipc") != 0);
	show_names();
	T(sethostname("first.example", 13));
	T(setdomainname("domain", 6));
	show_names();
	show_file("/proc/sys/kernel/hostname");
	show_file("/proc/sys/kernel/domainname");
	put_file("/proc/sys/kernel/hostname", "second\nmore");
	put_file("/proc/sys/kernel/domainname", "other");
	show_names();
	memset(long_name, 'x', sizeof(long_name));
	long_name[100] = '\0';
	put_file("/proc/sys/kernel/hostname", long_name);
	show_names();
	T(sethostname(long_name, 64));
	T(sethostname(long_name, 65));
	T(syscall(SYS_sethostname, long_name, -1));
	T(syscall(SYS_sethostname, 8, 4));
	T(sethostname("a\0b", 3));
	show_names();
	T(sethostname("", 0));
	show_names();
	T(setdomainname(long_name, 65));
	T(setuid(NOBODY));
	T(sethostname("no", 2));
	T(setdomainname("no", 2));
	T(unshare(CLONE_NEWUTS));
	T(unshare(CLONE_NEWCGROUP));
	T(setns(open("/proc/self/ns/uts", O_RDONLY), 0));
}

/* --- entering ------------------------------------------------------------------------------- */

static int first; /* the namespace of names that we began in */

/* A child that waits, in a namespace of its own, with a name, until it is killed or we end. */
static pid_t named_child(const char *name)
{
	int ready[2], alive[2];
	char c;
	pid_t pid;

	CHECK(pipe(ready) == 0 && pipe(alive) == 0);
	fflush(stdout);
	pid = fork();
	if (!pid) {
		close(alive[1]);
		CHECK(unshare(CLONE_NEWUTS | CLONE_NEWNS) == 0);
		CHECK(sethostname(name, strlen(name)) == 0);
		CHECK(write(ready[1], "x", 1) == 1);
		_exit(read(alive[0], &c, 1) != 0);
	}
	CHECK(read(ready[0], &c, 1) == 1);
	close(ready[0]);
	close(ready[1]);
	close(alive[0]);
	return pid;
}

static int ns_file(pid_t pid, const char *kind)
{
	char path[64];
	const int fd = (snprintf(path, sizeof(path), "/proc/%d/ns/%s", pid, kind),
			open(path, O_RDONLY | O_CLOEXEC));

	CHECK(fd >= 0);
	return fd;
}

static void entering(void)
{
	const pid_t pid = named_child("there");
	const int uts = ns_file(pid, "uts"), pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	int ends[2], path;

	first = open("/proc/self/ns/uts", O_RDONLY);
	T(setns(uts, CLONE_NEWNET));
	T(setns(uts, CLONE_NEWUTS | CLONE_NEWIPC));
	T(setns(uts, CLONE_NEWUTS));
	show_names();
	printf("in it %d\n", ino_at("/proc/self/ns/uts") == ino_of(uts));
	T(setns(first, 0));
	show_names();
	T(setns(pidfd, 0));
	T(setns(pidfd, 0x80000000));
	T(setns(pidfd, CLONE_NEWUTS | CLONE_FS));
	T(setns(pidfd, CLONE_NEWUTS));
	show_names();
	T(setns(first, CLONE_NEWUTS));
	T(setns(pidfd, CLONE_NEWUSER | CLONE_NEWUTS));
	show_names();
	T(setns(open("/proc/self/ns/user", O_RDONLY), 0));
	T(setns(open("/proc/self/ns/pid", O_RDONLY), 0));
	T(setns(open("/proc/self/ns/net", O_RDONLY), 0));
	T(setns(open("/proc/self/ns/ipc", O_RDONLY), 0));
	T(setns(open("/proc/self/ns/cgroup", O_RDONLY), CLONE_NEWCGROUP));
	T(setns(-1, 0));
	CHECK(pipe(ends) == 0);
	T(setns(ends[0], CLONE_NEWUTS));
	path = open("/proc/self/ns/uts", O_PATH);
	T(setns(path, 0));
	T(setns(open("/proc/self/exe", O_RDONLY), 0));
	/* The namespace outlives its tasks as long as somebody has it open. */
	CHECK(kill(pid, SIGKILL) == 0 && waitpid(pid, NULL, 0) == pid);
	T(setns(pidfd, CLONE_NEWUTS));
	T(setns(uts, 0));
	show_names();
	T(setns(first, 0));
}

static int share_fs(void *arg)
{
	const int fd = *(int *)arg;

	T(setns(fd, CLONE_NEWNS));
	fflush(stdout);
	return 0;
}

static void entering_mounts(void)
{
	const pid_t pid = named_child("mounts");
	const int mnt = ns_file(pid, "mnt"), pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	static char stack[16384];
	char cwd[256], path[512];
	int fd = mnt, status, in_it;
	pid_t child;

	fflush(stdout);
	child = clone(share_fs, stack + sizeof(stack), CLONE_FS | SIGCHLD, &fd);
	CHECK(child > 0 && waitpid(child, &status, 0) == child);
	T(chdir("/proc"));
	T(setns(mnt, 0));
	T(getcwd(cwd, sizeof(cwd)) != NULL);
	printf("in %s, its own %d\n", cwd, ino_at("/proc/self/ns/mnt") == ino_of(mnt));
	/* A mount made here is seen in there. */
	CHECK(mkdir(base, 0755) == 0);
	CHECK(mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0);
	T(mount("t", base, "tmpfs", 0, NULL));
	snprintf(path, sizeof(path), "/proc/%d/root%s/f", pid, base);
	in_it = open(path, O_CREAT | O_RDWR, 0600);
	printf("seen %d\n", in_it >= 0);
	close(in_it);
	snprintf(path, sizeof(path), "%s/f", base);
	T(access(path, F_OK));
	T(setns(pidfd, CLONE_NEWNS | CLONE_NEWUTS));
	show_names();
	T(umount2(base, 0));
	T(rmdir(base));
	CHECK(kill(pid, SIGKILL) == 0 && waitpid(pid, NULL, 0) == pid);
}

/* --- mounted -------------------------------------------------------------------------------- */

static void show_lines(const char *path)
{
	FILE *f = fopen(path, "r");
	char line[8192], root[512], at[2048], options[512], type[64], source[512], super[512];

	while (f && fgets(line, sizeof(line), f)) {
		char *tail = strstr(line, " - ");

		if (!tail ||
		    sscanf(line, "%*d %*d %*s %511s %2047s %511s", root, at, options) != 3 ||
		    sscanf(tail, " - %63s %511s %511s", type, source, super) != 3 ||
		    strncmp(at, base, strlen(base)))
			continue;
		printf("mount %.*s %s %s %s %s %s\n", (int)strcspn(root, "["), root,
		       at + strlen(base), options, type, source, super);
	}
	if (f)
		fclose(f);
}

static void show_mounts(void)
{
	show_lines("/proc/self/mountinfo");
}

static void mounted(void)
{
	const pid_t older = named_child("older");
	char path[64];
	struct stat st;
	pid_t younger;
	int fd;

	CHECK(unshare(CLONE_NEWNS | CLONE_NEWUTS) == 0);
	CHECK(mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0);
	CHECK(mkdir(base, 0755) == 0 && mount("t", base, "tmpfs", 0, NULL) == 0 &&
	      chdir(base) == 0);
	CHECK(make_file("f", "") == 0 && make_file("g", "") == 0 && mkdir("d", 0755) == 0);
	CHECK(sethostname("kept", 4) == 0);
	T(mount("/proc/self/ns/uts", "d", NULL, MS_BIND, NULL));
	T(mount("/proc/self/ns/uts", "f", NULL, MS_BIND, NULL));
	show_mounts();
	CHECK(stat("f", &st) == 0);
	printf("it is there %d\n", st.st_ino == ino_at("/proc/self/ns/uts"));
	T(unshare(CLONE_NEWUTS));
	CHECK(sethostname("left", 4) == 0);
	fd = open("f", O_RDONLY);
	T(setns(fd, CLONE_NEWUTS));
	show_names();
	T(close(fd));
	T(mount("f", "g", NULL, MS_BIND, NULL));
	show_mounts();
	T(umount2("f", 0));
	fd = open("g", O_RDONLY);
	T(setns(fd, 0));
	T(close(fd));
	/* Namespaces of mounts that are mounted in each other would keep each other. */
	T(mount("/proc/self/ns/mnt", "f", NULL, MS_BIND, NULL));
	snprintf(path, sizeof(path), "/proc/%d/ns/mnt", older);
	T(mount(path, "f", NULL, MS_BIND, NULL));
	younger = named_child("younger");
	snprintf(path, sizeof(path), "/proc/%d/ns/mnt", younger);
	T(mount(path, "f", NULL, MS_BIND, NULL));
	show_mounts();
	CHECK(kill(younger, SIGKILL) == 0 && waitpid(younger, NULL, 0) == younger);
	younger = named_child("the copy");
	snprintf(path, sizeof(path), "/proc/%d/mountinfo", younger);
	show_lines(path);
	CHECK(kill(younger, SIGKILL) == 0 && waitpid(younger, NULL, 0) == younger);
	T(umount2("f", 0));
	T(umount2("g", 0));
	show_mounts();
	CHECK(chdir("/") == 0);
	T(umount2(base, MNT_DETACH));
	T(rmdir(base));
	CHECK(kill(older, SIGKILL) == 0 && waitpid(older, NULL, 0) == older);
}

#define CHAIN 200

/*
 * Namespaces that each have the next one mounted in them, and so go one after the other, when the
 * first one does.
 */
static void chain(void)
{
	const char *at = "/tmp/namespaces.chain";
	int start, old, next;
	char path[64];

	CHECK(unshare(CLONE_NEWNS) == 0 &&
	      mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0);
	CHECK(close(open(at, O_CREAT | O_WRONLY, 0600)) == 0);
	start = old = open("/proc/self/ns/mnt", O_RDONLY);
	for (int i = 0; i < CHAIN; i++) {
		CHECK(unshare(CLONE_NEWNS) == 0);
		next = open("/proc/self/ns/mnt", O_RDONLY);
		CHECK(next >= 0 && setns(old, CLONE_NEWNS) == 0);
		snprintf(path, sizeof(path), "/proc/self/fd/%d", next);
		CHECK(mount(path, at, NULL, MS_BIND, NULL) == 0);
		CHECK(setns(next, CLONE_NEWNS) == 0);
		if (old != start)
			close(old);
		old = next;
	}
	CHECK(setns(start, CLONE_NEWNS) == 0 && close(old) == 0 && close(start) == 0);
}

/* --- threads and clone ---------------------------------------------------------------------- */

static void *leave(void *arg)
{
	ino_t *ino = arg;

	CHECK(unshare(CLONE_NEWUTS) == 0);
	CHECK(sethostname("thread", 6) == 0);
	show_names();
	*ino = ino_at("/proc/thread-self/ns/uts");
	return NULL;
}

static void threads(void)
{
	const ino_t old = ino_at("/proc/self/ns/uts");
	pthread_t thread;
	ino_t ino;

	CHECK(!pthread_create(&thread, NULL, leave, &ino) && !pthread_join(thread, NULL));
	show_names();
	printf("one thread's %d, ours %d\n", ino != old, ino_at("/proc/self/ns/uts") == old);
}

static int cloned(void *arg)
{
	(void)arg;
	T(sethostname("cloned", 6));
	show_names();
	printf("another one %d\n", ino_at("/proc/self/ns/uts") != ino_of(first));
	fflush(stdout);
	return 0;
}

static void clones(void)
{
	static char stack[65536];
	const ino_t cgroup = ino_at("/proc/self/ns/cgroup");
	int status;
	pid_t pid;

	first = open("/proc/self/ns/uts", O_RDONLY);
	fflush(stdout);
	pid = clone(cloned, stack + sizeof(stack), CLONE_NEWUTS | SIGCHLD, NULL);
	CHECK(pid > 0 && waitpid(pid, &status, 0) == pid && !status);
	pid = clone(cloned, stack + sizeof(stack), CLONE_NEWUTS | CLONE_VM | CLONE_VFORK | SIGCHLD,
		    NULL);
	CHECK(pid > 0 && waitpid(pid, &status, 0) == pid && !status);
	show_names();
	T(unshare(CLONE_NEWCGROUP));
	printf("another one %d\n", ino_at("/proc/self/ns/cgroup") != cgroup);
	T(unshare(0));
	T(unshare(CLONE_FILES | CLONE_FS | CLONE_SYSVSEM));
	T(unshare(CLONE_VM | CLONE_SIGHAND | CLONE_THREAD));
	T(unshare(CLONE_PARENT));
	T(unshare(CLONE_VFORK | CLONE_NEWUTS));
}

/* A zombie has left its namespaces. */
static void zombie(void)
{
	char path[64], text[64];
	siginfo_t info;
	const pid_t pid = fork();

	if (!pid)
		_exit(0);
	CHECK(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT) == 0);
	snprintf(path, sizeof(path), "/proc/%d/ns/uts", pid);
	T(readlink(path, text, sizeof(text)));
	T(open(path, O_RDONLY));
	CHECK(waitpid(pid, NULL, 0) == pid);
}

static void stranger(void)
{
	const pid_t pid = named_child("root's");
	char path[64], text[64];

	snprintf(path, sizeof(path), "/proc/%d/ns/uts", pid);
	T(setgid(NOBODY));
	T(setuid(NOBODY));
	T(readlink(path, text, sizeof(text)));
	T(open(path, O_RDONLY));
	T(readlink("/proc/self/ns/uts", text, sizeof(text)) > 0);
	T(setns((int)syscall(SYS_pidfd_open, pid, 0), CLONE_NEWUTS));
}

/* Linux numbers namespaces by CPU, so that those made on another one may seem the older ones. */
static void stay_here(void)
{
	const unsigned int cpu = (unsigned int)sched_getcpu();
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	CHECK(sched_setaffinity(0, sizeof(set), &set) == 0);
}

int main(int argc, char **argv)
{
	stay_here();
	base = argc > 1 ? argv[1] : "/tmp/namespaces";
	CHECK(gethostname(host, sizeof(host)) == 0);
	in_child(files);
	in_child(names);
	show_names();
	in_child(entering);
	in_child(entering_mounts);
	in_child(mounted);
	in_child(chain);
	T(unlink("/tmp/namespaces.chain"));
	in_child(threads);
	in_child(clones);
	in_child(zombie);
	in_child(stranger);
	show_names();
	return 0;
}
