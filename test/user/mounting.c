// SPDX-License-Identifier: MIT
/*
 * mount and umount2: what is seen where, what a read-only mount refuses, what keeps a mount.
 *
 * mounting DIR: in directory DIR, which it makes; paths are printed without it. It prints the same
 * on Linux, in a mount namespace of its own with private mounts.
 */
#include "user.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <sys/xattr.h>

#define NOBODY 65534
#define RACES  100

static const char *base;

static void show_file(const char *path)
{
	char buf[64] = "";
	const int fd = open(path, O_RDONLY);
	const ssize_t len = fd < 0 ? 0 : read(fd, buf, sizeof(buf) - 1);

	printf("%s: %.*s\n", path, (int)len, fd < 0 ? "" : buf);
	if (fd >= 0)
		close(fd);
}

static void show_dir(const char *path)
{
	struct dirent **names;
	const int n = scandir(path, &names, NULL, alphasort);

	printf("%s:", path);
	for (int i = 0; i < n; i++) {
		if (names[i]->d_name[0] != '.')
			printf(" %s", names[i]->d_name);
		free(names[i]);
	}
	puts("");
	if (n >= 0)
		free(names);
}

static void show_cwd(void)
{
	char buf[4096];

	if (!getcwd(buf, sizeof(buf)))
		printf("cwd: %s\n", strerror(errno));
	else
		printf("cwd: %s\n", strncmp(buf, base, strlen(base)) ? buf : buf + strlen(base));
}

/* The lines of mountinfo that are below the directory, without numbers. */
static void show_mounts(void)
{
	FILE *f = fopen("/proc/self/mountinfo", "r");
	char line[8192], root[512], at[2048], options[512], type[64], source[512], super[512];

	while (f && fgets(line, sizeof(line), f)) {
		char *tail = strstr(line, " - ");

		if (!tail ||
		    sscanf(line, "%*d %*d %*s %511s %2047s %511s", root, at, options) != 3 ||
		    sscanf(tail, " - %63s %511s %511s", type, source, super) != 3 ||
		    strncmp(at, base, strlen(base)))
			continue;
		super[2] = '\0'; /* rw or ro; the rest is the file system's */
		printf("mount %s %s %s %s %s %s\n", root, at + strlen(base), options, type, source,
		       super);
	}
	if (f)
		fclose(f);
}

static void show_flags(const char *path)
{
	struct statfs st;

	if (statfs(path, &st))
		printf("%s: %s\n", path, strerror(errno));
	else
		printf("%s: type %lx, flags %lx\n", path, (long)st.f_type,
		       (long)st.f_flags & (ST_RDONLY | ST_NOSUID | ST_NODEV | ST_NOEXEC |
					   ST_NOATIME | ST_NODIRATIME | ST_RELATIME));
}

/* --- what is where --------------------------------------------------------------------- */

static void seen_where_it_is(void)
{
	struct stat a, b, c;

	T(mkdir("m", 0755));
	T(make_file("m/under", "under"));
	T(stat("m", &a));
	T(mount("src", "m", "tmpfs", 0, "size=64k,mode=750"));
	T(stat("m", &b));
	T(stat("m/..", &c));
	printf("another device: %d, mode %o\n", a.st_dev != b.st_dev, b.st_mode & 07777);
	T(stat(".", &b));
	printf("the same directory above: %d\n", c.st_dev == b.st_dev && c.st_ino == b.st_ino);
	show_dir("m");
	T(make_file("m/f", "in it"));
	T(mkdir("m/d", 0755));
	show_file("m/d/../f");
	show_file("m/../m/./f");
	show_mounts();
	show_flags("m");
	T(chdir("m/d"));
	show_cwd();
	T(chdir("../.."));
	show_cwd();
	show_dir(".");
	T(rename("m/f", "f"));
	T(link("m/f", "f"));
	T(rmdir("m"));
	T(rename("m", "n"));
	T(mkdir("m", 0755));
	T(mount("again", "m", "tmpfs", MS_NOEXEC | MS_NODEV | MS_NOSUID | MS_NOATIME, NULL));
	show_flags("m");
	show_dir("m");
	show_mounts();
	T(umount2("m", 0));
	show_dir("m");
}

static void full(void)
{
	static char page[4096];
	const int fd = open("m/big", O_CREAT | O_RDWR, 0600);
	int n = 0;

	while (write(fd, page, sizeof(page)) == sizeof(page))
		n++;
	printf("%d pages, then %s\n", n, strerror(errno));
	close(fd);
	T(mount(NULL, "m", NULL, MS_REMOUNT, "size=8k"));
	T(mount(NULL, "m", NULL, MS_REMOUNT, "size=128k"));
	T(unlink("m/big"));
}

