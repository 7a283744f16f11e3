/* SPDX-License-Identifier: MIT */
/*
 * virtio consoles: one port as a byte stream.
 *
 * Flow:	receiving: the device has all empty buffers; the interrupt puts filled ones on a
 *		list; a reader takes bytes off it and gives each emptied buffer back.  With no
 *		reader the device runs out of buffers, and the host has to wait: nothing is lost.
 *		Sending: bytes are copied into free buffers; with none free the writer sleeps.
 * Context:	read, write: threads.  rx_used, tx_used: interrupt.
 * Locking:	read_lock or write_lock, then port->lock.
 */
#include <kernel/counter.h>
#include <lib/err.h>
#include <lib/errno.h>
#include <lib/string.h>
#include <mm/kmap.h>
#include <mm/slab.h>

#include "virtio_console.h"

COUNTER(console_rx_bytes, "virtio-console.rx_bytes", "bytes read from the host");
COUNTER(console_tx_bytes, "virtio-console.tx_bytes", "bytes written to the host");

static struct vcon_port *port_of(struct chardev *cd)
{
	return container_of(cd, struct vcon_port, cd);
}

/* Give @b to the device for receiving. */
static void post_rx_locked(struct vcon_port *p, struct vcon_buf *b) __must_hold(&p->lock)
{
	const struct virtq_seg seg = { b->paddr, VCON_BUF_LEN };

	assert_spin_held(&p->lock);
	b->len = 0;
	b->pos = 0;
	/* The ring has room for every buffer; it fails only for a fenced device. */
	if (virtq_add(p->rx, &seg, 0, 1, b))
		p->dead = true;
}

static void mark_dead(struct vcon_port *p)
{
	wake_all(&p->rx_wait);
	wake_all(&p->tx_wait);
	wake_all(&p->open_wait);
}

static void rx_used(struct virtq *vq, void *arg)
{
	struct vcon_port *p = arg;
	struct vcon_buf *b;
	unsigned long flags;
	uint32_t len;
	bool dead;

	flags = spin_lock_irqsave(&p->lock);
	while (!p->dead && (b = virtq_get(vq, &len)) != NULL) {
		if (IS_ERR(b)) {
			p->dead = true;
			break;
		}
		b->len = len;
		list_add_tail(&b->link, &p->full);
	}
	dead = p->dead;
	spin_unlock_irqrestore(&p->lock, flags);
	if (dead)
		mark_dead(p);
	else
		wake_all(&p->rx_wait);
}

static void tx_used(struct virtq *vq, void *arg)
{
	struct vcon_port *p = arg;
	struct vcon_buf *b;
	unsigned long flags;
	uint32_t len;
	bool dead;

	flags = spin_lock_irqsave(&p->lock);
	while (!p->dead && (b = virtq_get(vq, &len)) != NULL) {
		if (IS_ERR(b)) {
			p->dead = true;
			break;
		}
		list_add_tail(&b->link, &p->empty);
		p->nr_sending--;
	}
	dead = p->dead;
	spin_unlock_irqrestore(&p->lock, flags);
	if (dead)
		mark_dead(p);
	else
		wake_all(&p->tx_wait);
}

/* Take up to @len bytes off the filled buffers; the emptied ones go back to the device. */
static size_t take_bytes(struct vcon_port *p, uint8_t *out, size_t len)
{
	size_t got = 0;
	unsigned long flags;

	flags = spin_lock_irqsave(&p->lock);
	while (got < len && !list_empty(&p->full)) {
		struct vcon_buf *b = list_first_entry(&p->full, struct vcon_buf, link);
		const size_t n = MIN(len - got, (size_t)(b->len - b->pos));

		/* At most 4 KiB with interrupts off; the buffer is ours until it is posted. */
		memcpy(out + got, b->data + b->pos, n);
		b->pos += (uint32_t)n;
		got += n;
		if (b->pos == b->len) {
			list_del(&b->link);
			post_rx_locked(p, b);
		}
		if (got >= VCON_BUF_LEN)
			break;
	}
	virtq_kick(p->rx);
	spin_unlock_irqrestore(&p->lock, flags);
	return got;
}

