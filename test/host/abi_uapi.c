/* SPDX-License-Identifier: MIT */
/* Linux's numbers and structures as the installed headers of the kernel have them. */
#include <asm/prctl.h>
#include <asm/socket.h>
#include <asm/stat.h>
#include <asm/statfs.h>
#include <asm/termbits.h>
#include <asm/termios.h>
#include <linux/aio_abi.h>
#include <linux/audit.h>
#include <linux/auxvec.h>
#include <linux/capability.h>
#include <linux/close_range.h>
#include <linux/elf.h>
#include <linux/eventpoll.h>
#include <linux/falloc.h>
#include <linux/fcntl.h>
#include <linux/fs.h>
#include <linux/futex.h>
#include <linux/inotify.h>
#include <linux/ioprio.h>
#include <linux/ipc.h>
#include <linux/limits.h>
#include <linux/magic.h>
#include <linux/membarrier.h>
#include <linux/memfd.h>
#include <linux/mempolicy.h>
#include <linux/mman.h>
#include <linux/mount.h>
#include <linux/mqueue.h>
#include <linux/msg.h>
#include <linux/nsfs.h>
#include <linux/personality.h>
#include <linux/poll.h>
#include <linux/prctl.h>
#include <linux/ptrace.h>
#include <linux/resource.h>
#include <linux/rseq.h>
#include <linux/rtnetlink.h>
#include <linux/sched.h>
#include <linux/sched/types.h>
#include <linux/seccomp.h>
#include <linux/securebits.h>
#include <linux/sem.h>
#include <linux/shm.h>
#include <linux/signal.h>
#include <linux/signalfd.h>
#include <linux/socket.h>
#include <linux/stat.h>
#include <linux/sysinfo.h>
#include <linux/time.h>
#include <linux/timerfd.h>
#include <linux/times.h>
#include <linux/uio.h>
#include <linux/utsname.h>
#include <linux/wait.h>
#include <linux/xattr.h>

#include <asm/sigcontext.h>
#include <asm/ucontext.h>

#include "abi_numbers.h"

/* Enumerations, which the table below cannot ask for otherwise. */
#define IOPRIO_CLASS_BE                            IOPRIO_CLASS_BE
#define IOPRIO_CLASS_IDLE                          IOPRIO_CLASS_IDLE
#define IOPRIO_CLASS_NONE                          IOPRIO_CLASS_NONE
#define IOPRIO_CLASS_RT                            IOPRIO_CLASS_RT
#define IOPRIO_WHO_PGRP                            IOPRIO_WHO_PGRP
#define IOPRIO_WHO_PROCESS                         IOPRIO_WHO_PROCESS
#define IOPRIO_WHO_USER                            IOPRIO_WHO_USER
#define MPOL_DEFAULT                               MPOL_DEFAULT
#define MPOL_PREFERRED                             MPOL_PREFERRED
#define MPOL_BIND                                  MPOL_BIND
#define MPOL_INTERLEAVE                            MPOL_INTERLEAVE
#define MPOL_LOCAL                                 MPOL_LOCAL
#define MPOL_PREFERRED_MANY                        MPOL_PREFERRED_MANY
#define ADDR_NO_RANDOMIZE                          ADDR_NO_RANDOMIZE
#define READ_IMPLIES_EXEC                          READ_IMPLIES_EXEC
#define STICKY_TIMEOUTS                            STICKY_TIMEOUTS
#define UNAME26                                    UNAME26
#define MEMBARRIER_CMD_QUERY                       MEMBARRIER_CMD_QUERY
#define MEMBARRIER_CMD_GLOBAL                      MEMBARRIER_CMD_GLOBAL
#define MEMBARRIER_CMD_GLOBAL_EXPEDITED            MEMBARRIER_CMD_GLOBAL_EXPEDITED
#define MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED   MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED
#define MEMBARRIER_CMD_PRIVATE_EXPEDITED           MEMBARRIER_CMD_PRIVATE_EXPEDITED
#define MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED  MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED
#define MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE
#define MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_SYNC_CORE \
	MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_SYNC_CORE
#define MEMBARRIER_CMD_PRIVATE_EXPEDITED_RSEQ MEMBARRIER_CMD_PRIVATE_EXPEDITED_RSEQ
#define MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_RSEQ \
	MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_RSEQ
