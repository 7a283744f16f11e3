// SPDX-License-Identifier: MIT
/*
 * User namespaces: who may write which maps, what ids become, and that capabilities of one count
 * in it and nowhere else.
 *
 * userspaces: as root; userspaces --limits: what a user may make, which it sets for all.
 */
#include "user.h"

#include <grp.h>
#include <linux/capability.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/fsuid.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>

#define USER             1000
#define NS_GET_USERNS    0xb701
#define NS_GET_PARENT    0xb702
#define NS_GET_OWNER_UID 0xb704

#define DIR_OF_ROOT "/dev/shm/userspaces"

/* --- helpers ----------------------------------------------------------------------------- */

static int in_child(int (*fn)(void))
{
	int status;
	pid_t pid;

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
	return status;
}

static void become_user(void)
{
	CHECK(!setgroups(0, NULL) && !setgid(USER) && !setuid(USER));
	CHECK(!prctl(PR_SET_DUMPABLE, 1)); /* its files of /proc are its own again */
}

/* Writes @text to @name of the process, in one piece. */
static int put_to(const char *who, const char *name, const char *text)
{
	char path[64];
	int fd, saved;
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%s/%s", who, name);
	fd = open(path, O_WRONLY);
	if (fd < 0)
		return -1;
	n = write(fd, text, strlen(text));
	saved = errno;
	close(fd);
	errno = saved;
	return (int)n;
}

static int put(const char *name, const char *text)
{
	return put_to("self", name, text);
}

static void show(const char *name)
{
	char path[64], buf[512];
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/self/%s", name);
	fd = open(path, O_RDONLY);
	CHECK(fd >= 0);
	n = read(fd, buf, sizeof(buf) - 1);
	CHECK(n >= 0);
	buf[n] = '\0';
	close(fd);
	printf("%s: %s%s", name, buf, n ? "" : "\n");
}

static void show_ids(void)
{
	uid_t r, e, s;
	gid_t g[8];
	int n;

	CHECK(!getresuid(&r, &e, &s));
	printf("uids %d %d %d", r, e, s);
	CHECK(!getresgid(&r, &e, &s));
	n = getgroups(8, g);
	printf(", gids %d %d %d, %d groups", r, e, s, n);
	for (int i = 0; i < n; i++)
		printf(" %d", g[i]);
	printf("\n");
}

/* Effective and permitted, which all have in a new namespace, and inheritable. */
static void show_caps(void)
{
	struct __user_cap_header_struct h = { _LINUX_CAPABILITY_VERSION_3, 0 };
	struct __user_cap_data_struct d[2];

	CHECK(!syscall(SYS_capget, &h, d));
	printf("caps: all effective %d, all permitted %d, none %d, inheritable %x\n",
	       d[0].effective == ~0u, d[0].permitted == ~0u, !d[0].effective && !d[0].permitted,
	       d[0].inheritable);
}

static void enter_own(void)
{
	CHECK(!unshare(CLONE_NEWUSER));
	CHECK(put("setgroups", "deny") == 4);
	CHECK(put("uid_map", "0 1000 1") == 8);
	CHECK(put("gid_map", "0 1000 1\n") == 9);
}

/* --- maps -------------------------------------------------------------------------------- */

