/* SPDX-License-Identifier: MIT */
/*
 * System V IPC: shared memory, semaphores and messages; permissions, waiting, the end of objects
 * and of tasks. Prints the same on both.
 */
#include "call.h"
#include "state.h"

#include <pthread.h>
#include <signal.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

static int *volatile nowhere = (int *)8;
static key_t key; /* of this process: others of the host have theirs */

union semun {
	int val;
	struct semid_ds *buf;
	unsigned short *array;
	struct seminfo *info;
};

static void id_of(const char *what, int id)
{
	printf("%s: %s\n", what, id >= 0 ? "an id" : strerrorname_np(errno));
}

static void address_of(const char *what, void *p)
{
	printf("%s: %s\n", what, p == (void *)-1 ? strerrorname_np(errno) : "an address");
}

/* Without lines that both would print. */
static pid_t child(void)
{
	fflush(stdout);
	return fork();
}

static void join(const char *what, pid_t pid)
{
	int status;

	CHECK(waitpid(pid, &status, 0) == pid);
	printf("%s: status %#x\n", what, status);
}

/* --- shared memory --------------------------------------------------------------------------- */

static void attached(const char *what, int id)
{
	struct shmid_ds ds;

	if (shmctl(id, IPC_STAT, &ds)) {
		printf("%s: %s\n", what, strerrorname_np(errno));
		return;
	}
	printf("%s: %d attached, mode %o, size %d, key %d, times %d%d, pids %d%d\n", what,
	       (int)ds.shm_nattch, ds.shm_perm.mode, (int)ds.shm_segsz, ds.shm_perm.__key == key,
	       ds.shm_atime != 0, ds.shm_dtime != 0, ds.shm_cpid == getpid(),
	       ds.shm_lpid == getpid());
}

