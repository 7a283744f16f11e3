/* SPDX-License-Identifier: MIT */
/*
 * ConnectX-3: ports: bring-up, state, and the device's own management agents.
 *
 * Flow:	SET_PORT with the port's capabilities, QP0, INIT_PORT; then the subnet manager makes
 *		the port ACTIVE.  State is read by management datagrams (MAD_IFC) and cached; events
 *		make the device's thread read it again.
 * Locking:	port->lock guards the cached state; it is taken with interrupts off, because posting
 *		on a special queue pair reads it.
 */
#include <lib/errno.h>
#include <lib/string.h>

#include "mlx4.h"
#include "regs.h"

#define PR_FMT "mlx4: "
#include <kernel/printk.h>

#define MAD_BYTES       256
#define MAD_EXT_AT      0x100
#define MAD_DATA        64
#define MAD_IFC_NO_MKEY BIT(0)
#define MAD_IFC_NO_BKEY BIT(1)
#define MAD_IFC_EXT     BIT(2)
#define SMP_CLASS       0x01
#define SMP_GET         0x01
#define SMP_GUIDINFO    0x14
#define SMP_PORTINFO    0x15
#define SMP_PKEY        0x16
#define SMP_SL2VL       0x17
#define SET_PORT_MTU    BIT(22)
#define SET_PORT_VL     BIT(21)
#define SET_PORT_MTU_SH 12
#define SET_PORT_VL_SH  4
#define PI_PREFIX       8
#define PI_LID          16
#define PI_SM_LID       18
#define PI_CAP_MASK     20
#define PI_STATE        32
#define PI_MTU_CAP      41

int mlx4_mad_ifc(struct mlx4_dev *dev, uint8_t port, const struct rdma_addr *from, uint32_t src_qpn,
		 const void *in, void *out)
{
	struct mlx4_mbox inbox, outbox;
	struct mlx4_cmd_args args = {
		.op = CMD_MAD_IFC,
		/* Our own questions carry no key; a peer's are checked. */
		.op_mod = from ? MAD_IFC_EXT : MAD_IFC_NO_MKEY | MAD_IFC_NO_BKEY,
		.in_mod = port,
		.quiet = true,
	};
	int err;

	err = mlx4_mbox_get(&inbox);
	if (err)
		return err;
	err = mlx4_mbox_get(&outbox);
	if (err)
		goto out_in;
	memcpy(inbox.virt, in, MAD_BYTES);
	if (from) {
		args.in_mod |= (uint32_t)from->dlid << 16;
		mlx4_put32(inbox.virt, MAD_EXT_AT + 0x8, src_qpn & 0xffffff);
		mlx4_put8(inbox.virt, MAD_EXT_AT + 0xc, (uint8_t)(from->sl << 4));
	}
	args.in = inbox.paddr;
	args.out = outbox.paddr;
	err = mlx4_cmd(dev, &args);
	if (!err)
		memcpy(out, outbox.virt, MAD_BYTES);
	mlx4_mbox_put(&outbox);
out_in:
	mlx4_mbox_put(&inbox);
	return err;
}

int mlx4_process_mad(struct rdma_device *rdma, uint8_t port, const struct rdma_addr *from,
		     uint32_t src_qpn, const void *in, void *out)
{
	int err = mlx4_mad_ifc(to_mlx4(rdma), port, from, src_qpn, in, out);

	if (err)
		return err;
	/* The response bit of the method. */
	return mlx4_get8(out, 3) & 0x80 ? 0 : -ENOENT;
}

/* Get() of one attribute of our own port; the 64 bytes of data into @data. */
static int smp_get(struct mlx4_dev *dev, uint8_t port, uint16_t attr, uint32_t mod, void *data)
{
	uint8_t in[MAD_BYTES] = { 1, SMP_CLASS, 1, SMP_GET };
	uint8_t out[MAD_BYTES];
	int err;

	mlx4_put16(in, 16, attr);
	mlx4_put32(in, 20, mod);
	err = mlx4_mad_ifc(dev, port, NULL, 0, in, out);
	if (err)
		return err;
	if (mlx4_get16(out, 4) & 0x7fff)
		return -EPROTO;
	memcpy(data, out + MAD_DATA, 64);
	return 0;
}

