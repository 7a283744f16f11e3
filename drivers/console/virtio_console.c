/* SPDX-License-Identifier: MIT */
/*
 * virtio consoles: the device and its control messages.
 *
 * Flow:	probe sets up the queues of up to four ports and starts a thread for the control
 *		messages: the device adds ports, names them and says when the host opens and
 *		closes them.  A named port is registered as a chardev of that name; a device
 *		without the MULTIPORT feature is one port called "console".
 * Context:	probe and the control thread may sleep.
 * Locking:	control.lock (irq-safe) for its queues; ports have their own.
 * Failure:	a message that makes no sense is logged and ignored; a device that breaks the
 *		rules of its queues is fenced, and all ports answer -EIO.
 * Limits:	ports 0 to 3; the host is told that others are not served.
 * See:		docs/drivers/virtio.md; VIRTIO 1.1, section 5.3
 */
#define PR_FMT "virtio-console: "

#include "virtio_console.h"

#include <drivers/pci.h>
#include <kernel/printk.h>
#include <kernel/thread.h>
#include <lib/err.h>
#include <lib/errno.h>
#include <lib/string.h>
#include <mm/slab.h>

static void control_used(struct virtq *vq, void *arg)
{
	struct vcon_control *c = arg;
	struct list_head *done;
	struct vcon_buf *b;
	unsigned long flags;
	uint32_t len;

	flags = spin_lock_irqsave(&c->lock);
	done = vq == c->rx ? &c->full : &c->empty;
	while (!c->dead && (b = virtq_get(vq, &len)) != NULL) {
		if (IS_ERR(b)) {
			c->dead = true;
			break;
		}
		b->len = len;
		list_add_tail(&b->link, done);
	}
	spin_unlock_irqrestore(&c->lock, flags);
	wake_all(&c->wait);
}

static void post_control(struct vcon_control *c, struct vcon_buf *b)
{
	const struct virtq_seg seg = { b->paddr, VCON_BUF_LEN };
	unsigned long flags;

	flags = spin_lock_irqsave(&c->lock);
	if (virtq_add(c->rx, &seg, 0, 1, b))
		c->dead = true;
	virtq_kick(c->rx);
	spin_unlock_irqrestore(&c->lock, flags);
}

/* Take the first buffer of @list; NULL and *dead if the device is out of use. */
static struct vcon_buf *pop(struct vcon_control *c, struct list_head *list, bool *dead)
{
	struct vcon_buf *b;
	unsigned long flags;

	flags = spin_lock_irqsave(&c->lock);
	b = list_first_entry_or_null(list, struct vcon_buf, link);
	if (b)
		list_del(&b->link);
	*dead = c->dead;
	spin_unlock_irqrestore(&c->lock, flags);
	return b;
}

static struct vcon_buf *pop_wait(struct vcon_control *c, struct list_head *list)
{
	struct vcon_buf *b = NULL;
	bool dead = false;

	wait_event(&c->wait, (b = pop(c, list, &dead)) != NULL || dead);
	return b;
}

static void send_control(struct vcon *con, uint32_t port, enum virtio_console_event event,
			 uint16_t value)
{
	const struct virtio_console_control msg = {
		.id = cpu_to_le32(port),
		.event = cpu_to_le16(event),
		.value = cpu_to_le16(value),
	};
	struct vcon_control *c = &con->control;
	struct vcon_buf *b = pop_wait(c, &c->empty);
	struct virtq_seg seg;
	unsigned long flags;

	if (!b)
		return;
	memcpy(b->data, &msg, sizeof(msg));
	seg = (struct virtq_seg){ b->paddr, sizeof(msg) };
	flags = spin_lock_irqsave(&c->lock);
	if (virtq_add(c->tx, &seg, 1, 0, b))
		c->dead = true;
	virtq_kick(c->tx);
	spin_unlock_irqrestore(&c->lock, flags);
}

static void port_added(struct vcon *con, struct vcon_port *p)
{
	if (p->added)
		return;
	p->added = true;
	vcon_port_fill(p);
	send_control(con, p->id, VIRTIO_CONSOLE_PORT_READY, 1);
	/* Our side is open from the start: what comes before a reader waits in the buffers. */
	send_control(con, p->id, VIRTIO_CONSOLE_PORT_OPEN, 1);
}

static void port_named(struct vcon_port *p, const char *name)
{
	int err;

	if (p->registered)
		return;
	strlcpy(p->cd.name, name, sizeof(p->cd.name));
	err = chardev_register(&p->cd);
	if (err) {
		pr_err("port %u: the name %s is taken\n", p->id, name);
		return;
	}
	p->registered = true;
	pr_info("port %u is %s\n", p->id, name);
}

static void handle_event(struct vcon *con, const struct vcon_event *e)
{
	struct vcon_port *p;

	if (e->port >= con->nr_ports) {
		if (e->event == VIRTIO_CONSOLE_DEVICE_ADD) {
			pr_warn("port %u is beyond the %u that are served\n", e->port,
				con->nr_ports);
			send_control(con, e->port, VIRTIO_CONSOLE_PORT_READY, 0);
		}
		return;
	}
	p = con->ports[e->port];
	switch (e->event) {
	case VIRTIO_CONSOLE_DEVICE_ADD:
		port_added(con, p);
		break;
	case VIRTIO_CONSOLE_PORT_NAME:
		port_named(p, e->name);
		break;
	case VIRTIO_CONSOLE_PORT_OPEN:
		vcon_port_set_open(p, e->value);
		break;
	case VIRTIO_CONSOLE_DEVICE_REMOVE:
		vcon_port_set_open(p, false);
		break;
	default: /* CONSOLE_PORT and RESIZE are for terminals */
		break;
	}
}