/* --- what keeps it --------------------------------------------------------------------- */

static void kept_by_use(void)
{
	int fd = open("m/f", O_RDONLY), dir;
	char buf[8] = "";

	T(umount2("m", 0));
	T(close(fd));
	dir = open("m", O_RDONLY | O_DIRECTORY);
	T(umount2("m", MNT_EXPIRE));
	T(close(dir));
	T(chdir("m/d"));
	T(umount2("../../m", 0));
	T(chdir("../.."));
	T(mkdir("m/d/inner", 0755));
	T(mount("inner", "m/d/inner", "tmpfs", 0, NULL));
	T(umount2("m", 0));
	T(umount2("m/d/inner", 0));
	T(umount2("m", MNT_EXPIRE));
	show_file("m/f");
	T(umount2("m", MNT_EXPIRE));
	T(umount2("m", MNT_EXPIRE));
	show_dir("m");
	T(umount2("m", 0));
	/* Out of the tree at once, there for who has it. */
	T(mount("lazy", "m", "tmpfs", 0, NULL));
	T(make_file("m/f", "lazy"));
	fd = open("m/f", O_RDWR);
	dir = open("m", O_RDONLY | O_DIRECTORY);
	T(umount2("m", MNT_DETACH));
	show_dir("m");
	T(read(fd, buf, sizeof(buf)));
	printf("%s\n", buf);
	T(openat(dir, "none", O_RDONLY));
	T(mkdirat(dir, "new", 0755));
	T(close(openat(dir, "f", O_RDONLY)));
	close(fd);
	close(dir);
}

/* --- read-only ------------------------------------------------------------------------- */

static void refuse_all(void)
{
	const struct timeval now[2] = { { 0 } };

	T(open("m/f", O_RDWR));
	T(open("m/f", O_RDONLY | O_TRUNC));
	T(open("m/new", O_CREAT | O_WRONLY, 0600));
	T(open("m/f", O_CREAT | O_EXCL | O_WRONLY, 0600));
	T(open("m", O_TMPFILE | O_RDWR, 0600));
	T(access("m/f", R_OK));
	T(access("m/f", W_OK));
	T(mkdir("m/new", 0755));
	T(mkdir("m/d", 0755));
	T(rmdir("m/d"));
	T(mknod("m/new", S_IFIFO | 0600, 0));
	T(symlink("f", "m/new"));
	T(link("m/f", "m/new"));
	T(unlink("m/f"));
	T(unlink("m/none"));
	T(rename("m/f", "m/new"));
	T(chmod("m/f", 0600));
	T(chown("m/f", 1, 1));
	T(utimes("m/f", now));
	T(truncate("m/f", 0));
	T(setxattr("m/f", "user.a", "b", 1, 0));
	show_file("m/f");
}

static void read_only(void)
{
	int fd;

	T(mount("ro", "m", "tmpfs", 0, NULL));
	T(make_file("m/f", "text"));
	T(mkdir("m/d", 0755));
	fd = open("m/f", O_WRONLY);
	T(mount(NULL, "m", NULL, MS_REMOUNT | MS_RDONLY, NULL));
	T(mount(NULL, "m", NULL, MS_REMOUNT | MS_BIND | MS_RDONLY, NULL));
	close(fd);
	fd = open("m/f", O_RDONLY);
	T(mount(NULL, "m", NULL, MS_REMOUNT | MS_RDONLY, NULL));
	show_mounts();
	show_flags("m");
	refuse_all();
	T(fchmod(fd, 0600));
	T(fchown(fd, 1, 1));
	T(futimes(fd, NULL));
	close(fd);
	T(mount(NULL, "m", NULL, MS_REMOUNT, NULL));
	T(chmod("m/f", 0640));
	/* Of this one mount. */
	T(mount(NULL, "m", NULL, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOEXEC, NULL));
	show_mounts();
	T(chmod("m/f", 0600));
	T(mkdir("m/new", 0755));
	T(mount(NULL, "m", NULL, MS_REMOUNT | MS_BIND, NULL));
	T(mkdir("m/new", 0755));
	T(umount2("m", 0));
	T(mount("ro", "m", "tmpfs", MS_RDONLY, NULL));
	T(mkdir("m/new", 0755));
	T(umount2("m", 0));
}

/* --- what else a mount forbids ----------------------------------------------------------- */

/* A page of @path that can be executed. */
static int map_code(const char *path)
{
	const int fd = open(path, O_RDONLY);
	void *p = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);

	close(fd);
	return p == MAP_FAILED ? -1 : munmap(p, 4096);
}