static int maps(void)
{
	become_user();
	show("uid_map");
	show("setgroups");
	T(put("uid_map", "0 1000 1"));
	T(put("setgroups", "deny"));
	T(unshare(CLONE_NEWUSER));
	show_ids();
	show_caps();
	show("uid_map");
	show("setgroups");
	T(setuid(0));
	T(setuid(1000));
	T(setgroups(0, NULL));
	T(put("gid_map", "0 1000 1"));
	T(put("uid_map", ""));
	T(put("uid_map", "\n"));
	T(put("uid_map", "0 1000"));
	T(put("uid_map", "0 1000 1 1"));
	T(put("uid_map", "0 1000 x"));
	T(put("uid_map", "0 1000 0"));
	T(put("uid_map", "4294967295 1000 1"));
	T(put("uid_map", "0 4294967295 1"));
	T(put("uid_map", "2 1000 4294967295"));
	T(put("uid_map", "0 1000 1\n0 2000 1\n"));
	T(put("uid_map", "0 1000 1\n\n"));
	T(put("uid_map", "0 0 1"));
	T(put("uid_map", "0 999 2"));
	T(put("uid_map", "0 1000 2"));
	T(put("uid_map", "0 1000 1\n1 1001 1"));
	T(put("uid_map", "5 1000 1"));
	T(put("uid_map", "5 1000 1"));
	show("uid_map");
	show_ids();
	T(put("setgroups", "maybe"));
	T(put("setgroups", "allow"));
	T(put("setgroups", "deny\n"));
	T(put("setgroups", "allow"));
	T(put("gid_map", "7 1000 1"));
	T(put("gid_map", "7 1000 1"));
	T(put("setgroups", "deny"));
	T(put("setgroups", "allow"));
	show("gid_map");
	show_ids();
	T(setgroups(0, NULL));
	T(setuid(5));
	T(setuid(1000));
	T(setreuid(5, 0));
	T(setresgid(7, 7, 7));
	T(setresgid(7, 0, 7));
	T(setfsuid(1000));
	show_caps();
	return 0;
}

static char many[341 * 20];

static int large_maps(void)
{
	char *p = many;

	T(unshare(CLONE_NEWUSER));
	/* The writer has no rights over ids outside any more, as from_outside() has. */
	T(put("uid_map", "0 0 1\n1 100000 65535\n"));
	T(put("uid_map", "0 0 1\n"));
	for (int i = 0; i < 341; i++)
		p += sprintf(p, "%d %d 1\n", i, 5000 + i);
	T(put("gid_map", many));
	T(put("projid_map", "0 0 4294967295"));
	T(put("projid_map", "0 0 4294967295"));
	return 0;
}

/* Root gives a child its ids. */
static int from_outside(void)
{
	int ready[2], go[2], status;
	char who[16], c = 0;
	pid_t pid;

	CHECK(!pipe(ready) && !pipe(go));
	fflush(stdout);
	pid = fork();
	if (!pid) {
		gid_t groups[] = { 0, 44 };

		CHECK(!setgroups(0, NULL));
		CHECK(!unshare(CLONE_NEWUSER) && write(ready[1], "", 1) == 1);
		CHECK(read(go[0], &c, 1) == 1);
		show("uid_map");
		show("gid_map");
		show_ids();
		T(setgroups(2, groups));
		T(setresgid(33, 33, 33));
		T(setgroups(1, (gid_t[]){ 70000 }));
		T(setresuid(33, 33, 33));
		T(setuid(0));
		show_ids();
		show_caps();
		fflush(stdout);
		_exit(0);
	}
	CHECK(read(ready[0], &c, 1) == 1);
	snprintf(who, sizeof(who), "%d", pid);
	T(put_to(who, "uid_map", "0 100000 65536\n70000 0 1\n"));
	for (char *p = many, i = 0; i < 100; i++)
		p += sprintf(p, "%d %d 1\n", i, 100000 + i);
	T(put_to(who, "gid_map", many));
	T(put_to(who, "setgroups", "deny"));
	CHECK(write(go[1], "", 1) == 1);
	CHECK(waitpid(pid, &status, 0) == pid);
	printf("status %x\n", status);
	return 0;
}

/* --- capabilities that do not count outside ----------------------------------------------- */

