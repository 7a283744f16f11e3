/* SPDX-License-Identifier: MIT */
/*
 * Network devices: the registry, the checks that every driver would make, and receive pools.
 *
 * Locking:	registry_lock guards the list and who has a device open; a pool has a lock of its
 *		own (RANK_LEAF), for buffers come back from any context.
 * See:		drivers/netdev.h
 */
#include <drivers/netdev.h>

#include <kernel/mutex.h>
#include <kernel/panic.h>
#include <kernel/spinlock.h>
#include <lib/errno.h>
#include <lib/fmt.h>
#include <lib/string.h>
#include <mm/kmap.h>
#include <mm/slab.h>

#define CHUNK_BUFS 32u
#define CHUNK_LEN  (CHUNK_BUFS * NET_RXBUF_SIZE)

static struct mutex registry_lock = MUTEX_INIT(registry_lock, "netdev", RANK_DRIVER);
static struct list_head registry __guarded_by(&registry_lock) = { &registry, &registry };
static unsigned int nr_devices __guarded_by(&registry_lock);

bool net_addr_is_valid(const uint8_t *addr)
{
	uint8_t any = 0;

	for (unsigned int i = 0; i < NET_ADDR_LEN; i++)
		any |= addr[i];
	return any && !(addr[0] & 1);
}

int netdev_register(struct netdev *nd)
{
	if (!nd->ops || !nd->nr_queues || nd->mtu < NET_MTU_MIN || nd->mtu > UINT16_MAX ||
	    !net_addr_is_valid(nd->addr))
		return -EINVAL;
	mutex_lock(&registry_lock);
	snprintf(nd->name, sizeof(nd->name), "eth%u", nr_devices++);
	list_add_tail(&nd->link, &registry);
	mutex_unlock(&registry_lock);
	return 0;
}

struct netdev *netdev_next(struct netdev *prev)
{
	struct list_head *at;

	mutex_lock(&registry_lock);
	at = prev ? prev->link.next : registry.next;
	if (at == &registry)
		at = NULL;
	mutex_unlock(&registry_lock);
	return at ? container_of(at, struct netdev, link) : NULL;
}

int netdev_open(struct netdev *nd, const struct netdev_user *user, void *user_data)
{
	int err;

	mutex_lock(&registry_lock);
	if (nd->user) {
		mutex_unlock(&registry_lock);
		return -EBUSY;
	}
	nd->user_data = user_data;
	nd->user = user;
	mutex_unlock(&registry_lock);
	err = nd->ops->open(nd);
	if (err)
		netdev_close(nd);
	return err;
}

void netdev_close(struct netdev *nd)
{
	nd->ops->close(nd);
	mutex_lock(&registry_lock);
	nd->user = NULL;
	mutex_unlock(&registry_lock);
}

int netdev_transmit(struct netdev *nd, unsigned int queue, const struct net_tx *tx)
{
	uint32_t needs = 0;

	if (tx->flags & NET_TX_CSUM)
		needs |= NETDEV_TX_CSUM;
	if (tx->flags & NET_TX_TSO4)
		needs |= NETDEV_TX_TSO4;
	if (tx->flags & NET_TX_TSO6)
		needs |= NETDEV_TX_TSO6;
	if (queue >= nd->nr_queues || !tx->nr_segs || tx->nr_segs > NET_TX_MAX_SEGS || !tx->token ||
	    (needs & ~nd->features))
		return -EINVAL;
	if ((tx->flags & (NET_TX_TSO4 | NET_TX_TSO6)) && (!tx->mss || !tx->hdr_len))
		return -EINVAL;
	return nd->ops->transmit(nd, queue, tx);
}

void netdev_kick(struct netdev *nd, unsigned int queue)
{
	nd->ops->kick(nd, queue);
}

unsigned int netdev_poll(struct netdev *nd, unsigned int queue, unsigned int budget)
{
	return nd->ops->poll(nd, queue, budget);
}

bool netdev_arm(struct netdev *nd, unsigned int queue)
{
	return nd->ops->arm(nd, queue);
}

int netdev_set_filter(struct netdev *nd, const struct net_filter *filter)
{
	return nd->ops->set_filter ? nd->ops->set_filter(nd, filter) : -EOPNOTSUPP;
}

void netdev_stats(struct netdev *nd, struct netdev_stats *out)
{
	memset(out, 0, sizeof(*out));
	nd->ops->stats(nd, out);
}

/* --- receive pools */

int net_pool_init(struct net_pool *pool, unsigned int nr)
{
	memset(pool, 0, sizeof(*pool));
	spin_lock_init(&pool->lock, "net_pool", RANK_LEAF);
	pool->nr_chunks = (nr + CHUNK_BUFS - 1) / CHUNK_BUFS;
	pool->nr = pool->nr_chunks * CHUNK_BUFS;
	pool->bufs = kcalloc(pool->nr, sizeof(*pool->bufs));
	pool->chunks = kcalloc(pool->nr_chunks, sizeof(*pool->chunks));
	if (!pool->bufs || !pool->chunks)
		goto out_destroy;
	for (unsigned int i = 0; i < pool->nr; i++) {
		const unsigned int c = i / CHUNK_BUFS, at = i % CHUNK_BUFS * NET_RXBUF_SIZE;
		struct net_rxbuf *b = &pool->bufs[i];
		paddr_t paddr;

		if (!at) {
			pool->chunks[c] = dma_alloc(CHUNK_LEN, &paddr);
			if (!pool->chunks[c])
				goto out_destroy;
		}
		b->pool = pool;
		b->base = (uint8_t *)pool->chunks[c] + at;
		b->paddr = virt_to_phys(b->base);
		b->next = pool->free;
		pool->free = b;
		pool->nr_free++;
	}
	return 0;

out_destroy:
	pool->nr = pool->nr_free;
	net_pool_destroy(pool);
	return -ENOMEM;
}

void net_pool_destroy(struct net_pool *pool)
{
	for (unsigned int i = 0; pool->chunks && i < pool->nr_chunks; i++) {
		if (pool->chunks[i])
			dma_free(pool->chunks[i], CHUNK_LEN);
	}
	kfree(pool->chunks);
	kfree(pool->bufs);
	pool->chunks = NULL;
	pool->bufs = NULL;
	pool->nr_chunks = 0;
}

struct net_rxbuf *net_rxbuf_get(struct net_pool *pool)
{
	const unsigned long flags = spin_lock_irqsave(&pool->lock);
	struct net_rxbuf *b = pool->free;

	if (b) {
		ASSERT(pool->nr_free > 0 && b->pool == pool);
		pool->free = b->next;
		pool->nr_free--;
		b->next = NULL;
		b->data = b->base;
		b->len = 0;
		b->frame_len = 0;
		b->flags = 0;
	}
	spin_unlock_irqrestore(&pool->lock, flags);
	return b;
}

void net_frame_free(struct net_rxbuf *frame)
{
	while (frame) {
		struct net_rxbuf *next = frame->next;
		struct net_pool *pool = frame->pool;
		const unsigned long flags = spin_lock_irqsave(&pool->lock);

		ASSERT(pool->nr_free < pool->nr);
		frame->next = pool->free;
		pool->free = frame;
		pool->nr_free++;
		spin_unlock_irqrestore(&pool->lock, flags);
		frame = next;
	}
}

unsigned int net_pool_free(struct net_pool *pool)
{
	const unsigned long flags = spin_lock_irqsave(&pool->lock);
	const unsigned int nr = pool->nr_free;

	spin_unlock_irqrestore(&pool->lock, flags);
	return nr;
}