static void control_thread(void *arg)
{
	struct vcon *con = arg;
	struct vcon_control *c = &con->control;
	struct vcon_event event;
	struct vcon_buf *b;

	send_control(con, 0, VIRTIO_CONSOLE_DEVICE_READY, 1);
	while ((b = pop_wait(c, &c->full)) != NULL) {
		if (vcon_event_decode(b->data, b->len, &event))
			pr_warn("a control message of %u bytes makes no sense\n", b->len);
		else
			handle_event(con, &event);
		post_control(c, b);
	}
	for (uint32_t i = 0; i < con->nr_ports; i++)
		vcon_port_bury(con->ports[i]);
}

static int control_setup(struct vcon *con)
{
	struct vcon_control *c = &con->control;
	int err;

	c->memory = vcon_bufs_alloc(c->rx_bufs, c->tx_bufs);
	if (!c->memory)
		return -ENOMEM;
	err = virtq_create(con->vd, VCON_CONTROL_RX, VCON_NR_BUFS, 1, control_used, c, &c->rx);
	if (!err)
		err = virtq_create(con->vd, VCON_CONTROL_TX, VCON_NR_BUFS, 1, control_used, c,
				   &c->tx);
	return err;
}

static void control_fill(struct vcon_control *c)
{
	for (unsigned int i = 0; i < VCON_NR_BUFS; i++)
		list_add_tail(&c->tx_bufs[i].link, &c->empty);
	for (unsigned int i = 0; i < MIN(VCON_NR_BUFS, virtq_size(c->rx)); i++)
		post_control(c, &c->rx_bufs[i]);
}

static int count_ports(struct vcon *con)
{
	le32_t max;
	int err;

	con->nr_ports = 1;
	con->multiport = virtio_has(con->vd, VIRTIO_CONSOLE_F_MULTIPORT);
	if (!con->multiport)
		return 0;
	err = virtio_config_read(con->vd, VIRTIO_CONSOLE_CFG_MAX_PORTS, &max, sizeof(max));
	if (err)
		return err;
	con->nr_ports = MIN(le32_to_cpu(max), VCON_MAX_PORTS);
	return con->nr_ports ? 0 : -EINVAL;
}

static int vcon_setup(struct vcon *con)
{
	int err;

	err = count_ports(con);
	if (err) {
		pr_err("its configuration makes no sense\n");
		return err;
	}
	for (uint32_t i = 0; i < con->nr_ports && !err; i++) {
		con->ports[i] = vcon_port_new(con, i);
		err = con->ports[i] ? vcon_port_setup(con->ports[i]) : -ENOMEM;
	}
	if (!err && con->multiport)
		err = control_setup(con);
	if (!err)
		err = virtio_start(con->vd);
	return err;
}

static int vcon_run(struct vcon *con)
{
	struct thread *thread;

	if (!con->multiport) {
		vcon_port_fill(con->ports[0]);
		vcon_port_set_open(con->ports[0], true);
		port_named(con->ports[0], "console");
		return 0;
	}
	control_fill(&con->control);
	thread = thread_create("virtio-console", control_thread, con);
	if (IS_ERR(thread))
		return (int)PTR_ERR(thread);
	thread_detach(thread);
	return 0;
}

static void vcon_free(struct vcon *con)
{
	virtio_close(con->vd);
	for (uint32_t i = 0; i < VCON_MAX_PORTS; i++) {
		if (con->ports[i])
			vcon_port_free(con->ports[i]);
	}
	vcon_bufs_free(con->control.memory);
	kfree(con);
}

static int vcon_probe(struct pci_device *pci, const struct pci_id *id)
{
	struct vcon *con = kzalloc(sizeof(*con));
	int err;

	(void)id;
	if (!con)
		return -ENOMEM;
	list_init(&con->control.full);
	list_init(&con->control.empty);
	spin_lock_init(&con->control.lock, "virtio-console", RANK_SPIN_QUEUE);
	waitqueue_init(&con->control.wait);
	con->vd = virtio_pci_open(pci, "virtio-console", BIT64(VIRTIO_CONSOLE_F_MULTIPORT), NULL);
	if (IS_ERR(con->vd)) {
		err = (int)PTR_ERR(con->vd);
		kfree(con);
		return err;
	}
	err = vcon_setup(con);
	if (!err)
		err = vcon_run(con);
	if (err)
		vcon_free(con);
	return err;
}

static const struct pci_id vcon_ids[] = {
	{ VIRTIO_PCI_VENDOR, 0x1003 }, /* transitional */
	{ VIRTIO_PCI_VENDOR, 0x1043 },
	{ 0, 0 },
};
static const struct pci_driver vcon_driver = {
	.name = "virtio-console",
	.ids = vcon_ids,
	.probe = vcon_probe,
};
PCI_DRIVER(vcon_driver);