static int powerless(void)
{
	const pid_t boss = getppid();
	struct sched_param param = { .sched_priority = 1 };
	struct rlimit lim = { 100, 100 };
	char path[64], buf[64];
	struct stat st;
	int fd;

	become_user();
	enter_own();
	show_ids();
	show_caps();
	T(stat(DIR_OF_ROOT "/secret", &st));
	printf("secret is %d:%d\n", st.st_uid, st.st_gid);
	T(open(DIR_OF_ROOT "/secret", O_RDONLY));
	T(open(DIR_OF_ROOT "/closed/file", O_RDONLY));
	T(chmod(DIR_OF_ROOT "/secret", 0666));
	T(chown(DIR_OF_ROOT "/secret", 0, 0));
	T(unlink(DIR_OF_ROOT "/secret"));
	T(rename(DIR_OF_ROOT "/secret", DIR_OF_ROOT "/other"));
	T(truncate(DIR_OF_ROOT "/secret", 0));
	T(utimensat(AT_FDCWD, DIR_OF_ROOT "/secret", NULL, 0));
	T(unlink("/dev/shm/userspaces.sticky"));
	T(mknod("/dev/shm/userspaces.null", S_IFCHR | 0666, 0x103));
	fd = open("/dev/shm/userspaces.own", O_CREAT | O_RDWR, 0600);
	CHECK(fd >= 0 && !fstat(fd, &st));
	printf("own is %d:%d\n", st.st_uid, st.st_gid);
	T(fchown(fd, 0, 0));
	T(fchown(fd, 1, -1));
	T(fchown(fd, 1000, -1));
	T(fchmod(fd, 04755));
	T(unlink("/dev/shm/userspaces.own"));
	T(sethostname("mine", 4));
	T(mount("none", DIR_OF_ROOT, "tmpfs", 0, NULL));
	T(umount("/dev/shm"));
	T(chroot("/proc"));
	T(kill(boss, 0));
	T(kill(boss, SIGKILL));
	T(ptrace(PTRACE_ATTACH, boss, NULL, NULL));
	snprintf(path, sizeof(path), "/proc/%d/root", boss);
	T(readlink(path, buf, sizeof(buf)));
	snprintf(path, sizeof(path), "/proc/%d/mem", boss);
	T(open(path, O_RDONLY));
	snprintf(path, sizeof(path), "/proc/%d/ns/user", boss);
	T(open(path, O_RDONLY));
	T(syscall(SYS_prlimit64, boss, RLIMIT_NOFILE, &lim, NULL));
	T(setpriority(PRIO_PROCESS, (id_t)boss, 1));
	T(setpriority(PRIO_PROCESS, 0, -5));
	T(sched_setscheduler(0, SCHED_FIFO, &param));
	T(sched_setscheduler(boss, SCHED_OTHER, &(struct sched_param){ 0 }));
	T(setrlimit(RLIMIT_NOFILE, &(struct rlimit){ 1024, 1u << 30 }));
	T(prctl(PR_CAPBSET_DROP, CAP_NET_ADMIN));
	T(settimeofday(&(struct timeval){ 0 }, NULL));
	T(put("oom_score_adj", "-1000"));
	T(unshare(CLONE_NEWUTS));
	T(sethostname("mine", 4));
	return 0;
}

/* Files and processes of the same user, from the inside and from the outside. */
static int same_user(void)
{
	char path[64], buf[64], c;
	int ready[2], go[2], status;
	pid_t pid;

	become_user();
	CHECK(!pipe(ready) && !pipe(go));
	fflush(stdout);
	pid = fork();
	if (!pid) {
		const pid_t up = getppid();

		enter_own();
		printf("inside\n");
		T(kill(up, 0));
		T(ptrace(PTRACE_ATTACH, up, NULL, NULL));
		snprintf(path, sizeof(path), "/proc/%d/cwd", up);
		T(readlink(path, buf, sizeof(buf)) > 0);
		snprintf(path, sizeof(path), "/proc/%d/environ", up);
		T(open(path, O_RDONLY) >= 0);
		T(syscall(SYS_pidfd_getfd, syscall(SYS_pidfd_open, up, 0), 0, 0));
		T(process_vm_readv(up, &(struct iovec){ &c, 1 }, 1, &(struct iovec){ &c, 1 }, 1,
				   0));
		T(syscall(SYS_prlimit64, up, RLIMIT_NOFILE, NULL, buf));
		fflush(stdout);
		CHECK(write(ready[1], "", 1) == 1 && read(go[0], &c, 1) == 1);
		_exit(0);
	}
	CHECK(read(ready[0], &c, 1) == 1);
	printf("outside\n");
	T(kill(pid, 0));
	snprintf(path, sizeof(path), "/proc/%d/cwd", pid);
	T(readlink(path, buf, sizeof(buf)) > 0);
	snprintf(path, sizeof(path), "/proc/%d/ns/user", pid);
	T(open(path, O_RDONLY) >= 0);
	T(ptrace(PTRACE_ATTACH, pid, NULL, NULL));
	CHECK(waitpid(pid, &status, 0) == pid && WIFSTOPPED(status));
	T(ptrace(PTRACE_DETACH, pid, NULL, NULL));
	CHECK(write(go[1], "", 1) == 1);
	CHECK(waitpid(pid, &status, 0) == pid);
	printf("status %x\n", status);
	return 0;
}