#define MEMBARRIER_CMD_FLAG_CPU   MEMBARRIER_CMD_FLAG_CPU
#define RSEQ_FLAG_UNREGISTER      RSEQ_FLAG_UNREGISTER
#define RSEQ_CPU_ID_UNINITIALIZED RSEQ_CPU_ID_UNINITIALIZED
#define IFLA_ADDRESS              IFLA_ADDRESS
#define IFLA_BROADCAST            IFLA_BROADCAST
#define IFLA_IFNAME               IFLA_IFNAME
#define IFLA_MTU                  IFLA_MTU
#define IFLA_QDISC                IFLA_QDISC
#define IFLA_STATS                IFLA_STATS
#define IFLA_OPERSTATE            IFLA_OPERSTATE
#define IFLA_LINKMODE             IFLA_LINKMODE
#define IFLA_STATS64              IFLA_STATS64
#define IFLA_GROUP                IFLA_GROUP
#define IFLA_NUM_TX_QUEUES        IFLA_NUM_TX_QUEUES
#define IFLA_NUM_RX_QUEUES        IFLA_NUM_RX_QUEUES
#define IFLA_CARRIER              IFLA_CARRIER
#define IFLA_ALT_IFNAME           IFLA_ALT_IFNAME
#define IFA_ADDRESS               IFA_ADDRESS
#define IFA_LOCAL                 IFA_LOCAL
#define IFA_LABEL                 IFA_LABEL
#define IFA_BROADCAST             IFA_BROADCAST
#define IFA_CACHEINFO             IFA_CACHEINFO
#define IFA_FLAGS                 IFA_FLAGS
#define RTN_UNICAST               RTN_UNICAST
#define RTN_LOCAL                 RTN_LOCAL
#define RT_TABLE_UNSPEC           RT_TABLE_UNSPEC
#define RT_TABLE_MAIN             RT_TABLE_MAIN
#define RT_TABLE_LOCAL            RT_TABLE_LOCAL
#define RTA_DST                   RTA_DST
#define RTA_OIF                   RTA_OIF
#define RTA_GATEWAY               RTA_GATEWAY
#define RTA_PRIORITY              RTA_PRIORITY
#define RTA_PREFSRC               RTA_PREFSRC
#define RTA_TABLE                 RTA_TABLE

const struct abi_number abi_uapi[] = {
#include <generated/abi_numbers.h>
};

/* The structures. These headers have numbers of their own. */
#include <generated/abi_undef.h>

#include <abi/aio.h>
#include <abi/fcntl.h>
#include <abi/futex.h>
#include <abi/inotify.h>
#include <abi/ioctl.h>
#include <abi/ipc.h>
#include <abi/mempolicy.h>
#include <abi/mqueue.h>
#include <abi/netlink.h>
#include <abi/poll.h>
#include <abi/prctl.h>
#include <abi/ptrace.h>
#include <abi/resource.h>
#include <abi/rseq.h>
#include <abi/sched.h>
#include <abi/sigcontext.h>
#include <abi/signal.h>
#include <abi/stat.h>
#include <abi/sysinfo.h>
#include <abi/termios.h>
#include <abi/time.h>
#include <lib/compiler.h>

SAME_SIZE(f_owner_ex, struct f_owner_ex);
SAME_MEMBER(f_owner_ex, pid, struct f_owner_ex, pid);

SAME_SIZE(flock, struct flock);
SAME_MEMBER(flock, type, struct flock, l_type);
SAME_MEMBER(flock, whence, struct flock, l_whence);
SAME_MEMBER(flock, start, struct flock, l_start);
SAME_MEMBER(flock, len, struct flock, l_len);
SAME_MEMBER(flock, pid, struct flock, l_pid);

SAME_SIZE(inotify_event, struct inotify_event);
SAME_MEMBER(inotify_event, mask, struct inotify_event, mask);
SAME_MEMBER(inotify_event, len, struct inotify_event, len);

SAME_SIZE(iocb, struct iocb);
SAME_MEMBER(iocb, rw_flags, struct iocb, aio_rw_flags);
SAME_MEMBER(iocb, resfd, struct iocb, aio_resfd);
SAME_SIZE(io_event, struct io_event);

SAME_SIZE(mq_attr, struct mq_attr);
SAME_MEMBER(mq_attr, maxmsg, struct mq_attr, mq_maxmsg);
SAME_MEMBER(mq_attr, curmsgs, struct mq_attr, mq_curmsgs);

SAME_SIZE(iovec, struct iovec);
SAME_MEMBER(iovec, len, struct iovec, iov_len);

SAME_SIZE(stat, struct stat);
SAME_MEMBER(stat, nlink, struct stat, st_nlink);
SAME_MEMBER(stat, mode, struct stat, st_mode);
SAME_MEMBER(stat, gid, struct stat, st_gid);
SAME_MEMBER(stat, rdev, struct stat, st_rdev);
SAME_MEMBER(stat, size, struct stat, st_size);
SAME_MEMBER(stat, blocks, struct stat, st_blocks);
SAME_MEMBER(stat, atime, struct stat, st_atime);
SAME_MEMBER(stat, mtime_ns, struct stat, st_mtime_nsec);
SAME_MEMBER(stat, ctime_ns, struct stat, st_ctime_nsec);

