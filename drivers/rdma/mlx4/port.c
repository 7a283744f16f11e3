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

#include "hw.h"
#include "mlx4.h"

#define PR_FMT "mlx4: "
#include <kernel/printk.h>

int mlx4_mad_ifc(struct mlx4_dev *dev, uint8_t port, const struct rdma_addr *from, uint32_t src_qpn,
		 const void *in, void *out)
{
	struct mlx4_hw_mad_ifc *hw;
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
	hw = inbox.virt;
	memcpy(hw->mad, in, sizeof(hw->mad));
	if (from) {
		args.in_mod |= (uint32_t)from->dlid << 16;
		hw->src_qpn = cpu_to_be32(src_qpn & UD_QPN_MASK);
		hw->sl = (uint8_t)(from->sl << MAD_IFC_SL_SH);
	}
	args.in = inbox.paddr;
	args.out = outbox.paddr;
	err = mlx4_cmd(dev, &args);
	if (!err)
		memcpy(out, outbox.virt, sizeof(hw->mad));
	mlx4_mbox_put(&outbox);
out_in:
	mlx4_mbox_put(&inbox);
	return err;
}

int mlx4_process_mad(struct rdma_device *rdma, uint8_t port, const struct rdma_addr *from,
		     uint32_t src_qpn, const void *in, void *out)
{
	const struct mlx4_hw_smp *answer = out; /* the header is that of any MAD */
	int err = mlx4_mad_ifc(to_mlx4(rdma), port, from, src_qpn, in, out);

	if (err)
		return err;
	return answer->method & SMP_METHOD_RESP ? 0 : -ENOENT;
}

/* Get() of one attribute of our own port; the 64 bytes of data into @data. */
static int smp_get(struct mlx4_dev *dev, uint8_t port, uint16_t attr, uint32_t mod, void *data)
{
	const struct mlx4_hw_smp in = {
		.base_version = 1,
		.mgmt_class = SMP_CLASS_LID,
		.class_version = 1,
		.method = SMP_METHOD_GET,
		.attr_id = cpu_to_be16(attr),
		.attr_mod = cpu_to_be32(mod),
	};
	struct mlx4_hw_smp out;
	int err;

	err = mlx4_mad_ifc(dev, port, NULL, 0, &in, &out);
	if (err)
		return err;
	if (be16_to_cpu(out.status) & SMP_STATUS_MASK)
		return -EPROTO;
	memcpy(data, out.data, sizeof(out.data));
	return 0;
}

struct port_view {
	struct rdma_port_attr attr;
	uint8_t vl_of_sl[16];
	uint16_t pkeys[MAX_PKEYS];
};

static int port_read(struct mlx4_dev *dev, const struct mlx4_port *port, struct port_view *v)
{
	union {
		struct mlx4_hw_port_info port;
		struct mlx4_hw_guid_info guid;
		struct mlx4_hw_pkey_table pkey;
		struct mlx4_hw_sl_to_vl sl;
	} data;
	int err;

	err = smp_get(dev, port->num, SMP_ATTR_PORT_INFO, port->num, &data);
	if (err)
		return err;
	v->attr.state = MIN(data.port.speed_state & PORT_INFO_STATE_MASK, RDMA_PORT_ACTIVE);
	v->attr.lid = be16_to_cpu(data.port.lid);
	v->attr.sm_lid = be16_to_cpu(data.port.sm_lid);
	v->attr.active_mtu = MIN(MAX(data.port.mtu_sm_sl >> PORT_INFO_MTU_SH, 1), RDMA_MTU_4096);
	v->attr.pkey_table_len = 1U << port->caps.log_pkeys;
	memcpy(v->attr.gid.raw, data.port.gid_prefix, 8);

	err = smp_get(dev, port->num, SMP_ATTR_GUID_INFO, 0, &data);
	if (err)
		return err;
	memcpy(v->attr.gid.raw + 8, data.guid.guids[0], 8);

	err = smp_get(dev, port->num, SMP_ATTR_PKEY_TABLE, 0, &data);
	if (err)
		return err;
	for (unsigned int n = 0; n < MAX_PKEYS; n++)
		v->pkeys[n] = be16_to_cpu(data.pkey.pkeys[n]);

	err = smp_get(dev, port->num, SMP_ATTR_SL_TO_VL, 0, &data);
	for (unsigned int sl = 0; sl < 16; sl++) {
		/* Without a table every service level uses lane 0. */
		const uint8_t vls = err ? 0 : data.sl.vls[sl / 2];

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
	struct mlx4_hw_set_port *hw;
	struct mlx4_mbox mbox;
	int err;

	err = mlx4_mbox_get(&mbox);
	if (err)
		return err;
	hw = mbox.virt;
	hw->cap_mask = cpu_to_be32(cap_mask);
	for (uint32_t vls = 8;; vls /= 2) {
		const struct mlx4_cmd_args args = {
			.op = CMD_SET_PORT, .in_mod = port->num, .in = mbox.paddr, .quiet = true
		};

		hw->what = cpu_to_be32(SET_PORT_MTU | SET_PORT_VL |
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
	struct mlx4_hw_port_info info;
	int err;

	err = smp_get(dev, port->num, SMP_ATTR_PORT_INFO, port->num, &info);
	if (err)
		return err;
	err = port_set(dev, port, be32_to_cpu(info.cap_mask));
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