/* --- exec -------------------------------------------------------------------------------- */

static const char *self;

static int exec_with(const char *how)
{
	execl(self, self, how, (char *)NULL);
	printf("exec: %s\n", strerror(errno));
	return 1;
}

static int exec_unmapped(void)
{
	become_user();
	CHECK(!unshare(CLONE_NEWUSER));
	show_caps();
	fflush(stdout);
	return exec_with("--show");
}

static int exec_as_root(void)
{
	become_user();
	enter_own();
	return exec_with("--show");
}

static int exec_as_other(void)
{
	become_user();
	CHECK(!unshare(CLONE_NEWUSER) && put("uid_map", "5 1000 1") == 8);
	return exec_with("--show");
}

/* It can be executed and not read: nobody looks into it, not even its namespace's root. */
static int unreadable(void)
{
	int status, ready[2];
	char c, path[64];
	pid_t pid;

	become_user();
	enter_own();
	CHECK(!pipe2(ready, O_CLOEXEC));
	fflush(stdout);
	pid = fork();
	if (!pid) {
		execl(DIR_OF_ROOT "/blind", "blind", "--wait", (char *)NULL);
		printf("exec: %s\n", strerror(errno));
		fflush(stdout);
		_exit(1);
	}
	close(ready[1]);
	CHECK(read(ready[0], &c, 1) == 0); /* it runs */
	T(ptrace(PTRACE_ATTACH, pid, NULL, NULL));
	snprintf(path, sizeof(path), "/proc/%d/mem", pid);
	T(open(path, O_RDONLY));
	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	T(open(path, O_RDONLY));
	T(kill(pid, SIGKILL));
	CHECK(waitpid(pid, &status, 0) == pid);
	printf("status %x\n", status);
	return 0;
}

/* --- nesting, chroot, threads ------------------------------------------------------------ */

static int nested(void)
{
	int depth = 0;

	become_user();
	enter_own();
	while (!unshare(CLONE_NEWUSER)) {
		depth++;
		CHECK(put("uid_map", "0 0 1") == 5);
		CHECK(put("gid_map", "0 0 1") == 5);
	}
	printf("%d more: %s\n", depth, strerror(errno));
	show("uid_map");
	show("setgroups");
	return 0;
}

static int in_chroot(void)
{
	T(chroot("/dev"));
	T(unshare(CLONE_NEWUSER));
	T(syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0));
	T(unshare(CLONE_NEWNS));
	return 0;
}

static void *nothing(void *arg)
{
	return pause(), arg;
}

static int with_threads(void)
{
	pthread_t thread;

	CHECK(!pthread_create(&thread, NULL, nothing, NULL));
	T(unshare(CLONE_NEWUSER));
	T(syscall(SYS_clone, CLONE_NEWUSER | CLONE_FS | SIGCHLD, 0, 0, 0, 0));
	T(syscall(SYS_clone, CLONE_NEWUSER | CLONE_THREAD | CLONE_SIGHAND | CLONE_VM, 0, 0, 0, 0));
	T(syscall(SYS_clone, CLONE_NEWUSER | CLONE_PARENT | SIGCHLD, 0, 0, 0, 0) ? 0
										 : (_exit(0), 0));
	return 0;
}

static int unmapped_maker(void)
{
	become_user();
	T(unshare(CLONE_NEWUSER));
	T(unshare(CLONE_NEWUSER));
	return 0;
}