SAME_SIZE(statx, struct statx);
SAME_SIZE(statx_timestamp, struct statx_timestamp);
SAME_MEMBER(statx, attributes, struct statx, stx_attributes);
SAME_MEMBER(statx, mode, struct statx, stx_mode);
SAME_MEMBER(statx, ino, struct statx, stx_ino);
SAME_MEMBER(statx, attributes_mask, struct statx, stx_attributes_mask);
SAME_MEMBER(statx, btime, struct statx, stx_btime);
SAME_MEMBER(statx, mtime, struct statx, stx_mtime);
SAME_MEMBER(statx, rdev_major, struct statx, stx_rdev_major);
SAME_MEMBER(statx, dev_minor, struct statx, stx_dev_minor);

SAME_SIZE(statfs, struct statfs);
SAME_MEMBER(statfs, bsize, struct statfs, f_bsize);
SAME_MEMBER(statfs, ffree, struct statfs, f_ffree);
SAME_MEMBER(statfs, namelen, struct statfs, f_namelen);
SAME_MEMBER(statfs, flags, struct statfs, f_flags);

SAME_SIZE(sigaction, struct sigaction);
SAME_MEMBER(sigaction, flags, struct sigaction, sa_flags);
SAME_MEMBER(sigaction, restorer, struct sigaction, sa_restorer);
SAME_MEMBER(sigaction, mask, struct sigaction, sa_mask);

SAME_SIZE(stack, stack_t);
SAME_MEMBER(stack, flags, stack_t, ss_flags);
SAME_MEMBER(stack, size, stack_t, ss_size);

SAME_MEMBER(siginfo, err, siginfo_t, si_errno);
SAME_MEMBER(siginfo, code, siginfo_t, si_code);
SAME_MEMBER(siginfo, pid, siginfo_t, si_pid);
SAME_MEMBER(siginfo, uid, siginfo_t, si_uid);
SAME_MEMBER(siginfo, timer_id, siginfo_t, si_tid);
SAME_MEMBER(siginfo, overrun, siginfo_t, si_overrun);
SAME_MEMBER(siginfo, value, siginfo_t, si_value);
SAME_MEMBER(siginfo, status, siginfo_t, si_status);
SAME_MEMBER(siginfo, utime, siginfo_t, si_utime);
SAME_MEMBER(siginfo, stime, siginfo_t, si_stime);
SAME_MEMBER(siginfo, addr, siginfo_t, si_addr);

SAME_SIZE(sigevent, struct sigevent);
SAME_MEMBER(sigevent, signo, struct sigevent, sigev_signo);
SAME_MEMBER(sigevent, notify, struct sigevent, sigev_notify);
SAME_MEMBER(sigevent, tid, struct sigevent, sigev_notify_thread_id);

SAME_SIZE(signalfd_siginfo, struct signalfd_siginfo);
SAME_MEMBER(signalfd_siginfo, trapno, struct signalfd_siginfo, ssi_trapno);
SAME_MEMBER(signalfd_siginfo, int_value, struct signalfd_siginfo, ssi_int);
SAME_MEMBER(signalfd_siginfo, ptr, struct signalfd_siginfo, ssi_ptr);
SAME_MEMBER(signalfd_siginfo, addr, struct signalfd_siginfo, ssi_addr);
SAME_MEMBER(signalfd_siginfo, arch, struct signalfd_siginfo, ssi_arch);

SAME_SIZE(sigcontext, struct sigcontext);
SAME_MEMBER(sigcontext, rip, struct sigcontext, rip);
SAME_MEMBER(sigcontext, ss, struct sigcontext, ss);
SAME_MEMBER(sigcontext, err, struct sigcontext, err);
SAME_MEMBER(sigcontext, cr2, struct sigcontext, cr2);
SAME_MEMBER(sigcontext, fpstate, struct sigcontext, fpstate);
SAME_SIZE(ucontext, struct ucontext);
SAME_MEMBER(ucontext, stack, struct ucontext, uc_stack);
SAME_MEMBER(ucontext, mcontext, struct ucontext, uc_mcontext);
SAME_MEMBER(ucontext, sigmask, struct ucontext, uc_sigmask);
SAME_SIZE(fp_sw_bytes, struct _fpx_sw_bytes);
SAME_MEMBER(fp_sw_bytes, xfeatures, struct _fpx_sw_bytes, xfeatures);
SAME_MEMBER(fp_sw_bytes, xstate_size, struct _fpx_sw_bytes, xstate_size);

