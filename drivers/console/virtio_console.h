/* SPDX-License-Identifier: MIT */
/* virtio consoles: layout (VIRTIO 1.1, section 5.3), and the parts that the files share. */
#pragma once

#include <drivers/console.h>
#include <drivers/virtio.h>
#include <kernel/mutex.h>
#include <kernel/spinlock.h>
#include <kernel/wait.h>
#include <lib/byteorder.h>
#include <lib/compiler.h>
#include <lib/list.h>

enum virtio_console_feature {
	VIRTIO_CONSOLE_F_MULTIPORT = 1,
};

#define VIRTIO_CONSOLE_CFG_MAX_PORTS 4 /* offset of a le32 */

enum virtio_console_event {
	VIRTIO_CONSOLE_DEVICE_READY = 0,
	VIRTIO_CONSOLE_DEVICE_ADD = 1,
	VIRTIO_CONSOLE_DEVICE_REMOVE = 2,
	VIRTIO_CONSOLE_PORT_READY = 3,
	VIRTIO_CONSOLE_CONSOLE_PORT = 4,
	VIRTIO_CONSOLE_RESIZE = 5,
	VIRTIO_CONSOLE_PORT_OPEN = 6,
	VIRTIO_CONSOLE_PORT_NAME = 7,
};

struct virtio_console_control {
	le32_t id; /* of the port */
	le16_t event;
	le16_t value;
};
static_assert(sizeof(struct virtio_console_control) == 8, "control message is device layout");

/* Queues: 0 and 1 are port 0's, 2 and 3 carry control messages, then two per port. */
static inline unsigned int vcon_rx_queue(uint32_t port)
{
	return port ? 2 * port + 2 : 0;
}

static inline unsigned int vcon_tx_queue(uint32_t port)
{
	return vcon_rx_queue(port) + 1;
}

#define VCON_CONTROL_RX 2u
#define VCON_CONTROL_TX 3u

#define VCON_NR_BUFS   16u /* per direction and port */
#define VCON_BUF_LEN   4096u
#define VCON_MAX_PORTS 4u /* that we serve, of those that a device may have */

/* A piece of memory that goes to the device and comes back. */
struct vcon_buf {
	struct list_head link; /* on a list of its port, while the device has it not */
	uint8_t *data;
	paddr_t paddr;
	uint32_t len; /* bytes that the device wrote */
	uint32_t pos; /* bytes of them that were read */
};

struct vcon_port {
	struct chardev cd;
	struct vcon *con;
	uint32_t id;
	struct virtq *rx, *tx;   /* const after start */
	struct mutex read_lock;  /* RANK_DRIVER: one reader at a time */
	struct mutex write_lock; /* RANK_DRIVER: one writer at a time, so that writes stay whole */
	struct spinlock lock;    /* RANK_SPIN_QUEUE, irq-safe: all below, and both queues */
	struct list_head full __guarded_by(&lock);  /* received, oldest first */
	struct list_head empty __guarded_by(&lock); /* free for sending */
	unsigned int nr_sending __guarded_by(&lock);
	bool host_open __guarded_by(&lock);
	bool was_open __guarded_by(&lock);
	bool dead __guarded_by(&lock);
	struct waitqueue rx_wait, tx_wait, open_wait;
	struct vcon_buf rx_bufs[VCON_NR_BUFS], tx_bufs[VCON_NR_BUFS];
	void *memory;
	bool added;      /* the control thread's */
	bool registered; /* likewise */
};

struct vcon_control {
	struct virtq *rx, *tx;
	struct spinlock lock; /* RANK_SPIN_QUEUE, irq-safe: both queues */
	struct list_head full __guarded_by(&lock);
	struct list_head empty __guarded_by(&lock);
	bool dead __guarded_by(&lock);
	struct waitqueue wait;
	struct vcon_buf rx_bufs[VCON_NR_BUFS], tx_bufs[VCON_NR_BUFS];
	void *memory;
};

struct vcon {
	struct virtio_device *vd;
	struct vcon_port *ports[VCON_MAX_PORTS]; /* const after start; NULL: none */
	uint32_t nr_ports; /* that the device may have, at most VCON_MAX_PORTS */
	bool multiport;
	struct vcon_control control;
};

/* vcon_port.c */
struct vcon_port *vcon_port_new(struct vcon *con, uint32_t id);
/* Create the queues; before virtio_start(). */
int __must_check vcon_port_setup(struct vcon_port *p);
/* Give the device its receive buffers; after virtio_start(). */
void vcon_port_fill(struct vcon_port *p);
void vcon_port_set_open(struct vcon_port *p, bool open);
/* The device is out of use: end all waits. */
void vcon_port_bury(struct vcon_port *p);
void vcon_port_free(struct vcon_port *p);
/* Two sets of buffers over one piece of DMA memory; NULL: no memory. */
void *vcon_bufs_alloc(struct vcon_buf *rx, struct vcon_buf *tx);
void vcon_bufs_free(void *memory);

/* vcon_decode.c: checks one message; -EPROTO if it makes no sense.  Pure. */
struct vcon_event {
	uint32_t port;
	enum virtio_console_event event;
	uint16_t value;
	char name[CHARDEV_NAME_LEN]; /* of PORT_NAME */
};
int __must_check vcon_event_decode(const void *msg, uint32_t len, struct vcon_event *out);
