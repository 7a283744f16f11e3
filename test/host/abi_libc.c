/* SPDX-License-Identifier: MIT */
/* Linux's numbers and structures as the C library has them. */
#include <dirent.h>
#include <elf.h>
#include <fcntl.h>
#include <linux/errqueue.h>
#include <linux/icmpv6.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <net/route.h>
#include <netinet/in.h>
#include <netinet/ip_icmp.h>
#include <netinet/tcp.h>
#include <netinet/udp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/auxv.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "abi_numbers.h"

/* The C library's own: its files are always large, and it asks for what depends on the machine. */
#undef MINSIGSTKSZ
#undef O_LARGEFILE
#undef SIGRTMIN

/* Enumerators, which #ifdef does not see. */
#define IFF_UP            IFF_UP
#define IFF_BROADCAST     IFF_BROADCAST
#define IFF_LOOPBACK      IFF_LOOPBACK
#define IFF_RUNNING       IFF_RUNNING
#define IFF_MULTICAST     IFF_MULTICAST
#define RT_SCOPE_UNIVERSE RT_SCOPE_UNIVERSE
#define RT_SCOPE_LINK     RT_SCOPE_LINK
#define RT_SCOPE_HOST     RT_SCOPE_HOST

/* Its numbers have the size of what it does not define. */
struct termios2 {
	char bytes[44];
};

const struct abi_number abi_libc[] = {
#include <generated/abi_numbers.h>
};

/* The structures. These headers have numbers of their own. */
#include <generated/abi_undef.h>

#include <abi/elf.h>
#include <abi/errqueue.h>
#include <abi/in.h>
#include <abi/net.h>
#include <abi/socket.h>
#include <abi/stat.h>
#include <lib/compiler.h>

SAME_SIZE(elf64_hdr, Elf64_Ehdr);
SAME_MEMBER(elf64_hdr, machine, Elf64_Ehdr, e_machine);
SAME_MEMBER(elf64_hdr, entry, Elf64_Ehdr, e_entry);
SAME_MEMBER(elf64_hdr, phoff, Elf64_Ehdr, e_phoff);
SAME_MEMBER(elf64_hdr, phentsize, Elf64_Ehdr, e_phentsize);
SAME_MEMBER(elf64_hdr, phnum, Elf64_Ehdr, e_phnum);
SAME_SIZE(elf64_phdr, Elf64_Phdr);
SAME_MEMBER(elf64_phdr, flags, Elf64_Phdr, p_flags);
SAME_MEMBER(elf64_phdr, vaddr, Elf64_Phdr, p_vaddr);
SAME_MEMBER(elf64_phdr, filesz, Elf64_Phdr, p_filesz);
SAME_MEMBER(elf64_phdr, align, Elf64_Phdr, p_align);

SAME_MEMBER(dirent64, ino, struct dirent64, d_ino);
SAME_MEMBER(dirent64, off, struct dirent64, d_off);
SAME_MEMBER(dirent64, reclen, struct dirent64, d_reclen);
SAME_MEMBER(dirent64, type, struct dirent64, d_type);
static_assert(offsetof(struct linux_dirent64, name) == offsetof(struct dirent64, d_name),
	      "dirent64.name");

SAME_SIZE(msghdr, struct msghdr);
SAME_MEMBER(msghdr, namelen, struct msghdr, msg_namelen);
SAME_MEMBER(msghdr, iov, struct msghdr, msg_iov);
SAME_MEMBER(msghdr, iovlen, struct msghdr, msg_iovlen);
SAME_MEMBER(msghdr, control, struct msghdr, msg_control);
SAME_MEMBER(msghdr, controllen, struct msghdr, msg_controllen);
SAME_MEMBER(msghdr, flags, struct msghdr, msg_flags);

SAME_SIZE(ucred, struct ucred);
SAME_MEMBER(ucred, gid, struct ucred, gid);

SAME_SIZE(sock_extended_err, struct sock_extended_err);
SAME_MEMBER(sock_extended_err, origin, struct sock_extended_err, ee_origin);
SAME_MEMBER(sock_extended_err, info, struct sock_extended_err, ee_info);

SAME_SIZE(ifreq, struct ifreq);
SAME_SIZE(ifconf, struct ifconf);

SAME_SIZE(tcp_info, struct tcp_info);
SAME_MEMBER(tcp_info, rto, struct tcp_info, tcpi_rto);
SAME_MEMBER(tcp_info, unacked, struct tcp_info, tcpi_unacked);
SAME_MEMBER(tcp_info, pmtu, struct tcp_info, tcpi_pmtu);
SAME_MEMBER(tcp_info, snd_cwnd, struct tcp_info, tcpi_snd_cwnd);
SAME_MEMBER(tcp_info, total_retrans, struct tcp_info, tcpi_total_retrans);