static void forbid(const char *self)
{
	char *const argv[] = { (char *)self, NULL };

	T(mount("forbid", "m", "tmpfs", MS_NOEXEC | MS_NODEV, NULL));
	T(mknod("m/null", S_IFCHR | 0666, 0x103));
	T(open("m/null", O_RDONLY));
	T(close(open("m/null", O_PATH)));
	T(make_file("m/self", "#!/bin/none\n"));
	T(chmod("m/self", 0755));
	T(access("m/self", X_OK));
	T(execv("m/self", argv));
	T(map_code("m/self"));
	T(mount(NULL, "m", NULL, MS_REMOUNT, NULL));
	T(map_code("m/self"));
	T(close(open("m/null", O_RDONLY)));
	T(execv("m/self", argv));
	T(umount2("m", 0));
}

/* --- in /proc and its kin ------------------------------------------------------------------ */

static void in_kernels_trees(void)
{
	const int ptm = posix_openpt(O_RDWR | O_NOCTTY);
	const char *pts;

	CHECK(ptm >= 0);
	pts = ptsname(ptm);
	T(mount("x", "/proc/sys/kernel", "tmpfs", 0, NULL));
	T(access("/proc/sys/kernel/ostype", R_OK));
	T(make_file("/proc/sys/kernel/made", "made"));
	show_file("/proc/sys/kernel/made");
	show_file("/proc/sys/kernel/../kernel/made");
	T(access("/proc/sys/kernel/../../uptime", R_OK));
	T(umount2("/proc/sys/kernel", 0));
	T(access("/proc/sys/kernel/ostype", R_OK));
	T(mount("m/under", "/proc/uptime", NULL, MS_BIND, NULL));
	show_file("/proc/uptime");
	T(mount("m/under", "/proc/sys/kernel/ostype", NULL, MS_BIND, NULL));
	show_file("/proc/sys/kernel/ostype");
	T(umount2("/proc/sys/kernel/ostype", 0));
	T(umount2("/proc/uptime", 0));
	show_file("/proc/sys/kernel/ostype");
	T(umount2("/proc/uptime", 0));
	/* A directory that cannot be written through its own name. */
	T(mount("/proc/sys", "/proc/sys", NULL, MS_BIND, NULL));
	T(mount(NULL, "/proc/sys", NULL, MS_REMOUNT | MS_BIND | MS_RDONLY, NULL));
	T(open("/proc/sys/kernel/hostname", O_WRONLY));
	T(access("/proc/sys/kernel/../../uptime", R_OK));
	T(umount2("/proc/sys", 0));
	T(mount("x", "/sys/devices", "tmpfs", 0, NULL));
	show_dir("/sys/devices");
	T(umount2("/sys/devices", 0));
	T(mount("m/under", pts, NULL, MS_BIND, NULL));
	T(access(pts, R_OK));
	T(umount2(pts, 0));
	T(close(ptm));
}

/* --- execution by a descriptor ----------------------------------------------------------- */

static void run(int fd, const char *name, int flags)
{
	char *const argv[] = { (char *)"mounting", (char *)"run", (char *)name, NULL };
	pid_t pid;
	int status;

	fflush(stdout);
	pid = fork();
	if (!pid) {
		syscall(SYS_execveat, fd, name, argv, environ, flags);
		printf("not run: %s\n", strerror(errno));
		fflush(stdout);
		_exit(0);
	}
	waitpid(pid, &status, 0);
}

/* A descriptor is its file, whatever its path leads to. */
static void executed_by_descriptor(const char *self)
{
	int fd, dir;

	T(make_file("m/self", "covered"));
	T(mount(self, "m/self", NULL, MS_BIND, NULL));
	fd = open("m/self", O_RDONLY);
	dir = open("m", O_RDONLY | O_DIRECTORY);
	run(fd, "", AT_EMPTY_PATH);
	run(dir, "self", 0);
	T(mount("cover", "m", "tmpfs", 0, NULL));
	run(fd, "", AT_EMPTY_PATH);
	run(dir, "self", 0);
	run(dir, "", AT_EMPTY_PATH);
	run(fd, "self", 0);
	T(umount2("m", 0));
	T(umount2("m/self", MNT_DETACH));
	run(fd, "", AT_EMPTY_PATH);
	run(dir, "self", 0);
	T(close(fd));
	T(close(dir));
	T(unlink("m/self"));
}

/* --- errors ------------------------------------------------------------------------------ */