/* --- entering ---------------------------------------------------------------------------- */

static int entering(void)
{
	int own = open("/proc/self/ns/user", O_RDONLY), inner, other, ready[2], go[2], status;
	char path[64], c;
	uid_t uid = 77;
	pid_t pid;

	become_user();
	T(setns(own, CLONE_NEWUSER));
	T(ioctl(own, NS_GET_USERNS));
	T(ioctl(own, NS_GET_PARENT));
	T(ioctl(own, NS_GET_OWNER_UID, &uid));
	printf("owner %d\n", uid);
	CHECK(!pipe(ready) && !pipe(go));
	fflush(stdout);
	pid = fork();
	if (!pid) {
		enter_own();
		CHECK(!unshare(CLONE_NEWUTS));
		CHECK(write(ready[1], "", 1) == 1 && read(go[0], &c, 1) == 1);
		_exit(0);
	}
	CHECK(read(ready[0], &c, 1) == 1);
	snprintf(path, sizeof(path), "/proc/%d/ns/user", pid);
	inner = open(path, O_RDONLY);
	CHECK(inner >= 0);
	snprintf(path, sizeof(path), "/proc/%d/ns/uts", pid);
	other = open(path, O_RDONLY);
	CHECK(other >= 0);
	T(ioctl(inner, NS_GET_OWNER_UID, &uid));
	printf("owner %d\n", uid);
	T(ioctl(inner, NS_GET_PARENT) >= 0);
	T(ioctl(other, NS_GET_USERNS) >= 0);
	T(setns(other, 0));
	T(setns(inner, CLONE_NEWUTS));
	T(setns(inner, CLONE_NEWUSER));
	show_ids();
	show_caps();
	T(setns(inner, CLONE_NEWUSER));
	T(setns(own, CLONE_NEWUSER));
	T(setns(other, CLONE_NEWUTS));
	T(sethostname("theirs", 6));
	T(ioctl(inner, NS_GET_PARENT));
	T(ioctl(inner, NS_GET_OWNER_UID, &uid));
	printf("owner %d\n", uid);
	T(setns((int)syscall(SYS_pidfd_open, pid, 0), CLONE_NEWUTS));
	T(setns((int)syscall(SYS_pidfd_open, pid, 0), CLONE_NEWUTS | CLONE_NEWUSER));
	CHECK(write(go[1], "", 1) == 1);
	CHECK(waitpid(pid, &status, 0) == pid);
	printf("status %x\n", status);
	return 0;
}

static int entering_a_process(void)
{
	int ready[2], go[2], status;
	pid_t pid;
	char c;

	become_user();
	CHECK(!pipe(ready) && !pipe(go));
	fflush(stdout);
	pid = fork();
	if (!pid) {
		enter_own();
		CHECK(!unshare(CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWNS));
		CHECK(write(ready[1], "", 1) == 1 && read(go[0], &c, 1) == 1);
		_exit(0);
	}
	CHECK(read(ready[0], &c, 1) == 1);
	T(setns((int)syscall(SYS_pidfd_open, pid, 0), CLONE_NEWUTS | CLONE_NEWNS));
	T(setns((int)syscall(SYS_pidfd_open, pid, 0),
		CLONE_NEWUTS | CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWUSER));
	show_ids();
	T(sethostname("theirs", 6));
	CHECK(write(go[1], "", 1) == 1);
	CHECK(waitpid(pid, &status, 0) == pid);
	return status;
}

