/* SPDX-License-Identifier: MIT */
/*
 * <abi/...> has the numbers of the installed headers of Linux and of the C library. The structures
 * are compared when abi_uapi.c and abi_libc.c are compiled.
 */
#include <abi/aio.h>
#include <abi/elf.h>
#include <abi/errqueue.h>
#include <abi/fcntl.h>
#include <abi/futex.h>
#include <abi/in.h>
#include <abi/inotify.h>
#include <abi/ioctl.h>
#include <abi/ioprio.h>
#include <abi/ipc.h>
#include <abi/mempolicy.h>
#include <abi/mman.h>
#include <abi/mount.h>
#include <abi/mqueue.h>
#include <abi/net.h>
#include <abi/netlink.h>
#include <abi/poll.h>
#include <abi/prctl.h>
#include <abi/ptrace.h>
#include <abi/resource.h>
#include <abi/rseq.h>
#include <abi/sched.h>
#include <abi/seccomp.h>
#include <abi/sigcontext.h>
#include <abi/signal.h>
#include <abi/socket.h>
#include <abi/stat.h>
#include <abi/sysinfo.h>
#include <abi/termios.h>
#include <abi/time.h>
#include <abi/xattr.h>
#include <lib/compiler.h>
#include <lib/ktest.h>
#include <lib/string.h>

#include "abi_numbers.h"

static const struct abi_number ours[] = {
#include <generated/abi_numbers.h>
};

/* Names that the installed headers may lack, and why. */
static const char *const unknown[] = {
	"ARCH_CET_STATUS",                  /* was never in a release */
	"AT_HANDLE_FID",                    /* since Linux 6.5 */
	"AT_HANDLE_MNT_ID_UNIQUE",          /* since Linux 6.12 */
	"FUTEX2_PRIVATE",                   /* since Linux 6.7 */
	"FUTEX2_SIZE_U32",                  /* since Linux 6.7 */
	"F_CREATED_QUERY",                  /* since Linux 6.12 */
	"F_DUPFD_QUERY",                    /* since Linux 6.10 */
	"F_SEAL_ALL",                       /* in the kernel's own sources only */
	"F_SEAL_EXEC",                      /* since Linux 6.3 */
	"IFF_LOWER_UP",                     /* in <linux/if.h>, which contradicts the C library's */
	"IF_OPER_DOWN",                     /* the same */
	"IF_OPER_UNKNOWN",                  /* the same */
	"IF_OPER_UP",                       /* the same */
	"LISTMOUNT_REVERSE",                /* since Linux 6.11 */
	"LSMT_ROOT",                        /* since Linux 6.8 */
	"MADV_GUARD_INSTALL",               /* since Linux 6.13 */
	"MADV_GUARD_REMOVE",                /* since Linux 6.13 */
	"MFD_EXEC",                         /* since Linux 6.3 */
	"MFD_NOEXEC_SEAL",                  /* since Linux 6.3 */
	"MEMBARRIER_CMD_GET_REGISTRATIONS", /* since Linux 6.3 */
	"MPOL_WEIGHTED_INTERLEAVE",         /* since Linux 6.9 */
	"MNT_ID_REQ_SIZE_VER0",             /* since Linux 6.8 */
	"MNT_UNIQUE_ID_OFFSET",             /* in the kernel's own sources only */
	"STATMOUNT_FS_TYPE",                /* since Linux 6.8 */
	"STATMOUNT_MNT_BASIC",              /* since Linux 6.8 */
	"STATMOUNT_MNT_OPTS",               /* since Linux 6.11 */
	"STATMOUNT_MNT_POINT",              /* since Linux 6.8 */
	"STATMOUNT_MNT_ROOT",               /* since Linux 6.8 */
	"STATMOUNT_PROPAGATE_FROM",         /* since Linux 6.8 */
	"STATMOUNT_SB_BASIC",               /* since Linux 6.8 */
	"STATMOUNT_SB_SOURCE",              /* since Linux 6.13 */
	"STATX_MNT_ID_UNIQUE",              /* since Linux 6.8 */
	"ST_VALID",                         /* in the kernel's own headers only */
};

static bool may_be_unknown(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(unknown); i++) {
		if (strcmp(unknown[i], name) == 0)
			return true;
	}
	return false;
}

/* Headers disagree about the sign of bit 31: 0x80000000 is an int in some. */
static bool same(int64_t a, int64_t b)
{
	const bool narrow =
		(a == (int32_t)a || a == (uint32_t)a) && (b == (int32_t)b || b == (uint32_t)b);

	return a == b || (narrow && (uint32_t)a == (uint32_t)b);
}

static void numbers_are_linux(struct ktest *t)
{
	EXPECT_GE(t, ARRAY_SIZE(ours), 400);
	for (size_t i = 0; i < ARRAY_SIZE(ours); i++) {
		const struct abi_number *kernel = &abi_uapi[i], *libc = &abi_libc[i];

		ASSERT_STREQ(t, kernel->name, ours[i].name);
		ASSERT_STREQ(t, libc->name, ours[i].name);
		if ((kernel->known && !same(kernel->value, ours[i].value)) ||
		    (libc->known && !same(libc->value, ours[i].value)))
			ktest_fail(t, __FILE__, __LINE__, "%s is %lld, not Linux's", ours[i].name,
				   (long long)ours[i].value);
		if (!kernel->known && !libc->known && !may_be_unknown(ours[i].name))
			ktest_fail(t, __FILE__, __LINE__, "%s is in no installed header",
				   ours[i].name);
	}
}

static const struct ktest_case abi_cases[] = {
	KTEST(numbers_are_linux),
	{ 0 },
};
static const struct ktest_suite abi_suite = { .name = "abi", .cases = abi_cases };
KTEST_SUITE(abi_suite);