SAME_SIZE(winsize, struct winsize);
SAME_MEMBER(winsize, col, struct winsize, ws_col);
SAME_SIZE(termios, struct termios);
SAME_MEMBER(termios, lflag, struct termios, c_lflag);
SAME_MEMBER(termios, line, struct termios, c_line);
SAME_MEMBER(termios, cc, struct termios, c_cc);

SAME_SIZE(pollfd, struct pollfd);
SAME_MEMBER(pollfd, events, struct pollfd, events);
SAME_MEMBER(pollfd, revents, struct pollfd, revents);
SAME_SIZE(epoll_event, struct epoll_event);
SAME_MEMBER(epoll_event, data, struct epoll_event, data);

SAME_SIZE(robust_list_head, struct robust_list_head);
SAME_MEMBER(robust_list_head, futex_offset, struct robust_list_head, futex_offset);
SAME_MEMBER(robust_list_head, list_op_pending, struct robust_list_head, list_op_pending);
SAME_SIZE(futex_waitv, struct futex_waitv);
SAME_MEMBER(futex_waitv, uaddr, struct futex_waitv, uaddr);
SAME_MEMBER(futex_waitv, flags, struct futex_waitv, flags);

SAME_SIZE(sched_attr, struct sched_attr);
SAME_MEMBER(sched_attr, nice, struct sched_attr, sched_nice);
SAME_MEMBER(sched_attr, period, struct sched_attr, sched_period);

SAME_SIZE(ipc64_perm, struct ipc64_perm);
SAME_MEMBER(ipc64_perm, mode, struct ipc64_perm, mode);
SAME_MEMBER(ipc64_perm, seq, struct ipc64_perm, seq);
SAME_SIZE(shmid64_ds, struct shmid64_ds);
SAME_MEMBER(shmid64_ds, ctime, struct shmid64_ds, shm_ctime);
SAME_MEMBER(shmid64_ds, lpid, struct shmid64_ds, shm_lpid);
SAME_MEMBER(shmid64_ds, nattch, struct shmid64_ds, shm_nattch);
SAME_SIZE(shminfo64, struct shminfo64);
SAME_MEMBER(shminfo64, shmall, struct shminfo64, shmall);
SAME_SIZE(shm_info, struct shm_info);
SAME_MEMBER(shm_info, shm_tot, struct shm_info, shm_tot);
SAME_SIZE(sembuf, struct sembuf);
SAME_SIZE(semid64_ds, struct semid64_ds);
SAME_MEMBER(semid64_ds, ctime, struct semid64_ds, sem_ctime);
SAME_MEMBER(semid64_ds, nsems, struct semid64_ds, sem_nsems);
SAME_SIZE(seminfo, struct seminfo);
SAME_MEMBER(seminfo, semvmx, struct seminfo, semvmx);
SAME_SIZE(msqid64_ds, struct msqid64_ds);
SAME_MEMBER(msqid64_ds, rtime, struct msqid64_ds, msg_rtime);
SAME_MEMBER(msqid64_ds, qbytes, struct msqid64_ds, msg_qbytes);
SAME_MEMBER(msqid64_ds, lrpid, struct msqid64_ds, msg_lrpid);
SAME_SIZE(msginfo, struct msginfo);
SAME_MEMBER(msginfo, msgseg, struct msginfo, msgseg);

SAME_SIZE(clone_args, struct clone_args);
SAME_MEMBER(clone_args, exit_signal, struct clone_args, exit_signal);
SAME_MEMBER(clone_args, tls, struct clone_args, tls);
SAME_MEMBER(clone_args, set_tid_size, struct clone_args, set_tid_size);
SAME_SIZE(rlimit, struct rlimit64);
SAME_SIZE(rusage, struct rusage);
SAME_MEMBER(rusage, stime, struct rusage, ru_stime);
SAME_MEMBER(rusage, maxrss, struct rusage, ru_maxrss);
SAME_MEMBER(rusage, minflt, struct rusage, ru_minflt);
SAME_MEMBER(rusage, nivcsw, struct rusage, ru_nivcsw);

SAME_SIZE(cap_header, struct __user_cap_header_struct);
SAME_MEMBER(cap_header, pid, struct __user_cap_header_struct, pid);
SAME_SIZE(cap_data, struct __user_cap_data_struct);
SAME_MEMBER(cap_data, permitted, struct __user_cap_data_struct, permitted);

