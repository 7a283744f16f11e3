// SPDX-License-Identifier: MIT
/*
 * Namespaces of System V IPC and POSIX message queues: keys, ids, names and limits of their own,
 * and the end of all that is in one.
 */
#include "user.h"

#include <mqueue.h>
#include <sched.h>
#include <signal.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define KEY  0x7e55e7a
#define NAME "/ipcspaces"

static void show_file(const char *path)
{
	char buf[256] = "";
	const int fd = open(path, O_RDONLY);

	CHECK(fd >= 0 && read(fd, buf, sizeof(buf) - 1) > 0);
	printf("%s: %s", path, buf);
	close(fd);
}

static void put_file(const char *path, const char *text)
{
	const int fd = open(path, O_WRONLY);

	printf("%s to %s: %d\n", text, path,
	       fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
	close(fd);
}

/* The lines behind the first one. */
static int lines_of(const char *path)
{
	FILE *f = fopen(path, "r");
	char line[512];
	int n = -1;

	CHECK(f);
	while (fgets(line, sizeof(line), f))
		n++;
	fclose(f);
	return n;
}

static void show_counts(void)
{
	printf("%d segments, %d sets, %d queues\n", lines_of("/proc/sysvipc/shm"),
	       lines_of("/proc/sysvipc/sem"), lines_of("/proc/sysvipc/msg"));
}

static void show_limits(void)
{
	static const char *const files[] = { "kernel/shmmax",        "kernel/shmall",
					     "kernel/shmmni",        "kernel/msgmax",
					     "kernel/msgmnb",        "kernel/msgmni",
					     "kernel/sem",           "kernel/shm_next_id",
					     "fs/mqueue/queues_max", "fs/mqueue/msg_max",
					     "fs/mqueue/msgsize_max" };
	char path[64];

	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		snprintf(path, sizeof(path), "/proc/sys/%s", files[i]);
		show_file(path);
	}
}

static ino_t ino_of_ipc(void)
{
	struct stat st = { 0 };

	CHECK(stat("/proc/self/ns/ipc", &st) == 0);
	return st.st_ino;
}

static int shm, sem, msg; /* of the namespace that we begin in */
static mqd_t mq;

static void make_all(void)
{
	struct {
		long type;
		char text[8];
	} m = { 1, "message" };

	shm = shmget(KEY, 3 * PAGE, IPC_CREAT | IPC_EXCL | 0600);
	sem = semget(KEY, 2, IPC_CREAT | IPC_EXCL | 0600);
	msg = msgget(KEY, IPC_CREAT | IPC_EXCL | 0600);
	CHECK(shm >= 0 && sem >= 0 && msg >= 0);
	CHECK(msgsnd(msg, &m, sizeof(m.text), 0) == 0);
	mq = mq_open(NAME, O_CREAT | O_EXCL | O_RDWR, 0600, NULL);
	CHECK(mq >= 0);
	CHECK(mq_send(mq, "outside", 7, 1) == 0);
}

static void look_for_all(void)
{
	T(shmget(KEY, 0, 0) >= 0);
	T(semget(KEY, 0, 0) >= 0);
	T(msgget(KEY, 0) >= 0);
	T(mq_open(NAME, O_RDWR) >= 0);
}

/* --- in a namespace of its own --------------------------------------------------------- */

static void *kept; /* mapped before: it stays */

static void inside(void)
{
	const ino_t old = ino_of_ipc();
	char buf[8192];
	struct shmid_ds ds;

	T(unshare(CLONE_NEWIPC));
	printf("another one %d\n", ino_of_ipc() != old);
	printf("%s\n", (char *)kept);
	T(shmdt(kept));
	look_for_all();
	T(shmctl(shm, IPC_STAT, &ds));
	show_counts();
	show_limits();
	T(mq_receive(mq, buf, sizeof(buf), NULL));
	T(mq_send(mq, "back", 4, 0));
	T(shmget(KEY, PAGE, IPC_CREAT | 0600));
	T(semget(KEY, 1, IPC_CREAT | 0600));
	T(msgget(KEY, IPC_CREAT | 0600));
	T(shmget(IPC_PRIVATE, PAGE, 0600));
	T(mq_open(NAME, O_CREAT | O_EXCL | O_RDWR, 0600, NULL) >= 0);
	show_counts();
	put_file("/proc/sys/kernel/shmmni", "3");
	put_file("/proc/sys/kernel/msgmax", "77");
	put_file("/proc/sys/fs/mqueue/queues_max", "1");
	put_file("/proc/sys/kernel/sem", "10 20 30 1");
	T(shmget(IPC_PRIVATE, PAGE, 0600) >= 0);
	T(shmget(IPC_PRIVATE, PAGE, 0600));
	T(semget(IPC_PRIVATE, 1, 0600));
	T(msgsnd(0, buf, 78, IPC_NOWAIT));
	show_limits();
	T(shmctl(0, IPC_RMID, NULL));
	show_counts();
}

/* --- who enters, and what a task takes back ----------------------------------------------- */