/* Is there anything to tell a reader? */
static bool rx_ready(struct vcon_port *p)
{
	unsigned long flags;
	bool ready;

	flags = spin_lock_irqsave(&p->lock);
	ready = !list_empty(&p->full) || p->dead || (p->was_open && !p->host_open);
	spin_unlock_irqrestore(&p->lock, flags);
	return ready;
}

static int port_error(struct vcon_port *p)
{
	unsigned long flags;
	int err = 0;

	flags = spin_lock_irqsave(&p->lock);
	if (p->dead)
		err = -EIO;
	else if (p->was_open && !p->host_open)
		err = -EPIPE;
	spin_unlock_irqrestore(&p->lock, flags);
	return err;
}

static ssize_t vcon_read(struct chardev *cd, void *buf, size_t len, uint64_t deadline_ns)
{
	struct vcon_port *p = port_of(cd);
	ssize_t ret = 0;
	size_t got;

	mutex_lock(&p->read_lock);
	while (!ret) {
		got = take_bytes(p, buf, len);
		if (got) {
			counter_add(&console_rx_bytes, got);
			ret = (ssize_t)got;
			break;
		}
		ret = port_error(p);
		if (ret || !wait_event_timeout(&p->rx_wait, rx_ready(p), deadline_ns))
			break;
	}
	mutex_unlock(&p->read_lock);
	return ret;
}

/* Hand @n bytes over in one buffer: 0, -EAGAIN when none is free, or -errno. */
static int send_piece(struct vcon_port *p, const uint8_t *data, size_t n)
{
	struct vcon_buf *b = NULL;
	struct virtq_seg seg;
	unsigned long flags;
	int err = -EAGAIN;

	flags = spin_lock_irqsave(&p->lock);
	if (p->dead) {
		err = -EIO;
	} else if (p->was_open && !p->host_open) {
		err = -EPIPE;
	} else if (!list_empty(&p->empty)) {
		b = list_first_entry(&p->empty, struct vcon_buf, link);
		memcpy(b->data, data, n);
		seg = (struct virtq_seg){ b->paddr, (uint32_t)n };
		err = virtq_add(p->tx, &seg, 1, 0, b);
		if (!err) {
			list_del(&b->link);
			p->nr_sending++;
			virtq_kick(p->tx);
		}
	}
	spin_unlock_irqrestore(&p->lock, flags);
	return err;
}

static bool tx_ready(struct vcon_port *p)
{
	unsigned long flags;
	bool ready;

	flags = spin_lock_irqsave(&p->lock);
	ready = !list_empty(&p->empty) || p->dead || (p->was_open && !p->host_open);
	spin_unlock_irqrestore(&p->lock, flags);
	return ready;
}

static int vcon_write(struct chardev *cd, const void *buf, size_t len, uint64_t deadline_ns)
{
	struct vcon_port *p = port_of(cd);
	const uint8_t *data = buf;
	int err = 0;

	mutex_lock(&p->write_lock);
	while (len && !err) {
		const size_t n = MIN(len, (size_t)VCON_BUF_LEN);

		err = send_piece(p, data, n);
		if (!err) {
			counter_add(&console_tx_bytes, n);
			data += n;
			len -= n;
		} else if (err == -EAGAIN) {
			err = wait_event_timeout(&p->tx_wait, tx_ready(p), deadline_ns)
				      ? 0
				      : -ETIMEDOUT;
		}
	}
	mutex_unlock(&p->write_lock);
	return err;
}

static bool is_open(struct vcon_port *p)
{
	unsigned long flags;
	bool open;

	flags = spin_lock_irqsave(&p->lock);
	open = p->host_open && !p->dead;
	spin_unlock_irqrestore(&p->lock, flags);
	return open;
}

static bool open_or_dead(struct vcon_port *p)
{
	unsigned long flags;
	bool yes;

	flags = spin_lock_irqsave(&p->lock);
	yes = p->host_open || p->dead;
	spin_unlock_irqrestore(&p->lock, flags);
	return yes;
}