struct port_view {
	struct rdma_port_attr attr;
	uint8_t vl_of_sl[16];
	uint16_t pkeys[MAX_PKEYS];
};

static int port_read(struct mlx4_dev *dev, const struct mlx4_port *port, struct port_view *v)
{
	uint8_t data[64];
	int err;

	err = smp_get(dev, port->num, SMP_PORTINFO, port->num, data);
	if (err)
		return err;
	v->attr.state = MIN(data[PI_STATE] & 0xf, RDMA_PORT_ACTIVE);
	v->attr.lid = mlx4_get16(data, PI_LID);
	v->attr.sm_lid = mlx4_get16(data, PI_SM_LID);
	v->attr.active_mtu = MIN(MAX(data[36] >> 4, 1), RDMA_MTU_4096);
	v->attr.pkey_table_len = 1U << port->caps.log_pkeys;
	memcpy(v->attr.gid.raw, data + PI_PREFIX, 8);

	err = smp_get(dev, port->num, SMP_GUIDINFO, 0, data);
	if (err)
		return err;
	memcpy(v->attr.gid.raw + 8, data, 8);

	err = smp_get(dev, port->num, SMP_PKEY, 0, data);
	if (err)
		return err;
	for (unsigned int n = 0; n < MAX_PKEYS; n++)
		v->pkeys[n] = mlx4_get16(data, 2UL * n);

	err = smp_get(dev, port->num, SMP_SL2VL, 0, data);
	for (unsigned int sl = 0; sl < 16; sl++) {
		/* Without a table every service level uses lane 0. */
		const uint8_t vls = err ? 0 : data[sl / 2];

		v->vl_of_sl[sl] = sl & 1 ? vls & 0xf : vls >> 4;
	}
	return 0;
}

static void dispatch(struct mlx4_dev *dev, const struct mlx4_port *port, enum rdma_event_type type)
{
	const struct rdma_event ev = { .type = type, .dev = &dev->rdma, .port = port->num };

	/* While the device recovers, recovery tells when all is done. */
	if (READ_ONCE(dev->registered) && !mlx4_is_dead(dev))
		rdma_event_dispatch(&ev);
}

void mlx4_port_refresh(struct mlx4_dev *dev, struct mlx4_port *port)
{
	struct port_view v = { 0 };
	struct rdma_port_attr old;
	unsigned long flags;
	int err;

	err = port_read(dev, port, &v);
	if (err) {
		if (!mlx4_is_dead(dev))
			pr_warn("%s: port %u: state cannot be read: error %d\n", dev->name,
				port->num, err);
		return;
	}
	flags = spin_lock_irqsave(&port->lock);
	old = port->attr;
	port->attr = v.attr;
	memcpy(port->vl_of_sl, v.vl_of_sl, sizeof(v.vl_of_sl));
	memcpy(port->pkeys, v.pkeys, sizeof(v.pkeys));
	spin_unlock_irqrestore(&port->lock, flags);

	if (v.attr.state == RDMA_PORT_ACTIVE && old.state != RDMA_PORT_ACTIVE) {
		pr_info("%s: port %u: PORT_ACTIVE, LID %u, SM LID %u\n", dev->name, port->num,
			v.attr.lid, v.attr.sm_lid);
		dispatch(dev, port, RDMA_EVENT_PORT_ACTIVE);
	} else if (v.attr.state != RDMA_PORT_ACTIVE && old.state == RDMA_PORT_ACTIVE) {
		pr_warn("%s: port %u: down\n", dev->name, port->num);
		dispatch(dev, port, RDMA_EVENT_PORT_DOWN);
	} else if (v.attr.lid != old.lid && v.attr.state == RDMA_PORT_ACTIVE) {
		pr_info("%s: port %u: LID is now %u\n", dev->name, port->num, v.attr.lid);
		dispatch(dev, port, RDMA_EVENT_LID_CHANGE);
	}
}