static int with_undo(void)
{
	struct sembuf up = { 0, 1, SEM_UNDO };

	return semop(sem, &up, 1);
}

static void undone(void)
{
	T(with_undo());
	T(semctl(sem, 0, GETVAL));
	fflush(stdout);
	if (!fork()) {
		T(with_undo());
		T(semctl(sem, 0, GETVAL));
		T(unshare(CLONE_NEWIPC));
		T(semctl(sem, 0, GETVAL));
		T(setns(open("/proc/self/ns/ipc", O_RDONLY), CLONE_NEWIPC));
		fflush(stdout);
		_exit(0);
	}
	CHECK(wait(NULL) > 0);
	T(semctl(sem, 0, GETVAL));
	T(setns(open("/proc/self/ns/ipc", O_RDONLY), CLONE_NEWIPC));
	T(semctl(sem, 0, GETVAL));
	T(syscall(SYS_clone, CLONE_NEWIPC | CLONE_SYSVSEM | SIGCHLD, 0, 0, 0, 0));
}

/* The namespace, its segment and its queue are kept by a descriptor, a mapping and a descriptor. */
static void entered(void)
{
	const int old = open("/proc/self/ns/ipc", O_RDONLY);
	char buf[8192] = "", *at, path[64];
	int ready[2], id, ns, pidfd;
	mqd_t q;
	pid_t pid;

	CHECK(pipe(ready) == 0);
	fflush(stdout);
	pid = fork();
	if (!pid) {
		CHECK(unshare(CLONE_NEWIPC) == 0);
		id = shmget(KEY, 2 * PAGE, IPC_CREAT | 0600);
		CHECK(id >= 0 && semget(KEY, 1, IPC_CREAT | 0600) >= 0);
		at = shmat(id, NULL, 0);
		strcpy(at, "in the segment");
		CHECK(write(ready[1], &id, sizeof(id)) == sizeof(id));
		for (;;)
			pause();
	}
	CHECK(read(ready[0], &id, sizeof(id)) == sizeof(id));
	snprintf(path, sizeof(path), "/proc/%d/ns/ipc", pid);
	ns = open(path, O_RDONLY | O_CLOEXEC);
	pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	T(setns(pidfd, CLONE_NEWIPC));
	show_counts();
	T(setns(old, 0));
	CHECK(kill(pid, SIGKILL) == 0 && waitpid(pid, NULL, 0) == pid);
	T(setns(ns, CLONE_NEWIPC));
	show_counts();
	at = shmat(id, NULL, 0);
	printf("%s\n", at);
	q = mq_open(NAME, O_CREAT | O_RDWR, 0600, NULL);
	T(mq_send(q, "kept", 4, 0));
	T(setns(old, CLONE_NEWIPC));
	T(close(ns));
	/* No task is in it any more. */
	printf("%s\n", at);
	strcpy(at + PAGE, "still");
	T(mq_receive(q, buf, sizeof(buf), NULL));
	printf("%s\n", buf);
	T(mq_close(q));
	T(shmdt(at));
}

/* The last reference of a namespace with something in it is that of a message, which is dropped. */
static void sent(void)
{
	char control[CMSG_SPACE(sizeof(int))] = "", c;
	struct iovec iov = { &c, 1 };
	struct msghdr m = { .msg_iov = &iov,
			    .msg_iovlen = 1,
			    .msg_control = control,
			    .msg_controllen = sizeof(control) };
	struct cmsghdr *h = CMSG_FIRSTHDR(&m);
	int ends[2], old, ns;

	old = open("/proc/self/ns/ipc", O_RDONLY);
	CHECK(unshare(CLONE_NEWIPC) == 0 && !socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends));
	CHECK(semget(1, 2, IPC_CREAT | 0600) >= 0 && msgget(1, IPC_CREAT | 0600) >= 0);
	ns = open("/proc/self/ns/ipc", O_RDONLY);
	CHECK(old >= 0 && ns >= 0);
	h->cmsg_level = SOL_SOCKET;
	h->cmsg_type = SCM_RIGHTS;
	h->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(h), &ns, sizeof(ns));
	T(sendmsg(ends[0], &m, 0));
	CHECK(close(ns) == 0 && setns(old, CLONE_NEWIPC) == 0);
	T(recv(ends[1], &c, 1, 0));
}

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

static void all(void)
{
	struct shmid_ds ds;
	char buf[8192] = "";

	/* One of its own, so that nothing of before is seen. */
	CHECK(unshare(CLONE_NEWIPC) == 0);
	make_all();
	kept = shmat(shm, NULL, 0);
	strcpy(kept, "in a segment of before");
	in_child(inside);
	look_for_all();
	show_counts();
	T(mq_receive(mq, buf, sizeof(buf), NULL));
	printf("%s\n", buf);
	in_child(undone);
	in_child(entered);
	in_child(sent);
	T(shmctl(shm, IPC_STAT, &ds));
	printf("attached %ld\n", (long)ds.shm_nattch);
	show_counts();
	T(mq_unlink(NAME));
}

int main(void)
{
	in_child(all);
	return 0;
}