SAME_SIZE(timespec, struct timespec);
SAME_MEMBER(timespec, nsec, struct timespec, tv_nsec);
SAME_SIZE(timeval, struct timeval);
SAME_MEMBER(timeval, usec, struct timeval, tv_usec);
SAME_SIZE(itimerspec, struct itimerspec);
SAME_MEMBER(itimerspec, value, struct itimerspec, it_value);
SAME_SIZE(itimerval, struct itimerval);
SAME_MEMBER(itimerval, value, struct itimerval, it_value);
SAME_SIZE(tms, struct tms);
SAME_MEMBER(tms, cutime, struct tms, tms_cutime);

SAME_SIZE(new_utsname, struct new_utsname);
SAME_MEMBER(new_utsname, domainname, struct new_utsname, domainname);
SAME_SIZE(sysinfo, struct sysinfo);
SAME_MEMBER(sysinfo, totalram, struct sysinfo, totalram);
SAME_MEMBER(sysinfo, procs, struct sysinfo, procs);
SAME_MEMBER(sysinfo, totalhigh, struct sysinfo, totalhigh);
SAME_MEMBER(sysinfo, mem_unit, struct sysinfo, mem_unit);

SAME_SIZE(nlmsghdr, struct nlmsghdr);
SAME_MEMBER(nlmsghdr, len, struct nlmsghdr, nlmsg_len);
SAME_MEMBER(nlmsghdr, type, struct nlmsghdr, nlmsg_type);
SAME_MEMBER(nlmsghdr, flags, struct nlmsghdr, nlmsg_flags);
SAME_MEMBER(nlmsghdr, seq, struct nlmsghdr, nlmsg_seq);
SAME_MEMBER(nlmsghdr, pid, struct nlmsghdr, nlmsg_pid);
SAME_SIZE(nlmsgerr, struct nlmsgerr);
SAME_MEMBER(nlmsgerr, msg, struct nlmsgerr, msg);
SAME_SIZE(rtattr, struct rtattr);
SAME_MEMBER(rtattr, type, struct rtattr, rta_type);
SAME_SIZE(ifinfomsg, struct ifinfomsg);
SAME_MEMBER(ifinfomsg, type, struct ifinfomsg, ifi_type);
SAME_MEMBER(ifinfomsg, index, struct ifinfomsg, ifi_index);
SAME_MEMBER(ifinfomsg, flags, struct ifinfomsg, ifi_flags);
SAME_MEMBER(link_stats, tx_dropped, struct rtnl_link_stats, tx_dropped);
SAME_MEMBER(link_stats64, tx_dropped, struct rtnl_link_stats64, tx_dropped);
SAME_SIZE(ifaddrmsg, struct ifaddrmsg);
SAME_MEMBER(ifaddrmsg, scope, struct ifaddrmsg, ifa_scope);
SAME_MEMBER(ifaddrmsg, index, struct ifaddrmsg, ifa_index);
SAME_SIZE(ifa_cacheinfo, struct ifa_cacheinfo);
SAME_MEMBER(ifa_cacheinfo, valid, struct ifa_cacheinfo, ifa_valid);
SAME_SIZE(rtmsg, struct rtmsg);
SAME_MEMBER(rtmsg, table, struct rtmsg, rtm_table);
SAME_MEMBER(rtmsg, type, struct rtmsg, rtm_type);
SAME_MEMBER(rtmsg, flags, struct rtmsg, rtm_flags);

SAME_SIZE(rseq_cs, struct rseq_cs);
SAME_MEMBER(rseq_cs, abort_ip, struct rseq_cs, abort_ip);
SAME_SIZE(rseq, struct rseq);
SAME_MEMBER(rseq, rseq_cs, struct rseq, rseq_cs);
SAME_MEMBER(rseq, flags, struct rseq, flags);

SAME_SIZE(ptrace_peeksiginfo_args, struct ptrace_peeksiginfo_args);
SAME_MEMBER(ptrace_peeksiginfo_args, nr, struct ptrace_peeksiginfo_args, nr);

static_assert(sizeof(struct linux_ptrace_syscall_info) <= sizeof(struct ptrace_syscall_info),
	      "ptrace_syscall_info: the part of seccomp is left out");
SAME_MEMBER(ptrace_syscall_info, arch, struct ptrace_syscall_info, arch);
SAME_MEMBER(ptrace_syscall_info, ip, struct ptrace_syscall_info, instruction_pointer);
SAME_MEMBER(ptrace_syscall_info, entry.args, struct ptrace_syscall_info, entry.args);
SAME_MEMBER(ptrace_syscall_info, exit.is_error, struct ptrace_syscall_info, exit.is_error);
