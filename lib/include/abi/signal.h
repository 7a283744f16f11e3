/* SPDX-License-Identifier: MIT */
/* Signals: Linux's <asm/signal.h>, <asm/siginfo.h>, <linux/signalfd.h>. */
#pragma once

#include <lib/compiler.h>
#include <stdint.h>

#define SIGHUP    1
#define SIGINT    2
#define SIGQUIT   3
#define SIGILL    4
#define SIGTRAP   5
#define SIGABRT   6
#define SIGBUS    7
#define SIGFPE    8
#define SIGKILL   9
#define SIGUSR1   10
#define SIGSEGV   11
#define SIGUSR2   12
#define SIGPIPE   13
#define SIGALRM   14
#define SIGTERM   15
#define SIGSTKFLT 16
#define SIGCHLD   17
#define SIGCONT   18
#define SIGSTOP   19
#define SIGTSTP   20
#define SIGTTIN   21
#define SIGTTOU   22
#define SIGURG    23
#define SIGXCPU   24
#define SIGXFSZ   25
#define SIGVTALRM 26
#define SIGPROF   27
#define SIGWINCH  28
#define SIGIO     29
#define SIGPWR    30
#define SIGSYS    31

#define SIGRTMIN 32 /* the kernel's; a C library keeps the first few for itself */

/* rt_sigprocmask() */
#define SIG_BLOCK   0
#define SIG_UNBLOCK 1
#define SIG_SETMASK 2

/* rt_sigaction() */
#define SIG_DFL 0ull
#define SIG_IGN 1ull

#define SA_NOCLDSTOP      0x00000001ull
#define SA_NOCLDWAIT      0x00000002ull
#define SA_SIGINFO        0x00000004ull
#define SA_EXPOSE_TAGBITS 0x00000800ull
#define SA_RESTORER       0x04000000ull
#define SA_ONSTACK        0x08000000ull
#define SA_RESTART        0x10000000ull
#define SA_NODEFER        0x40000000ull
#define SA_RESETHAND      0x80000000ull

struct linux_sigaction { /* the kernel's: a C library's has another order */
	uint64_t handler;
	uint64_t flags;
	uint64_t restorer;
	uint64_t mask;
};

/* sigaltstack() */
#define SS_ONSTACK    0x1u
#define SS_DISABLE    0x2u
#define SS_AUTODISARM 0x80000000u
#define MINSIGSTKSZ   0x800u

struct linux_stack {
	uint64_t sp;
	uint32_t flags;
	uint32_t pad;
	uint64_t size;
};

/* siginfo_t: its code. */
#define SI_USER       0
#define SYS_SECCOMP   1
#define SI_KERNEL     128
#define SI_QUEUE      (-1)
#define SI_TIMER      (-2)
#define SI_MESGQ      (-3)
#define SI_ASYNCIO    (-4)
#define SI_SIGIO      (-5)
#define SI_TKILL      (-6)
#define ILL_ILLOPN    2
#define FPE_INTDIV    1
#define FPE_FLTDIV    3
#define FPE_FLTOVF    4
#define FPE_FLTUND    5
#define FPE_FLTRES    6
#define FPE_FLTINV    7
#define SEGV_MAPERR   1
#define SEGV_ACCERR   2
#define BUS_ADRALN    1
#define BUS_ADRERR    2
#define TRAP_BRKPT    1
#define TRAP_TRACE    2
#define TRAP_HWBKPT   4
#define CLD_EXITED    1
#define CLD_KILLED    2
#define CLD_DUMPED    3
#define CLD_TRAPPED   4
#define CLD_STOPPED   5
#define CLD_CONTINUED 6
#define POLL_IN       1
#define POLL_OUT      2
#define POLL_MSG      3

/* The first 48 bytes, all that the kernel fills; the other 80 are zero. */
struct linux_siginfo {
	int32_t signo;
	int32_t err;
	int32_t code;
	uint32_t pad;
	union {
		struct {
			union {
				uint32_t pid; /* kill, sigqueue, SIGCHLD: in the receiver's eyes */
				int32_t timer_id; /* SI_TIMER */
			};
			union {
				uint32_t uid;
				int32_t overrun; /* SI_TIMER */
			};
			union {
				uint64_t value; /* sigqueue, SI_TIMER */
				int32_t status; /* SIGCHLD: exit code or signal */
			};
			int64_t utime, stime; /* SIGCHLD: clock ticks */
		};
		struct {
			int64_t band; /* SIGIO, or as F_SETSIG says: POLL* of poll() */
			int32_t fd;
		};
		struct { /* SIGSYS */
			uint64_t call_addr;
			int32_t syscall;
			uint32_t arch;
		};
		uint64_t addr; /* faults */
		uint64_t words[4];
	};
};
static_assert(sizeof(struct linux_siginfo) == 48, "siginfo is ABI");
static_assert(offsetof(struct linux_siginfo, value) == 24, "siginfo is ABI");

/* siginfo_t: the kernel's part and zeroes. */
struct siginfo_user {
	struct linux_siginfo info;
	uint8_t zero[80];
};
static_assert(sizeof(struct siginfo_user) == 128, "siginfo is ABI");

/* struct sigevent: how a timer tells. */
#define SIGEV_SIGNAL    0
#define SIGEV_NONE      1
#define SIGEV_THREAD    2
#define SIGEV_THREAD_ID 4

struct linux_sigevent {
	uint64_t value;
	int32_t signo;
	int32_t notify;
	int32_t tid;
	uint8_t rest[44];
};
static_assert(sizeof(struct linux_sigevent) == 64, "struct sigevent is ABI");

/* signalfd4() */
#define SFD_CLOEXEC  02000000u
#define SFD_NONBLOCK 04000u

struct linux_signalfd_siginfo {
	uint32_t signo;
	int32_t err;
	int32_t code;
	uint32_t pid, uid;
	int32_t fd;
	uint32_t tid, band, overrun, trapno;
	int32_t status;
	int32_t int_value;
	uint64_t ptr;
	uint64_t utime, stime;
	uint64_t addr;
	uint16_t addr_lsb, pad2;
	int32_t syscall;
	uint64_t call_addr;
	uint32_t arch;
	uint8_t pad[28];
};
static_assert(sizeof(struct linux_signalfd_siginfo) == 128, "struct signalfd_siginfo is ABI");