/* Of PIDs: one that was made is entered by way of its file. */
static int entering_pids(void)
{
	int ready[2], go[2], status, fd, up;
	char path[64], c;
	pid_t pid, inner;

	CHECK(!pipe(ready) && !pipe(go));
	fflush(stdout);
	pid = (pid_t)syscall(SYS_clone, CLONE_NEWPID | SIGCHLD, 0, 0, 0, 0);
	if (!pid) {
		CHECK(write(ready[1], "", 1) == 1 && read(go[0], &c, 1) == 1);
		_exit(0);
	}
	CHECK(read(ready[0], &c, 1) == 1);
	snprintf(path, sizeof(path), "/proc/%d/ns/pid", pid);
	fd = open(path, O_RDONLY);
	CHECK(fd >= 0);
	up = ioctl(fd, NS_GET_PARENT);
	T(up >= 0);
	T(ioctl(up, NS_GET_PARENT));
	T(ioctl(fd, NS_GET_USERNS) >= 0);
	T(setns(fd, CLONE_NEWPID));
	T(unshare(CLONE_NEWPID));
	fflush(stdout);
	inner = fork();
	if (!inner) {
		printf("pid %d, ppid %d\n", getpid(), getppid());
		T(setns(up, 0));
		fflush(stdout);
		_exit(0);
	}
	CHECK(waitpid(inner, &status, 0) == inner && !status);
	T(setns(up, 0));
	inner = fork();
	if (!inner)
		_exit(getpid() < 3);
	CHECK(waitpid(inner, &status, 0) == inner && !status);
	CHECK(write(go[1], "", 1) == 1);
	CHECK(waitpid(pid, &status, 0) == pid);
	T(setns(fd, CLONE_NEWPID));
	T(fork());
	return status;
}

/* --- what others are told ----------------------------------------------------------------- */

static void show_info(const char *what, const siginfo_t *info)
{
	printf("%s: code %d, uid %d\n", what, info->si_code, info->si_uid);
}

static int told(void)
{
	char control[CMSG_SPACE(sizeof(struct ucred))], c = 0;
	struct iovec iov = { &c, 1 };
	struct msghdr h = { .msg_iov = &iov,
			    .msg_iovlen = 1,
			    .msg_control = control,
			    .msg_controllen = sizeof(control) };
	struct ucred cred;
	socklen_t len = sizeof(cred);
	siginfo_t info;
	sigset_t set;
	int sv[2], ready[2], one = 1;
	pid_t pid;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigaddset(&set, SIGCHLD);
	CHECK(!sigprocmask(SIG_BLOCK, &set, NULL));
	CHECK(!socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sv) && !pipe(ready));
	CHECK(!setsockopt(sv[0], SOL_SOCKET, SO_PASSCRED, &one, sizeof(one)));
	CHECK(!setsockopt(sv[1], SOL_SOCKET, SO_PASSCRED, &one, sizeof(one)));
	fflush(stdout);
	pid = fork();
	if (!pid) {
		become_user();
		enter_own();
		CHECK(write(ready[1], "", 1) == 1);
		CHECK(!getsockopt(sv[1], SOL_SOCKET, SO_PEERCRED, &cred, &len));
		printf("peer %d:%d\n", cred.uid, cred.gid);
		T(recvmsg(sv[1], &h, 0));
		memcpy(&cred, CMSG_DATA(CMSG_FIRSTHDR(&h)), sizeof(cred));
		printf("sender %d:%d\n", cred.uid, cred.gid);
		CHECK(sigwaitinfo(&set, &info) == SIGUSR1);
		show_info("signal of root", &info);
		CHECK(!raise(SIGUSR1) && sigwaitinfo(&set, &info) == SIGUSR1);
		show_info("of its own", &info);
		/* As who one is not, and as oneself. */
		cred = (struct ucred){ getpid(), 1000, 0 };
		memcpy(CMSG_DATA(CMSG_FIRSTHDR(&h)), &cred, sizeof(cred));
		T(sendmsg(sv[1], &h, 0));
		cred.uid = 0;
		memcpy(CMSG_DATA(CMSG_FIRSTHDR(&h)), &cred, sizeof(cred));
		T(sendmsg(sv[1], &h, 0));
		show_ids();
		fflush(stdout);
		_exit(0);
	}
	CHECK(read(ready[0], &c, 1) == 1 && write(sv[0], "", 1) == 1);
	CHECK(!kill(pid, SIGUSR1));
	h.msg_controllen = sizeof(control);
	CHECK(recvmsg(sv[0], &h, 0) == 1);
	memcpy(&cred, CMSG_DATA(CMSG_FIRSTHDR(&h)), sizeof(cred));
	printf("it is %d:%d\n", cred.uid, cred.gid);
	CHECK(sigwaitinfo(&set, &info) == SIGCHLD);
	show_info("its end", &info);
	CHECK(!waitid(P_PID, (id_t)pid, &info, WEXITED));
	show_info("waitid", &info);
	return 0;
}

