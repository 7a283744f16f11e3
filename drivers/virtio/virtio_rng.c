/* SPDX-License-Identifier: MIT */
/*
 * virtio entropy devices: random bytes of the host for the generator (kernel/random.c).
 *
 * Flow:	probe asks for SEED_LEN bytes; what comes is mixed into the generator's key, and
 *		RESEED_NS later the driver asks again, or at once while answers were short and the
 *		node has no seed. A node with another seed does not wait for the first answer; one
 *		without waits in probe, so that all later levels have a seed.
 * Context:	probe: a thread. Answers come in interrupts, questions from a timer.
 * Locking:	lock, around the queue.
 * Failure:	a device that breaks its contract is fenced and asked no more; one that answers with
 *		nothing, or zeros, which count for nothing, is asked again after RESEED_NS. A node
 *		that has no other seed says in its log that none came, and goes on: rpc_start() lets
 *		it join no cluster.
 * Limits:	bytes are counted as secret, as the host's other seeds are. Mixing keeps what the
 *		key had before, so a device that tells known bytes weakens no other seed.
 * See:		docs/drivers/virtio.md; VIRTIO 1.1, section 5.4
 */
#define PR_FMT "virtio-rng: "

#include <drivers/pci.h>
#include <drivers/virtio.h>
#include <kernel/panic.h>
#include <kernel/printk.h>
#include <kernel/random.h>
#include <kernel/spinlock.h>
#include <kernel/time.h>
#include <kernel/timer.h>
#include <kernel/wait.h>
#include <lib/err.h>
#include <lib/errno.h>
#include <lib/string.h>
#include <mm/kmap.h>
#include <mm/slab.h>

#define SEED_LEN  32u
#define RESEED_NS (60 * NSEC_PER_SEC)
#define FIRST_NS  (2 * NSEC_PER_SEC) /* that a node without another seed waits */

struct vrng {
	struct virtio_device *vd; /* const */
	struct spinlock lock;     /* RANK_SPIN_QUEUE */
	struct virtq *vq;         /* const; used under lock */
	uint8_t *buf;             /* SEED_LEN bytes of DMA memory: the device's while it is asked */
	paddr_t paddr;            /* const */
	struct timer timer;
	struct completion answered;
};

static void ask_locked(struct vrng *r) __must_hold(&r->lock)
{
	const struct virtq_seg seg = { r->paddr, SEED_LEN };

	assert_spin_held(&r->lock);
	if (!virtq_add(r->vq, &seg, 0, 1, r))
		virtq_kick(r->vq);
}

static bool has_some(const uint32_t *words, size_t nr)
{
	uint32_t all = 0;

	for (size_t i = 0; i < nr; i++)
		all |= words[i];
	return all;
}

/*
 * It has written @len bytes, and may write them again while we look. True: it is asked for the rest
 * of a seed, which it is as often as a seed has words at most.
 */
static bool take_locked(struct vrng *r, uint32_t len) __must_hold(&r->lock)
{
	const size_t nr = len / sizeof(uint32_t);
	uint32_t words[SEED_LEN / sizeof(uint32_t)];
	bool some;

	assert_spin_held(&r->lock);
	ASSERT(len <= SEED_LEN); /* virtq_get() has looked */
	memcpy(words, r->buf, SEED_LEN);
	memset(r->buf, 0, SEED_LEN);
	some = has_some(words, nr);
	if (some)
		random_add(words, nr);
	memset(words, 0, sizeof(words));
	if (some && !random_is_seeded()) {
		ask_locked(r);
		return true;
	}
	timer_set(&r->timer, time_now_ns() + RESEED_NS);
	return false;
}

static void vrng_used(struct virtq *vq, void *arg)
{
	struct vrng *r = arg;
	const unsigned long flags = spin_lock_irqsave(&r->lock);
	bool more = false;
	void *token;
	uint32_t len;

	while ((token = virtq_get(vq, &len)) != NULL && !IS_ERR(token))
		more = take_locked(r, len);
	spin_unlock_irqrestore(&r->lock, flags);
	if (!more)
		complete_all(&r->answered);
}

static void on_timer(void *arg)
{
	struct vrng *r = arg;
	const unsigned long flags = spin_lock_irqsave(&r->lock);

	ask_locked(r);
	spin_unlock_irqrestore(&r->lock, flags);
}

static int vrng_start(struct vrng *r)
{
	unsigned long flags;
	int err = virtq_create(r->vd, 0, 1, 1, vrng_used, r, &r->vq);

	if (!err)
		err = virtio_start(r->vd);
	if (err)
		return err;
	flags = spin_lock_irqsave(&r->lock);
	ask_locked(r);
	spin_unlock_irqrestore(&r->lock, flags);
	if (!random_is_seeded() &&
	    (!completion_wait_until(&r->answered, time_after_ns(FIRST_NS)) || !random_is_seeded()))
		pr_warn("the device does not give a seed\n");
	return 0;
}

static void vrng_free(struct vrng *r)
{
	if (r->buf)
		dma_free(r->buf, SEED_LEN);
	kfree(r);
}

static int vrng_probe(struct pci_device *pci, const struct pci_id *id)
{
	struct vrng *r = kzalloc(sizeof(*r));
	int err;

	(void)id;
	if (!r)
		return -ENOMEM;
	spin_lock_init(&r->lock, "virtio-rng", RANK_SPIN_QUEUE);
	timer_init(&r->timer, on_timer, r);
	completion_init(&r->answered);
	r->buf = dma_alloc(SEED_LEN, &r->paddr);
	if (!r->buf) {
		vrng_free(r);
		return -ENOMEM;
	}
	r->vd = virtio_pci_open(pci, "virtio-rng", 0, NULL);
	err = IS_ERR(r->vd) ? (int)PTR_ERR(r->vd) : vrng_start(r);
	if (!err)
		return 0;
	if (!IS_ERR(r->vd))
		virtio_close(r->vd);
	vrng_free(r);
	return err;
}

static const struct pci_id vrng_ids[] = {
	{ VIRTIO_PCI_VENDOR, 0x1005 }, /* transitional */
	{ VIRTIO_PCI_VENDOR, 0x1044 },
	{ 0, 0 },
};
static const struct pci_driver vrng_driver = {
	.name = "virtio-rng",
	.ids = vrng_ids,
	.probe = vrng_probe,
};
PCI_DRIVER(vrng_driver);