static bool vcon_wait_connected(struct chardev *cd, uint64_t deadline_ns)
{
	struct vcon_port *p = port_of(cd);

	return wait_event_timeout(&p->open_wait, open_or_dead(p), deadline_ns) && is_open(p);
}

static const struct chardev_ops vcon_ops = {
	.read = vcon_read,
	.write = vcon_write,
	.wait_connected = vcon_wait_connected,
};

void *vcon_bufs_alloc(struct vcon_buf *rx, struct vcon_buf *tx)
{
	paddr_t paddr;
	uint8_t *memory = dma_alloc(2 * VCON_NR_BUFS * VCON_BUF_LEN, &paddr);

	if (!memory)
		return NULL;
	for (unsigned int i = 0; i < 2 * VCON_NR_BUFS; i++) {
		struct vcon_buf *b = i < VCON_NR_BUFS ? &rx[i] : &tx[i - VCON_NR_BUFS];

		list_init(&b->link);
		b->data = memory + i * VCON_BUF_LEN;
		b->paddr = paddr + i * VCON_BUF_LEN;
	}
	return memory;
}

void vcon_bufs_free(void *memory)
{
	if (memory)
		dma_free(memory, 2 * VCON_NR_BUFS * VCON_BUF_LEN);
}

struct vcon_port *vcon_port_new(struct vcon *con, uint32_t id)
{
	struct vcon_port *p = kzalloc(sizeof(*p));

	if (!p)
		return NULL;
	p->con = con;
	p->id = id;
	p->cd.ops = &vcon_ops;
	list_init(&p->full);
	list_init(&p->empty);
	spin_lock_init(&p->lock, "virtio-console", RANK_SPIN_QUEUE);
	mutex_init(&p->read_lock, "console-read", RANK_DRIVER);
	mutex_init(&p->write_lock, "console-write", RANK_DRIVER);
	waitqueue_init(&p->rx_wait);
	waitqueue_init(&p->tx_wait);
	waitqueue_init(&p->open_wait);
	p->memory = vcon_bufs_alloc(p->rx_bufs, p->tx_bufs);
	if (!p->memory) {
		kfree(p);
		return NULL;
	}
	for (unsigned int i = 0; i < VCON_NR_BUFS; i++)
		list_add_tail(&p->tx_bufs[i].link, &p->empty);
	return p;
}

int vcon_port_setup(struct vcon_port *p)
{
	struct virtio_device *vd = p->con->vd;
	int err;

	err = virtq_create(vd, vcon_rx_queue(p->id), VCON_NR_BUFS, 1, rx_used, p, &p->rx);
	if (!err)
		err = virtq_create(vd, vcon_tx_queue(p->id), VCON_NR_BUFS, 1, tx_used, p, &p->tx);
	return err;
}

void vcon_port_fill(struct vcon_port *p)
{
	unsigned long flags;

	flags = spin_lock_irqsave(&p->lock);
	for (unsigned int i = 0; i < MIN(VCON_NR_BUFS, virtq_size(p->rx)); i++)
		post_rx_locked(p, &p->rx_bufs[i]);
	virtq_kick(p->rx);
	spin_unlock_irqrestore(&p->lock, flags);
}

void vcon_port_set_open(struct vcon_port *p, bool open)
{
	unsigned long flags;

	flags = spin_lock_irqsave(&p->lock);
	p->host_open = open;
	if (open)
		p->was_open = true;
	spin_unlock_irqrestore(&p->lock, flags);
	wake_all(&p->open_wait);
	wake_all(&p->rx_wait);
	wake_all(&p->tx_wait);
}

void vcon_port_bury(struct vcon_port *p)
{
	unsigned long flags;

	flags = spin_lock_irqsave(&p->lock);
	p->dead = true;
	spin_unlock_irqrestore(&p->lock, flags);
	mark_dead(p);
}

void vcon_port_free(struct vcon_port *p)
{
	vcon_bufs_free(p->memory);
	kfree(p);
}