/* --- limits ------------------------------------------------------------------------------ */

static int limits(void)
{
	FILE *f = fopen("/proc/sys/user/max_user_namespaces", "r+");
	long old;

	CHECK(f); /* Linux asks for a capability that a container's root may not have */
	CHECK(fscanf(f, "%ld", &old) == 1 && old > 100);
	rewind(f);
	CHECK(fprintf(f, "1\n") > 0 && !fflush(f));
	if (!fork()) {
		become_user();
		T(unshare(CLONE_NEWUSER));
		CHECK(put("uid_map", "0 1000 1") == 8);
		CHECK(put("setgroups", "deny") == 4 && put("gid_map", "0 1000 1") == 8);
		T(unshare(CLONE_NEWUSER));
		T(open("/proc/sys/user/max_user_namespaces", O_WRONLY));
		fflush(stdout);
		_exit(0);
	}
	CHECK(wait(NULL) > 0);
	rewind(f);
	CHECK(fprintf(f, "%ld\n", old) > 0 && !fclose(f));
	return 0;
}

/* -------------------------------------------------------------------------------------------- */

static void copy_self(const char *to)
{
	char buf[65536];
	ssize_t n;
	int from = open("/proc/self/exe", O_RDONLY), fd = open(to, O_CREAT | O_WRONLY, 0700);

	CHECK(from >= 0 && fd >= 0);
	while ((n = read(from, buf, sizeof(buf))) > 0)
		CHECK(write(fd, buf, (size_t)n) == n);
	CHECK(n == 0);
	close(from);
	close(fd);
}

int main(int argc, char **argv)
{
	if (argc > 1 && !strcmp(argv[1], "--show")) {
		show_ids();
		show_caps();
		return 0;
	}
	if (argc > 1 && !strcmp(argv[1], "--limits"))
		return in_child(limits);
	if (argc > 1)
		return pause();
	self = DIR_OF_ROOT "/self";
	umask(022);
	CHECK(!mkdir(DIR_OF_ROOT, 0755) && !mkdir(DIR_OF_ROOT "/closed", 0700));
	CHECK(!make_file(DIR_OF_ROOT "/secret", "secret") && !chmod(DIR_OF_ROOT "/secret", 0600));
	CHECK(!make_file(DIR_OF_ROOT "/closed/file", "closed"));
	CHECK(!make_file("/dev/shm/userspaces.sticky", ""));
	copy_self(DIR_OF_ROOT "/self");
	copy_self(DIR_OF_ROOT "/blind");
	CHECK(!chmod(DIR_OF_ROOT "/self", 0755) && !chmod(DIR_OF_ROOT "/blind", 0711));
#define RUN(fn)                          \
	do {                             \
		printf("--- " #fn "\n"); \
		in_child(fn);            \
	} while (0)
	RUN(maps);
	RUN(large_maps);
	RUN(from_outside);
	RUN(powerless);
	RUN(same_user);
	RUN(exec_unmapped);
	RUN(exec_as_root);
	RUN(exec_as_other);
	RUN(unreadable);
	RUN(nested);
	RUN(in_chroot);
	RUN(with_threads);
	RUN(unmapped_maker);
	RUN(entering);
	RUN(entering_a_process);
	RUN(entering_pids);
	RUN(told);
	CHECK(!unlink(DIR_OF_ROOT "/closed/file") && !rmdir(DIR_OF_ROOT "/closed"));
	CHECK(!unlink(DIR_OF_ROOT "/secret") && !unlink(DIR_OF_ROOT "/self"));
	CHECK(!unlink(DIR_OF_ROOT "/blind") && !rmdir(DIR_OF_ROOT));
	CHECK(!unlink("/dev/shm/userspaces.sticky"));
	return 0;
}