static void errors(void)
{
	static char long_name[300], long_text[5000];
	const char *bad = (const char *)8;
	pid_t pid;

	memset(long_name, 'a', sizeof(long_name) - 1);
	memset(long_text, 'a', sizeof(long_text) - 1);
	T(mount("x", "m", "nofs", 0, NULL));
	T(mount("x", "m", NULL, 0, NULL));
	T(mount("x", "none", "tmpfs", 0, NULL));
	T(mount("x", "m/under", "tmpfs", 0, NULL));
	T(mount("x", "m/under/x", "tmpfs", 0, NULL));
	T(mount("x", long_name, "tmpfs", 0, NULL));
	T(mount("x", "", "tmpfs", 0, NULL));
	T(mount(bad, "m", "tmpfs", 0, NULL));
	T(mount("x", bad, "tmpfs", 0, NULL));
	T(mount("x", "m", bad, 0, NULL));
	T(mount("x", "m", "tmpfs", 0, bad));
	T(mount(long_text, "m", "tmpfs", 0, NULL));
	T(mount("x", "m", long_text, 0, NULL));
	T(mount("x", "m", "tmpfs", 0, "size=none"));
	T(mount("x", "m", "tmpfs", 0, "what=1"));
	T(mount("x", "m", "tmpfs", 0, "mode=99"));
	T(mount("x", "m", "tmpfs", 0, long_text));
	T(mount("x", "m", "tmpfs", MS_REMOUNT, NULL));
	T(mount("x", "m", NULL, MS_REMOUNT | MS_BIND | MS_RDONLY, NULL));
	T(mount("x", "m", NULL, MS_PRIVATE, NULL));
	T(mount("x", "m", NULL, MS_PRIVATE | MS_SHARED, NULL));
	T(umount2("m", 0));
	T(umount2("m/under", 0));
	T(umount2("none", 0));
	T(umount2(bad, 0));
	T(umount2(long_name, 0));
	T(umount2("m", 0x100));
	T(mount("x", "m", "tmpfs", 0xc0ed0000, NULL));
	T(symlink("m", "l"));
	T(umount2("l", UMOUNT_NOFOLLOW));
	T(umount2("m", MNT_EXPIRE | MNT_DETACH));
	fflush(stdout);
	pid = fork();
	if (!pid) {
		if (setgid(NOBODY) || setuid(NOBODY))
			_exit(1);
		T(mount("x", "m", "tmpfs", 0, NULL));
		T(mount("x", "none", "tmpfs", 0, NULL));
		T(umount2("m", 0));
		T(umount2("none", 0));
		fflush(stdout);
		_exit(0);
	}
	waitpid(pid, NULL, 0);
	T(umount2("l", 0));
	T(unlink("l"));
}

/* --- races ------------------------------------------------------------------------------- */

static int stop;

static void *walk_on(void *arg)
{
	long *seen = arg;

	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
		const int fd = open("m/d/../f", O_RDONLY);
		struct stat st;

		if (fd >= 0) {
			(*seen)++;
			if (fstat(fd, &st) || st.st_size != 4)
				puts("another file");
			close(fd);
		} else if (errno != ENOENT) {
			printf("walk: %s\n", strerror(errno));
		}
		if (readlink("/proc/self/cwd", (char[4096]){ 0 }, 4096) < 0)
			puts("no cwd");
	}
	return NULL;
}

static void race(void)
{
	pthread_t walker[2];
	long seen[2] = { 0 };
	int failed = 0;

	for (int i = 0; i < 2; i++)
		pthread_create(&walker[i], NULL, walk_on, &seen[i]);
	for (int i = 0; i < RACES; i++) {
		if (mount("race", "m", "tmpfs", 0, NULL) || make_file("m/f", "race") ||
		    mkdir("m/d", 0755))
			failed++;
		/* One that is in use leaves at least the tree. */
		if (umount2("m", i % 3 ? 0 : MNT_DETACH) &&
		    (errno != EBUSY || umount2("m", MNT_DETACH)))
			failed++;
	}
	__atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
	for (int i = 0; i < 2; i++)
		pthread_join(walker[i], NULL);
	printf("races: %d failed\n", failed);
	show_dir("m");
}

int main(int argc, char **argv)
{
	if (argc == 3 && !strcmp(argv[1], "run"))
		return printf("run by \"%s\"\n", argv[2]) < 0;
	CHECK(argc == 2);
	base = argv[1];
	umask(022);
	T(mkdir(base, 0755));
	T(chdir(base));
	seen_where_it_is();
	full();
	kept_by_use();
	read_only();
	forbid(argv[0]);
	in_kernels_trees();
	executed_by_descriptor(argv[0]);
	errors();
	race();
	show_mounts();
	T(unlink("m/under"));
	T(rmdir("m"));
	T(chdir("/"));
	T(rmdir(base));
	return 0;
}