static void segments(void)
{
	struct shmid_ds ds;
	struct shminfo info;
	struct shm_info used;
	int id = shmget(key, 3 * PAGE - 100, IPC_CREAT | IPC_EXCL | 0640);
	char *room = mmap(NULL, 64 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *a, *b, *c;

	CHECK(room != MAP_FAILED && munmap(room, 64 * PAGE) == 0);
	id_of("new", id);
	id_of("again", shmget(key, 1, IPC_CREAT | IPC_EXCL | 0640));
	id_of("the same", shmget(key, 0, 0));
	id_of("larger", shmget(key, 4 * PAGE, 0));
	id_of("not there", shmget(key + 1, PAGE, 0));
	id_of("nothing", shmget(IPC_PRIVATE, 0, 0600));
	attached("begin", id);
	a = shmat(id, room + 16 * PAGE, 0);
	address_of("attach", a);
	b = shmat(id, room + 32 * PAGE, SHM_RDONLY);
	address_of("to read", b);
	attached("two", id);
	strcpy(a + PAGE, "one page further");
	printf("<%s> rest %d\n", b + PAGE, b[3 * PAGE - 1]);
	call("read-only stays", mprotect(b, PAGE, PROT_READ | PROT_WRITE));
	address_of("not aligned", shmat(id, a + 1, 0));
	address_of("over itself", shmat(id, a, 0));
	address_of("nowhere", shmat(id, NULL, SHM_REMAP));
	address_of("no id", shmat(-1, NULL, 0));
	address_of("no such id", shmat(id + 1, NULL, 0));
	printf("over it: %d\n", shmat(id, a + PAGE + 5, SHM_RND | SHM_REMAP) == a + PAGE);
	attached("remapped", id);
	printf("<%.3s> <%s>\n", a, a + 2 * PAGE);
	call("part goes", munmap(b + PAGE, PAGE));
	attached("split", id);
	call("detach the rest", shmdt(b));
	attached("detached", id);
	call("again", shmdt(b));
	call("in the middle", shmdt(a + 3 * PAGE));
	call("not aligned", shmdt(a + 1));
	c = mremap(a + PAGE, 3 * PAGE, 3 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, room + 48 * PAGE);
	printf("moved: %d <%s>\n", c == room + 48 * PAGE, c + PAGE);
	attached("moved", id);
	call("detach moved", shmdt(c));
	attached("first is left", id);
	call("set", (ds.shm_perm.uid = getuid(), ds.shm_perm.gid = getgid(),
		     ds.shm_perm.mode = 0777, shmctl(id, IPC_SET, &ds)));
	call("lock", shmctl(id, SHM_LOCK, NULL));
	attached("locked", id);
	call("unlock", shmctl(id, SHM_UNLOCK, NULL));
	call("remove", shmctl(id, IPC_RMID, NULL));
	attached("removed", id);
	id_of("its key", shmget(key, 0, 0));
	address_of("attach once more", b = shmat(id, NULL, 0));
	call("detach", shmdt(b));
	attached("one left", id);
	call("last", shmdt(a));
	attached("gone", id);
	call("stat nowhere",
	     (id = shmget(key, PAGE, IPC_CREAT | 0600), shmctl(id, IPC_STAT, (void *)nowhere)));
	call("set nowhere", shmctl(id, IPC_SET, (void *)nowhere));
	call("what", shmctl(id, 99, &ds));
	call("negative", shmctl(id, -1, &ds));
	printf("info %d %d\n", shmctl(0, IPC_INFO, (void *)&info) >= 0,
	       shmctl(0, SHM_INFO, (void *)&used) >= 0 && used.used_ids > 0);
	call("remove", shmctl(id, IPC_RMID, NULL));
	call("remove again", shmctl(id, IPC_RMID, NULL));
}

/* A child has what its parent has attached; a program does not. */
static void inherit(void)
{
	const int id = shmget(IPC_PRIVATE, PAGE, 0600);
	volatile int *p = shmat(id, NULL, 0);
	pid_t pid;

	CHECK(p != (void *)-1);
	*p = 1;
	pid = child();
	if (!pid) {
		attached("in the child", id);
		*p = 2;
		_exit(fflush(stdout));
	}
	join("child", pid);
	printf("it wrote %d\n", *p);
	pid = child();
	if (!pid) {
		shmdt((void *)p);
		attached("child without", id);
		fflush(stdout);
		raise(SIGSEGV);
	}
	join("killed", pid);
	attached("parent", id);
	call("remove", shmctl(id, IPC_RMID, NULL));
	pid = child();
	if (!pid)
		_exit(*p);
	join("child of a removed one", pid);
	call("detach", shmdt((void *)p));
	attached("gone", id);
}

/* --- semaphores ------------------------------------------------------------------------------ */

static void values(const char *what, int id)
{
	unsigned short v[3] = { 0 };

	if (semctl(id, 0, GETALL, (union semun){ .array = v })) {
		printf("%s: %s\n", what, strerrorname_np(errno));
		return;
	}
	printf("%s: %d %d %d\n", what, v[0], v[1], v[2]);
}

static void op(const char *what, int id, int num, int by, int flags)
{
	struct sembuf b = { .sem_num = (unsigned short)num,
			    .sem_op = (short)by,
			    .sem_flg = (short)flags };

	call(what, semop(id, &b, 1));
}

static void until(int id, int cmd, int num, int nr)
{
	while (semctl(id, num, cmd) != nr)
		usleep(1000);
}

static void sets(void)
{
	const struct timespec soon = { .tv_nsec = 20000000 }, wrong = { .tv_nsec = 2000000000 };
	struct sembuf both[] = { { 0, -1, 0 }, { 1, -2, 0 }, { 2, 5, 0 } };
	struct sembuf back[] = { { 2, 3, IPC_NOWAIT }, { 0, -9, IPC_NOWAIT } };
	struct semid_ds ds;
	struct seminfo info;
	int id = semget(key, 3, IPC_CREAT | IPC_EXCL | 0600);

	id_of("new", id);
	id_of("more", semget(key, 4, 0));
	id_of("fewer", semget(key, 2, 0));
	id_of("none", semget(IPC_PRIVATE, 0, 0600));
	id_of("negative", semget(IPC_PRIVATE, -1, 0600));
	id_of("many", semget(IPC_PRIVATE, 1000000, 0600));
	values("zeroes", id);
	call("set", semctl(id, 1, SETVAL, (union semun){ .val = 7 }));
	call("negative", semctl(id, 1, SETVAL, (union semun){ .val = -1 }));
	call("large", semctl(id, 1, SETVAL, (union semun){ .val = 40000 }));
	call("fourth", semctl(id, 3, SETVAL, (union semun){ .val = 1 }));
	call("get", semctl(id, 1, GETVAL));
	call("get none", semctl(id, -1, GETVAL));
	printf("pid %d %d\n", semctl(id, 1, GETPID) == getpid(), semctl(id, 0, GETPID));
	op("up", id, 0, 2, 0);
	call("all", semop(id, both, 3));
	values("after", id);
	call("not at once", semtimedop(id, back, 2, NULL));
	values("as before", id);
	op("would wait", id, 0, -2, IPC_NOWAIT);
	op("not zero", id, 0, 0, IPC_NOWAIT);
	op("fourth", id, 3, 1, 0);
	op("too much", id, 1, 32767, 0);
	call("none", semop(id, both, 0));
	call("501", semop(id, both, 501));
	call("nowhere", semop(id, (void *)nowhere, 1));
	call("no id", semop(-1, both, 1));
	call("timeout", semtimedop(id, (struct sembuf[]){ { 0, -9, 0 } }, 1, &soon));
	call("no time", semtimedop(id, (struct sembuf[]){ { 0, -9, 0 } }, 1, &wrong));
	call("set all",
	     semctl(id, 0, SETALL, (union semun){ .array = (unsigned short[]){ 1, 2, 3 } }));
	call("too large",
	     semctl(id, 0, SETALL, (union semun){ .array = (unsigned short[]){ 9, 9, 65535 } }));
	values("all", id);
	CHECK(semctl(id, 0, IPC_STAT, (union semun){ .buf = &ds }) == 0);
	printf("nsems %d mode %o otime %d\n", (int)ds.sem_nsems, ds.sem_perm.mode,
	       ds.sem_otime != 0);
	CHECK(semctl(0, 0, SEM_INFO, (union semun){ .info = &info }) >= 0);
	printf("most %d\n", info.semvmx);
	call("what", semctl(id, 0, 99));
	call("remove", semctl(id, 0, IPC_RMID));
	call("again", semctl(id, 0, IPC_RMID));
	op("gone", id, 0, 1, 0);
}

static void quiet(int signo __attribute__((unused)))
{
}

static pid_t waiter(const char *what, int id, int num, int by, int flags)
{
	pid_t pid = child();

	if (!pid) {
		struct sigaction sa = { .sa_handler = quiet };

		sigaction(SIGUSR1, &sa, NULL);
		op(what, id, num, by, flags);
		_exit(fflush(stdout));
	}
	return pid;
}

static void waits(void)
{
	const int id = semget(IPC_PRIVATE, 3, 0600);
	pid_t a, b;

	a = waiter("for two", id, 0, -2, 0);
	until(id, GETNCNT, 0, 1);
	op("one", id, 0, 1, 0);
	call("still waits", semctl(id, 0, GETNCNT));
	op("two", id, 0, 1, 0);
	join("first", a);
	op("three", id, 1, 3, 0);
	b = waiter("for zero", id, 1, 0, 0);
	until(id, GETZCNT, 1, 1);
	call("set", semctl(id, 1, SETVAL, (union semun){ .val = 0 }));
	join("second", b);
	a = waiter("interrupted", id, 0, -1, 0);
	until(id, GETNCNT, 0, 1);
	kill(a, SIGUSR1);
	join("third", a);
	call("nobody waits", semctl(id, 0, GETNCNT));
	a = waiter("removed", id, 0, -1, 0);
	until(id, GETNCNT, 0, 1);
	call("remove", semctl(id, 0, IPC_RMID));
	join("fourth", a);
}

static void *undone_by_thread(void *id)
{
	op("thread takes", *(int *)id, 0, -1, SEM_UNDO);
	return NULL;
}

static void undo(void)
{
	int id = semget(IPC_PRIVATE, 3, 0600);
	pthread_t thread;
	pid_t a, b;

	call("five", semctl(id, 0, SETVAL, (union semun){ .val = 5 }));
	b = waiter("for six", id, 0, -6, 0);
	until(id, GETNCNT, 0, 1);
	a = child();
	if (!a) {
		pthread_create(&thread, NULL, undone_by_thread, &id);
		pthread_join(thread, NULL);
		values("a thread's end undoes nothing", id);
		op("takes", id, 0, -2, SEM_UNDO);
		op("gives", id, 1, 4, SEM_UNDO);
		op("keeps", id, 0, 1, 0);
		op("gives and", id, 2, 1, SEM_UNDO);
		call("forgets", semctl(id, 2, SETVAL, (union semun){ .val = 9 }));
		values("before the end", id);
		_exit(fflush(stdout));
	}
	join("child", a);
	join("six", b);
	values("undone", id);
	a = child();
	if (!a) {
		op("takes", id, 2, -9, SEM_UNDO);
		fflush(stdout);
		if (!child()) {
			op("grandchild", id, 2, 1, 0);
			_exit(fflush(stdout));
		}
		wait(NULL);
		raise(SIGKILL);
	}
	join("killed", a);
	values("nine and one", id);
	call("remove", semctl(id, 0, IPC_RMID));
}

/* --- messages -------------------------------------------------------------------------------- */

struct text {
	long type;
	char text[9000];
};

static void say(const char *what, int id, long type, const char *text, int flags)
{
	struct text m = { .type = type };

	strcpy(m.text, text);
	call(what, msgsnd(id, &m, strlen(text), flags));
}

static void hear(const char *what, int id, long type, size_t size, int flags)
{
	struct text m = { .type = 0 };
	const ssize_t n = msgrcv(id, &m, size, type, flags);
	const int err = errno;

	if (n < 0)
		printf("%s: %s\n", what, strerrorname_np(err));
	else
		printf("%s: %ld <%.*s>\n", what, m.type, (int)n, m.text);
}

static void messages(void)
{
	struct msqid_ds ds;
	struct msginfo info;
	struct text m = { .type = 1 };
	int id = msgget(key, IPC_CREAT | IPC_EXCL | 0600);

	id_of("new", id);
	id_of("again", msgget(key, IPC_CREAT | IPC_EXCL));
	hear("empty", id, 0, 100, IPC_NOWAIT);
	say("first", id, 3, "three", 0);
	say("second", id, 1, "one", 0);
	say("third", id, 2, "two", 0);
	say("fourth", id, 3, "three more", 0);
	say("empty", id, 7, "", 0);
	say("no type", id, 0, "zero", 0);
	say("negative", id, -4, "minus", 0);
	call("too long", msgsnd(id, &m, 8193, 0));
	call("longer", msgsnd(id, &m, (size_t)-1, 0));
	call("nowhere", msgsnd(id, (void *)nowhere, 1, 0));
	CHECK(msgctl(id, IPC_STAT, &ds) == 0);
	printf("%d messages, %d of %d bytes, pids %d%d\n", (int)ds.msg_qnum, (int)ds.__msg_cbytes,
	       (int)ds.msg_qbytes, ds.msg_lspid == getpid(), ds.msg_lrpid);
	hear("a copy", id, 2, 100, MSG_COPY | IPC_NOWAIT);
	hear("no copy", id, 9, 100, MSG_COPY | IPC_NOWAIT);
	hear("copy that waits", id, 0, 100, MSG_COPY);
	hear("at most two", id, -2, 100, 0);
	hear("too small", id, 3, 2, 0);
	hear("cut", id, 3, 2, MSG_NOERROR);
	hear("not three", id, 3, 100, MSG_EXCEPT);
	hear("any", id, 0, 100, 0);
	hear("the empty one", id, 7, 0, 0);
	hear("none of it", id, 9, 100, IPC_NOWAIT);
	hear("negative size", id, 0, (size_t)-1, 0);
	call("fill", msgsnd(id, &m, 8192, IPC_NOWAIT) + msgsnd(id, &m, 8192, IPC_NOWAIT));
	say("full", id, 1, "x", IPC_NOWAIT);
	say("an empty one fits", id, 1, "", IPC_NOWAIT);
	ds.msg_perm.mode = 0640;
	ds.msg_qbytes = 10000;
	call("set", msgctl(id, IPC_SET, &ds));
	CHECK(msgctl(id, IPC_STAT, &ds) == 0);
	printf("mode %o room %d\n", ds.msg_perm.mode, (int)ds.msg_qbytes);
	printf("info %d\n", msgctl(0, MSG_INFO, (void *)&info) >= 0 && info.msgmap >= 3);
	call("what", msgctl(id, 99, &ds));
	call("remove", msgctl(id, IPC_RMID, NULL));
	hear("gone", id, 0, 100, 0);
}

static void talk(void)
{
	const int id = msgget(IPC_PRIVATE, 0600);
	struct sigaction sa = { .sa_handler = quiet };
	pid_t a, b;
	int sum = 0;

	/* 1,000 messages of 100 bytes through a queue that holds 163. */
	a = child();
	if (!a) {
		struct text m = { .type = 1 };

		for (int i = 0; i < 1000; i++) {
			memcpy(m.text, &i, sizeof(i));
			m.type = 1 + i % 5;
			CHECK(msgsnd(id, &m, 100, 0) == 0);
		}
		_exit(0);
	}
	for (int i = 0; i < 1000; i++) {
		struct text m;
		int n;

		CHECK(msgrcv(id, &m, sizeof(m.text), 0, 0) == 100);
		memcpy(&n, m.text, sizeof(n));
		CHECK(n == i && m.type == 1 + i % 5);
		sum += n;
	}
	join("talker", a);
	printf("sum %d\n", sum);
	a = child();
	if (!a) {
		hear("for five", id, 5, 100, 0);
		_exit(fflush(stdout));
	}
	b = child();
	if (!b) {
		sigaction(SIGUSR1, &sa, NULL);
		hear("for six", id, 6, 100, 0);
		_exit(fflush(stdout));
	}
	say("six", id, 6, "six", 0);
	join("six", b);
	say("five", id, 5, "five", 0);
	join("five", a);
	a = child();
	if (!a) {
		struct text m;

		CHECK(msgrcv(id, &m, 100, 0, 0) < 0);
		CHECK(errno == EIDRM || errno == EINVAL); /* it waited, or was late */
		_exit(0);
	}
	await_state(a, 'S');
	call("remove", msgctl(id, IPC_RMID, NULL));
	join("removed", a);
}

/* --- others ---------------------------------------------------------------------------------- */

static void strangers(void)
{
	const int shm = shmget(IPC_PRIVATE, PAGE, 0604), sem = semget(IPC_PRIVATE, 1, 0604);
	const int msg = msgget(IPC_PRIVATE, 0604);
	struct text m = { .type = 1 };
	pid_t pid;

	if (geteuid() == 0) {
		pid = child();
		if (!pid) {
			CHECK(setgid(54321) == 0 && setuid(54321) == 0);
			address_of("read", shmat(shm, NULL, SHM_RDONLY));
			address_of("write", shmat(shm, NULL, 0));
			call("remove", shmctl(shm, IPC_RMID, NULL));
			call("value", semctl(sem, 0, GETVAL));
			call("set", semctl(sem, 0, SETVAL, (union semun){ .val = 1 }));
			op("up", sem, 0, 1, 0);
			op("look", sem, 0, 0, 0);
			call("remove", semctl(sem, 0, IPC_RMID));
			call("send", msgsnd(msg, &m, 1, 0));
			hear("receive", msg, 0, 1, IPC_NOWAIT);
			call("remove", msgctl(msg, IPC_RMID, NULL));
			_exit(fflush(stdout));
		}
		join("stranger", pid);
	}
	call("remove",
	     shmctl(shm, IPC_RMID, NULL) + semctl(sem, 0, IPC_RMID) + msgctl(msg, IPC_RMID, NULL));
}

/* The first line of a file, and how many there are with @id in them. */
static void file(const char *path, int id)
{
	char line[400], text[16];
	FILE *f = fopen(path, "r");
	int nr = 0;

	CHECK(f && fgets(line, sizeof(line), f));
	printf("%s: %s", path, line);
	snprintf(text, sizeof(text), " %d ", id);
	while (fgets(line, sizeof(line), f))
		nr += strstr(line, text) != NULL;
	printf("%d\n", nr > 0);
	fclose(f);
}

static void files(void)
{
	const int shm = shmget(key, PAGE, IPC_CREAT | 0600);
	const int sem = semget(key, 1, IPC_CREAT | 0600), msg = msgget(key, IPC_CREAT | 0600);

	file("/proc/sysvipc/shm", shm);
	file("/proc/sysvipc/sem", sem);
	file("/proc/sysvipc/msg", msg);
	call("remove",
	     shmctl(shm, IPC_RMID, NULL) + semctl(sem, 0, IPC_RMID) + msgctl(msg, IPC_RMID, NULL));
}

int main(void)
{
	key = 0x54000000 | getpid();
	setvbuf(stdout, NULL, _IOFBF, 1 << 16); /* a child prints all of its lines at its end */
	segments();
	fflush(stdout);
	inherit();
	fflush(stdout);
	sets();
	fflush(stdout);
	waits();
	fflush(stdout);
	undo();
	fflush(stdout);
	messages();
	fflush(stdout);
	talk();
	fflush(stdout);
	strangers();
	files();
	return 0;
}