int mlx4_port_attr(struct rdma_device *rdma, uint8_t num, struct rdma_port_attr *attr)
{
	struct mlx4_dev *dev = to_mlx4(rdma);
	struct mlx4_port *port = &dev->ports[num - 1];
	unsigned long flags;

	if (mlx4_is_dead(dev))
		return -EIO;
	flags = spin_lock_irqsave(&port->lock);
	*attr = port->attr;
	spin_unlock_irqrestore(&port->lock, flags);
	return 0;
}

/* Tell the port what it may offer; fewer virtual lanes until the device agrees. */
static int port_set(struct mlx4_dev *dev, const struct mlx4_port *port, uint32_t cap_mask)
{
	struct mlx4_mbox mbox;
	int err;

	err = mlx4_mbox_get(&mbox);
	if (err)
		return err;
	mlx4_put32(mbox.virt, 4, cap_mask);
	for (uint32_t vls = 8;; vls /= 2) {
		const struct mlx4_cmd_args args = {
			.op = CMD_SET_PORT, .in_mod = port->num, .in = mbox.paddr, .quiet = true
		};

		mlx4_put32(mbox.virt, 0,
			   SET_PORT_MTU | SET_PORT_VL |
				   (uint32_t)port->caps.mtu_cap << SET_PORT_MTU_SH |
				   vls << SET_PORT_VL_SH);
		err = mlx4_cmd(dev, &args);
		if (err != -ENOMEM || vls == 1)
			break;
	}
	mlx4_mbox_put(&mbox);
	return err;
}

static int port_open(struct mlx4_dev *dev, struct mlx4_port *port)
{
	uint8_t data[64];
	int err;

	err = smp_get(dev, port->num, SMP_PORTINFO, port->num, data);
	if (err)
		return err;
	err = port_set(dev, port, mlx4_get32(data, PI_CAP_MASK));
	if (err)
		return err;
	err = mlx4_smi_create(dev, port);
	if (err)
		return err;
	err = mlx4_cmd_none(dev, CMD_INIT_PORT, 0, port->num);
	if (err)
		return err;
	port->open = true;
	mlx4_port_refresh(dev, port);
	return 0;
}

int mlx4_ports_open(struct mlx4_dev *dev)
{
	unsigned int nr_open = 0;
	int err = 0;

	for (unsigned int n = 0; n < dev->caps.nr_ports; n++) {
		struct mlx4_port *port = &dev->ports[n];

		if (!port->caps.ib) {
			pr_info("%s: port %u is not an InfiniBand port\n", dev->name, port->num);
			continue;
		}
		err = port_open(dev, port);
		if (err)
			pr_err("%s: port %u cannot be opened: error %d\n", dev->name, port->num,
			       err);
		else
			nr_open++;
	}
	if (!nr_open && !err)
		err = -ENODEV;
	return nr_open ? 0 : err;
}

static void port_forget(struct mlx4_port *port)
{
	unsigned long flags;

	flags = spin_lock_irqsave(&port->lock);
	port->attr.state = RDMA_PORT_DOWN;
	spin_unlock_irqrestore(&port->lock, flags);
}

void mlx4_ports_close(struct mlx4_dev *dev)
{
	for (unsigned int n = 0; n < dev->caps.nr_ports; n++) {
		struct mlx4_port *port = &dev->ports[n];

		if (port->open && mlx4_cmd_none(dev, CMD_CLOSE_PORT, 0, port->num) &&
		    !mlx4_is_dead(dev))
			pr_warn("%s: port %u does not close\n", dev->name, port->num);
		port->open = false;
		port_forget(port);
		mlx4_smi_destroy(dev, port);
	}
}
