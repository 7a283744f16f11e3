// SPDX-License-Identifier: MIT
/*
 * pivot_root, mounts that are moved or lie over "/", and the kinds of propagation that change
 * nothing: what "/", ".." and the working directories of others are afterwards.
 *
 * pivots DIR: in directory DIR, which it makes, each part in a mount namespace of its own. It
 * prints the same on Linux.
 */
#include "user.h"

#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define NOBODY 65534

static const char *base;
static int real_root; /* "/" as it was */

static int pivot(const char *to, const char *old)
{
	return (int)syscall(SYS_pivot_root, to, old);
}

static bool same_place(const struct stat *a, const char *path)
{
	struct stat b;

	return !stat(path, &b) && a->st_dev == b.st_dev && a->st_ino == b.st_ino;
}

static bool is_real_root(const char *path)
{
	struct stat st;

	return !fstat(real_root, &st) && same_place(&st, path);
}

static void show_cwd(void)
{
	char buf[4096], *at;

	if (!getcwd(buf, sizeof(buf))) {
		printf("cwd: %s\n", strerror(errno));
		return;
	}
	at = strstr(buf, base);
	if (at)
		memmove(at, at + strlen(base), strlen(at + strlen(base)) + 1);
	printf("cwd: %s\n", buf);
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

/* Mounts at @path, or below it, as mountinfo has them; the last one's optional field. */
static void count_mounts(const char *path)
{
	FILE *f = fopen("/proc/self/mountinfo", "r");
	char line[8192], at[2048], more[64] = "", last[64] = "";
	int n = 0, below = 0;
	const size_t len = strlen(path);

	while (f && fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%*d %*d %*s %*s %2047s %*s %63s", at, more) != 2)
			continue;
		if (!strcmp(at, path)) {
			n++;
			strcpy(last, more);
		}
		below += !strncmp(at, path, len) && at[len] == '/';
	}
	if (f)
		fclose(f);
	printf("%s: %d mounts, %d in it, %s\n",
	       strncmp(path, base, strlen(base)) ? path : path + strlen(base), n, below, last);
}

static void in_namespace(const char *name, void (*fn)(void))
{
	int status;
	pid_t pid;

	printf("--- %s\n", name);
	fflush(stdout);
	pid = fork();
	if (!pid) {
		CHECK(unshare(CLONE_NEWNS) == 0);
		CHECK(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0);
		/* A mount of its own, so that it is not in that of the root. */
		CHECK(mount(base, base, NULL, MS_BIND, NULL) == 0 && chdir(base) == 0);
		real_root = open("/", O_RDONLY | O_DIRECTORY);
		CHECK(real_root >= 0);
		fn();
		fflush(stdout);
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid);
	if (status)
		printf("%s: status %x\n", name, status);
}

/* --- pivot_root ------------------------------------------------------------------------ */

static void refused(void)
{
	pid_t pid;

	T(pivot("new", "new/none"));
	T(pivot("new", "new/f"));
	T(pivot("new/f", "new/old"));
	T(pivot("none", "new/old"));
	T(pivot("new", (const char *)8));
	T(pivot((const char *)8, "new/old"));
	T(pivot("new", "new/old")); /* no mount yet */
	CHECK(mount("new", "new", NULL, MS_BIND, NULL) == 0);
	T(pivot("new", "."));
	T(pivot("new", "/"));
	T(pivot("/", "new/old"));
	T(pivot("/", "/"));
	T(pivot("new/d", "new/old"));
	fflush(stdout);
	pid = fork();
	if (!pid) {
		CHECK(setuid(NOBODY) == 0);
		T(pivot("new", "new/old"));
		T(pivot("none", "none"));
		fflush(stdout);
		_exit(0);
	}
	CHECK(waitpid(pid, NULL, 0) == pid);
	T(chroot("other"));
	CHECK(chdir("/") == 0);
	T(pivot("/", "/")); /* the root is no mount */
}

/* Waits in @dir, or with that as its root, until it is asked for what it sees. */
struct watcher {
	int ask[2], answer[2];
	pid_t pid;
};

static void watch(struct watcher *w, const char *dir, bool root)
{
	char c;

	CHECK(pipe(w->ask) == 0 && pipe(w->answer) == 0);
	fflush(stdout);
	w->pid = fork();
	if (w->pid) {
		close(w->ask[0]);
		close(w->answer[1]);
		return;
	}
	close(w->ask[1]);
	CHECK(root ? chroot(dir) == 0 : chdir(dir) == 0);
	CHECK(write(w->answer[1], "x", 1) == 1);
	CHECK(read(w->ask[0], &c, 1) == 1);
	show_cwd();
	printf("f in it %d, below / %d, other below / %d\n", access("f", F_OK) == 0,
	       access("/f", F_OK) == 0, access("/inside", F_OK) == 0);
	fflush(stdout);
	_exit(0);
}

static void watched(struct watcher *w)
{
	fflush(stdout);
	CHECK(write(w->ask[1], "x", 1) == 1 && waitpid(w->pid, NULL, 0) == w->pid);
}

static void ready(const struct watcher *w)
{
	char c;

	CHECK(read(w->answer[0], &c, 1) == 1);
}

static void usual(void)
{
	struct watcher at_root, at_base, apart;
	const int fd = open("new/d", O_RDONLY | O_DIRECTORY);
	struct stat st;

	CHECK(mount("new", "new", NULL, MS_BIND | MS_REC, NULL) == 0);
	CHECK(mount("t", "new/d", "tmpfs", 0, NULL) == 0 && make_file("new/d/in", "") == 0);
	watch(&at_root, "/", false);
	watch(&at_base, ".", false);
	watch(&apart, "other", true);
	ready(&at_root);
	ready(&at_base);
	ready(&apart);
	T(pivot("new", "new/old"));
	show_cwd();
	show_dir("/");
	show_dir("/d");
	show_dir("/../d/../..");
	T(access("/old/proc/self", F_OK) == 0);
	printf("the old root %d %d %d\n", is_real_root("/old"), is_real_root("/"),
	       is_real_root("/old/.."));
	CHECK(fstat(fd, &st) == 0);
	printf("covered %d\n", same_place(&st, "/d"));
	T(chdir("new"));
	show_cwd();
	T(chdir("/d"));
	show_cwd();
	T(chdir("../old"));
	show_cwd();
	T(access("../f", F_OK));
	watched(&at_root);
	watched(&at_base);
	watched(&apart);
	T(symlink("/f", "/link"));
	T(access("/link", F_OK));
	T(access("/old/../link", F_OK));
	T(unlink("/link"));
	T(chdir("/"));
	T(mount("old/proc", "proc", NULL, MS_BIND | MS_REC, NULL));
	count_mounts("/");
	count_mounts("/d");
	printf("old proc %d\n", access("/old/proc/self", F_OK) == 0);
	T(umount2("/old", 0));
	T(umount2("/old", MNT_DETACH));
	count_mounts("/old");
	show_dir("/old");
	show_dir("/");
	/* Once more, with what is there now. */
	T(mount("t", "/d", "tmpfs", 0, NULL));
	CHECK(mkdir("/d/was", 0755) == 0);
	T(pivot("/d", "/d/was"));
	show_dir("/");
	show_dir("/was");
	T(access("/was/proc/self", F_OK));
	T(umount2("/was/d", 0));
	show_dir("/was/d");
	T(unshare(CLONE_NEWNS));
	show_dir("/was/d");
	T(umount2("/was", MNT_DETACH));
	show_dir("/was");
}

/* As runc does: no directory for the old root is needed. */
static void over_itself(void)
{
	const int old = open("/", O_RDONLY | O_DIRECTORY), to = open("new", O_RDONLY | O_DIRECTORY);

	CHECK(mount("new", "new", NULL, MS_BIND | MS_REC, NULL) == 0);
	T(fchdir(to));
	T(pivot(".", ".")); /* the directory below the mount */
	T(chdir("../new"));
	T(pivot(".", "."));
	show_cwd();
	show_dir(".");
	show_dir("/");
	printf("above %d\n", is_real_root("/.."));
	printf("twice above %d\n", is_real_root("/../.."));
	printf("not seen %d\n", access("/../f", F_OK));
	T(fchdir(old));
	show_cwd();
	printf("old %d\n", is_real_root("."));
	T(mount(NULL, ".", NULL, MS_SLAVE | MS_REC, NULL));
	T(umount2(".", MNT_DETACH));
	T(chdir("/"));
	show_cwd();
	show_dir("/");
	show_dir("/..");
	T(mkdir("/made", 0755));
	T(rmdir("/made"));
	T(fchdir(old));
	T(access("proc", F_OK)); /* apart by now: its mounts have gone */
}

static void over_itself_at_once(void)
{
	CHECK(mount("new", "new", NULL, MS_BIND | MS_REC, NULL) == 0 && chdir("new") == 0);
	T(pivot(".", "."));
	T(umount2(".", MNT_DETACH));
	show_dir("/");
	show_dir("/..");
	show_cwd();
}

static void below_chroot(void)
{
	CHECK(mount("new", "new", NULL, MS_BIND | MS_REC, NULL) == 0);
	CHECK(mount("t", "new/d", "tmpfs", 0, NULL) == 0 && mkdir("new/d/was", 0755) == 0);
	T(chroot("new"));
	CHECK(chdir("/") == 0);
	T(pivot("d", "d/was"));
	show_cwd();
	show_dir("/");
	show_dir("/was");
	show_dir("/..");
	/* And outside of it. */
	CHECK(fchdir(real_root) == 0 && chroot(".") == 0 && chdir(base) == 0);
	show_dir("new");
	show_dir("new/was");
	show_dir("new/was/../..");
	T(umount2("new/was", 0));
	T(umount2("new", 0));
	show_dir("new");
}

/* Names in a mount that came along over the old root: its root is not at "/" any more. */
static void below_old_root(void)
{
	CHECK(mount("new", "new", NULL, MS_BIND | MS_REC, NULL) == 0);
	CHECK(mount("/proc", "new/proc", NULL, MS_BIND | MS_REC, NULL) == 0);
	T(mount("d", "/", "devtmpfs", 0, NULL));
	T(pivot("new", "new/old"));
	T(mount("/f", "/old/null", NULL, MS_BIND, NULL));
	count_mounts("/old/null");
	T(unshare(CLONE_NEWNS));
	count_mounts("/old/null");
	T(mount("/old", "/d", NULL, MS_MOVE, NULL));
	count_mounts("/d/null");
	T(umount2("/d/null", 0));
	T(umount2("/d", 0));
}

/* Others fork, and go in and out, while the root changes. */
static void beside_others(void)
{
	enum {
		OTHERS = 4,
		TURNS = 40
	};
	pid_t others[OTHERS];

	CHECK(mount("t", "other", "tmpfs", 0, NULL) == 0 && mkdir("other/a", 0755) == 0 &&
	      mkdir("other/b", 0755) == 0);
	for (int i = 0; i < OTHERS; i++) {
		others[i] = fork();
		while (!others[i]) {
			const pid_t pid = fork();

			if (!pid) {
				(void)!unshare(i & 1 ? CLONE_NEWNS : CLONE_FS);
				_exit(chdir("/") || access(".", F_OK) || access("/..", F_OK));
			}
			CHECK(waitpid(pid, NULL, 0) == pid);
		}
	}
	CHECK(chdir("/") == 0);
	for (int i = 0; i < TURNS; i++) {
		char to[4096], old[sizeof(to) + 2];

		snprintf(to, sizeof(to), "%s/other/%c", base, 'a' + (i & 1));
		snprintf(old, sizeof(old), "%s/x", to);
		CHECK(mount("t", to, "tmpfs", 0, NULL) == 0 && mkdir(old, 0755) == 0);
		CHECK(pivot(to, old) == 0);
		CHECK(pivot("/x", "/") == -1 && errno == EBUSY);
		/* Back: the old root has to be a mount of its own, which it is. */
		snprintf(old, sizeof(old), "/x%s", to);
		CHECK(pivot("/x", old) == 0);
		CHECK(umount2(to, MNT_DETACH) == 0 && chdir("/") == 0);
	}
	for (int i = 0; i < OTHERS; i++)
		CHECK(kill(others[i], SIGKILL) == 0 && waitpid(others[i], NULL, 0) == others[i]);
	printf("the root again %d\n", is_real_root("/"));
	CHECK(chdir(base) == 0);
	T(umount2("other", MNT_DETACH));
}

/* --- moved, and over "/" ----------------------------------------------------------------- */

static void moved(void)
{
	const char *parts[] = { "a", "a/in", "b", "b/d" };
	char in[4096];
	int fd;

	CHECK(mount("t", "other", "tmpfs", 0, NULL) == 0 && chdir("other") == 0);
	CHECK(mkdir("a", 0755) == 0 && mkdir("b", 0755) == 0 && mkdir("b/d", 0755) == 0 &&
	      make_file("f", "f") == 0 && make_file("g", "g") == 0);
	CHECK(mount("t", "a", "tmpfs", 0, NULL) == 0 && mkdir("a/in", 0755) == 0 &&
	      mount("t", "a/in", "tmpfs", 0, NULL) == 0 && make_file("a/in/f", "in") == 0);
	fd = open("a/in/f", O_RDONLY);
	T(mount("none", "b", NULL, MS_MOVE, NULL));
	T(mount("a", "none", NULL, MS_MOVE, NULL));
	T(mount("", "b", NULL, MS_MOVE, NULL));
	T(mount(NULL, "b", NULL, MS_MOVE, NULL));
	T(mount("b", "a", NULL, MS_MOVE, NULL));
	T(mount("a", "f", NULL, MS_MOVE, NULL));
	T(mount("a", "a", NULL, MS_MOVE, NULL));
	T(mount("a", "a/in", NULL, MS_MOVE, NULL));
	T(mount("/", "a/in", NULL, MS_MOVE, NULL));
	CHECK(chdir("a/in") == 0);
	T(mount("../../a", "../../b/d", NULL, MS_MOVE, NULL));
	show_cwd();
	show_dir(".");
	show_dir("../..");
	CHECK(chdir("../../..") == 0);
	show_cwd();
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		show_dir(parts[i]);
	snprintf(in, sizeof(in), "%s/other/b/d/in", base);
	count_mounts(in);
	T(umount2("b/d", 0));
	T(rmdir("b/d"));
	T(rmdir("a"));
	T(umount2("b/d/in", 0));
	T(close(fd));
	T(umount2("b/d/in", 0));
	T(umount2("b/d", 0));
	/* Of a file, on another one. */
	CHECK(mount("f", "f", NULL, MS_BIND, NULL) == 0);
	T(mount("f", "b", NULL, MS_MOVE, NULL));
	T(mount("f", "g", NULL, MS_MOVE, NULL));
	fd = open("g", O_RDONLY);
	CHECK(read(fd, in, 1) == 1 && close(fd) == 0);
	printf("in g: %c\n", in[0]);
	T(umount2("f", 0));
	T(umount2("g", 0));
	CHECK(chdir("..") == 0);
	T(umount2("other", 0));
}

static void over_root(void)
{
	T(mount("t", "/", "tmpfs", 0, NULL));
	printf("as before %d, above %d\n", is_real_root("/"), is_real_root("/.."));
	show_cwd();
	T(mkdir("/../there", 0755));
	T(access("/there", F_OK));
	show_dir("/..");
	T(mount("t", "/", "tmpfs", 0, NULL));
	show_dir("/..");
	T(mkdir("/../m", 0755));
	T(mount("t", "/../m", "tmpfs", 0, NULL));
	T(umount2("/../m", 0));
	T(umount2("/", 0));
	show_dir("/..");
	T(mount("other", "/", NULL, MS_BIND, NULL));
	show_dir("/..");
	T(umount2("/", 0));
	T(unshare(CLONE_NEWNS));
	show_dir("/..");
	T(chroot("/.."));
	show_dir("/");
	T(fchdir(real_root));
	T(chroot("."));
	T(umount2("/", 0));
	printf("as before %d, above %d\n", is_real_root("/"), is_real_root("/.."));
	T(mount("/proc/self/ns/uts", "/", NULL, MS_BIND, NULL));
}

static void propagation(void)
{
	CHECK(mount("t", "other", "tmpfs", 0, NULL) == 0 && chdir("other") == 0);
	CHECK(mkdir("a", 0755) == 0 && mkdir("b", 0755) == 0 && mkdir("c", 0755) == 0);
	CHECK(mount("t", "a", "tmpfs", 0, NULL) == 0 && mkdir("a/x", 0755) == 0 &&
	      mkdir("a/y", 0755) == 0);
	CHECK(mount("t", "a/x", "tmpfs", 0, NULL) == 0 && mount("t", "a/y", "tmpfs", 0, NULL) == 0);
	CHECK(make_file("a/x/f", "") == 0 && make_file("a/y/f", "") == 0);
	T(mount(NULL, "a", NULL, MS_SLAVE, NULL));
	T(mount(NULL, "a", NULL, MS_SLAVE | MS_REC | MS_SILENT, NULL));
	T(mount(NULL, "b", NULL, MS_SLAVE, NULL));
	T(mount(NULL, "a", NULL, MS_SLAVE | MS_PRIVATE, NULL));
	T(mount(NULL, "a", NULL, MS_SLAVE | MS_RDONLY, NULL));
	T(mount(NULL, "a/x", NULL, MS_UNBINDABLE, NULL));
	T(mount("a/x", "b", NULL, MS_BIND, NULL));
	T(mount("a", "b", NULL, MS_BIND | MS_REC, NULL));
	show_dir("b/x");
	show_dir("b/y");
	T(umount2("b", MNT_DETACH));
	T(mount(NULL, "a/x", NULL, MS_REMOUNT | MS_BIND | MS_RDONLY, NULL));
	T(mount("a/x", "b", NULL, MS_BIND, NULL));
	T(mount(NULL, "a", NULL, MS_REC | MS_UNBINDABLE, NULL));
	T(mount("a/y", "b", NULL, MS_BIND, NULL));
	T(mount(NULL, "a", NULL, MS_PRIVATE, NULL));
	T(mount("a/y", "b", NULL, MS_BIND, NULL));
	T(mount(NULL, "a", NULL, MS_REC | MS_PRIVATE, NULL));
	T(mount("a/y", "b", NULL, MS_BIND, NULL));
	T(mount("a/y", "c", NULL, MS_MOVE, NULL));
	show_dir("c");
	CHECK(chdir("..") == 0);
	T(umount2("other", MNT_DETACH));
}

int main(int argc, char **argv)
{
	const char *dirs[] = { "new", "new/d", "new/old", "new/proc", "other" };
	char *real;

	CHECK(argc == 2 && mkdir(argv[1], 0755) == 0 && chdir(argv[1]) == 0);
	base = real = realpath(".", NULL);
	CHECK(base);
	for (size_t i = 0; i < sizeof(dirs) / sizeof(dirs[0]); i++)
		CHECK(mkdir(dirs[i], 0755) == 0);
	CHECK(make_file("new/f", "f") == 0 && make_file("other/inside", "") == 0);
	in_namespace("refused", refused);
	in_namespace("usual", usual);
	in_namespace("over itself", over_itself);
	in_namespace("over itself at once", over_itself_at_once);
	in_namespace("below chroot", below_chroot);
	in_namespace("below old root", below_old_root);
	in_namespace("beside others", beside_others);
	in_namespace("moved", moved);
	in_namespace("over root", over_root);
	in_namespace("propagation", propagation);
	show_dir("new");
	CHECK(unlink("new/f") == 0 && unlink("other/inside") == 0);
	for (size_t i = sizeof(dirs) / sizeof(dirs[0]); i-- > 0;)
		T(rmdir(dirs[i]));
	CHECK(chdir("/") == 0 && rmdir(base) == 0);
	free(real);
	return 0;
}
