/* SPDX-License-Identifier: MIT */
/*
 * lwIP's port: the lock, memory, random numbers and time that it runs on.
 *
 * Locking:	stack_mutex (RANK_NET_STACK) is held around every call of lwIP's, which has neither
 *		threads nor locks of its own; lwIP asserts it at its entries.
 * Failure:	lwIP's assertions are about its own state: a failed one panics. Memory is bounded
 *		(tcpip.memory, a 32nd of the node's by default): beyond that lwIP gets none, and
 *		drops a packet or refuses a connection.
 */
#define PR_FMT "tcpip: "

#include "lwip_priv.h"

#include <kernel/bootparam.h>
#include <kernel/counter.h>
#include <kernel/initcall.h>
#include <kernel/panic.h>
#include <kernel/printk.h>
#include <kernel/random.h>
#include <kernel/time.h>
#include <lib/errno.h>
#include <lib/siphash.h>
#include <lib/string.h>
#include <lwip/init.h>
#include <lwip/ip.h>
#include <lwip/sys.h>
#include <lwip/tcp.h>
#include <lwip_hooks.h>
#include <mm/frame.h>
#include <mm/slab.h>
#include <stdlib.h>

struct mutex stack_mutex = MUTEX_INIT(stack_mutex, "tcpip", RANK_NET_STACK);

static uint64_t memory_limit;
BOOT_PARAM("tcpip.memory", size, memory_limit,
	   "memory of the TCP/IP stack; 0: a 32nd of the node's, 16M at least");

COUNTER(tcpip_no_memory, "tcpip.no_memory", "requests of the stack beyond its memory");

static uint64_t memory_used;       /* atomic */
static struct siphash_key isn_key; /* const after stack_init() */

static uint64_t read_memory(void)
{
	return __atomic_load_n(&memory_used, __ATOMIC_RELAXED);
}
GAUGE(tcpip_memory, "tcpip.memory", "bytes that the TCP/IP stack has", read_memory);

void stack_lock(void)
{
	mutex_lock(&stack_mutex);
}

void stack_unlock(void)
{
	interfaces_kick_locked();
	mutex_unlock(&stack_mutex);
}

/* --- what lwIP calls */

void lwip_assert_locked(void)
{
	assert_mutex_held(&stack_mutex);
}

void lwip_broken(const char *message)
{
	panic("lwIP: %s", message);
}

uint32_t lwip_random(void)
{
	return (uint32_t)random_u64();
}

uint32_t sys_now(void)
{
	return (uint32_t)(time_now_ns() / NSEC_PER_MSEC);
}

void *lwip_alloc(size_t size)
{
	void *p;

	if (read_memory() + size > memory_limit) {
		counter_inc(&tcpip_no_memory);
		return NULL;
	}
	p = kmalloc(size);
	if (p)
		__atomic_fetch_add(&memory_used, ksize(p), __ATOMIC_RELAXED);
	return p;
}

void *lwip_calloc(size_t count, size_t size)
{
	void *p = size && count > SIZE_MAX / size ? NULL : lwip_alloc(count * size);

	if (p)
		memset(p, 0, count * size);
	return p;
}

void lwip_free(void *p)
{
	if (p)
		__atomic_fetch_sub(&memory_used, ksize(p), __ATOMIC_RELAXED);
	kfree(p);
}

/* Digits at the end of an interface's name, which lwIP has checked. */
int lwip_atoi(const char *s)
{
	unsigned int n = 0;

	while (*s >= '0' && *s <= '9')
		n = n * 10 + (unsigned int)(*s++ - '0');
	return (int)n;
}

void name_to_ip(const uint8_t addr[16], struct ip_addr *out)
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };
	static const uint8_t any[16];

	memset(out, 0, sizeof(*out));
	if (!memcmp(addr, any, sizeof(any))) {
		out->type = IPADDR_TYPE_ANY;
	} else if (!memcmp(addr, mapped, sizeof(mapped))) {
		out->type = IPADDR_TYPE_V4;
		memcpy(&ip_2_ip4(out)->addr, addr + 12, 4);
	} else {
		out->type = IPADDR_TYPE_V6;
		memcpy(ip_2_ip6(out)->addr, addr, 16);
	}
}

void bound_to_ip(const struct tcpip_name *name, struct ip_addr *out)
{
	name_to_ip(name->addr, out);
	if (name->only6 && out->type == IPADDR_TYPE_ANY)
		out->type = IPADDR_TYPE_V6;
}

void ip_to_name(const struct ip_addr *ip, uint8_t addr[16])
{
	memset(addr, 0, 16);
	if (ip->type == IPADDR_TYPE_V6) {
		memcpy(addr, ip_2_ip6(ip)->addr, 16);
	} else if (ip->type == IPADDR_TYPE_V4) {
		addr[10] = addr[11] = 0xff;
		memcpy(addr + 12, &ip_2_ip4(ip)->addr, 4);
	}
}

/* RFC 6528: a clock of 4 us, and a keyed hash of the connection. */
uint32_t lwip_tcp_isn(const struct ip_addr *local, uint16_t local_port,
		      const struct ip_addr *remote, uint16_t remote_port)
{
	struct {
		uint8_t local[16], remote[16];
		uint16_t local_port, remote_port;
	} __packed id = { .local_port = local_port, .remote_port = remote_port };

	ip_to_name(local, id.local);
	ip_to_name(remote, id.remote);
	return (uint32_t)siphash24(&isn_key, &id, sizeof(id)) + (uint32_t)(time_now_ns() / 4000);
}

int stack_init(void)
{
	if (!memory_limit)
		memory_limit = MAX(frames_total_count() * PAGE_SIZE / 32, (uint64_t)16 << 20);
	random_bytes(&isn_key, sizeof(isn_key));
	stack_lock();
	lwip_init();
	(void)tcp_ext_arg_alloc_id(); /* that of tcp.c */
	stack_unlock();
	return 0;
}
INITCALL(cluster, stack_init);
