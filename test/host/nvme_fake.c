/* SPDX-License-Identifier: MIT */
/*
 * The NVMe controller of nvme_fake.h.
 *
 * Locking:	lock guards registers, rings and settings; interrupts are raised without it.  The
 *		driver rings doorbells with a queue's lock held, so the lock is inside of that.
 */
#include <pthread.h>
#include <stdlib.h>

#include <kernel/panic.h>
#include <lib/errno.h>
#include <lib/fmt.h>
#include <lib/string.h>
#include <mm/kmap.h>
#include <mm/slab.h>

#include <arch/io.h>

#include "nvme_fake.h"

struct ring {
	paddr_t sq, cq;
	unsigned int sq_size, cq_size; /* 0: not created */
	unsigned int head, tail;       /* of the commands */
	unsigned int cq_tail;
	uint16_t phase;
	struct nvme_cmd swallowed[256];
	unsigned int nr_swallowed;
};

struct machine {
	pthread_mutex_t lock;
	pthread_cond_t work;
	pthread_t thread;
	uint32_t cc, csts, aqa;
	uint64_t asq, acq;
	bool gone, stopped, ending;
	struct ring rings[FAKE_MAX_QUEUES];
	bool raise[FAKE_MAX_QUEUES];
	uint8_t regs[FAKE_REGS_LEN];
};

static struct fake *the_fake; /* registers have no argument */

static struct machine *machine(struct fake *f)
{
	return f->priv;
}

void fake_lock(struct fake *f)
{
	pthread_mutex_lock(&machine(f)->lock);
}

void fake_unlock(struct fake *f)
{
	pthread_mutex_unlock(&machine(f)->lock);
}

/* --- registers */

static uint64_t reg_read(const volatile void *addr, unsigned int bytes)
{
	struct machine *m = machine(the_fake);
	const size_t off = (size_t)((const volatile uint8_t *)addr - m->regs);
	uint32_t val = 0;

	BUG_ON(bytes != 4 || off >= FAKE_REGS_LEN);
	fake_lock(the_fake);
	if (m->gone)
		val = NVME_GONE;
	else if (off == NVME_REG_CAP)
		val = (uint32_t)the_fake->cap;
	else if (off == NVME_REG_CAP + 4)
		val = (uint32_t)(the_fake->cap >> 32);
	else if (off == NVME_REG_CC)
		val = m->cc;
	else if (off == NVME_REG_CSTS)
		val = m->csts;
	fake_unlock(the_fake);
	return val;
}

static void set_enabled(struct machine *m, uint32_t cc)
{
	const bool was = m->cc & NVME_CC_EN;

	m->cc = cc;
	if (was && !(cc & NVME_CC_EN)) {
		memset(m->rings, 0, sizeof(m->rings));
		m->csts = 0;
		m->stopped = false;
	} else if (!was && (cc & NVME_CC_EN)) {
		the_fake->nr_enables++;
		m->rings[0] = (struct ring){
			.sq = m->asq,
			.cq = m->acq,
			.sq_size = (m->aqa & 0xfff) + 1,
			.cq_size = (m->aqa >> 16 & 0xfff) + 1,
			.phase = 1,
		};
		m->csts = the_fake->never_ready ? 0 : NVME_CSTS_RDY;
	}
}

static void ring_doorbell(struct machine *m, size_t off, uint32_t val)
{
	const size_t index = (off - NVME_REG_DOORBELLS) / 4;
	struct ring *r = &m->rings[index / 2];

	BUG_ON(index / 2 >= FAKE_MAX_QUEUES);
	if (index % 2)
		return; /* answers taken */
	BUG_ON(r->sq_size && val >= r->sq_size);
	the_fake->nr_doorbells[index / 2]++;
	r->tail = val;
	pthread_cond_signal(&m->work);
}

static void reg_write(volatile void *addr, uint64_t val, unsigned int bytes)
{
	struct machine *m = machine(the_fake);
	const size_t off = (size_t)((const volatile uint8_t *)addr - m->regs);
	const uint32_t v = (uint32_t)val;

	BUG_ON(bytes != 4 || off >= FAKE_REGS_LEN);
	fake_lock(the_fake);
	if (m->gone)
		;
	else if (off == NVME_REG_CC)
		set_enabled(m, v);
	else if (off == NVME_REG_AQA)
		m->aqa = v;
	else if (off == NVME_REG_ASQ)
		m->asq = (m->asq & ~0xffffffffull) | v;
	else if (off == NVME_REG_ASQ + 4)
		m->asq = (m->asq & 0xffffffffull) | val << 32;
	else if (off == NVME_REG_ACQ)
		m->acq = (m->acq & ~0xffffffffull) | v;
	else if (off == NVME_REG_ACQ + 4)
		m->acq = (m->acq & 0xffffffffull) | val << 32;
	else if (off >= NVME_REG_DOORBELLS)
		ring_doorbell(m, off, v);
	fake_unlock(the_fake);
}

static const struct shim_mmio_ops mmio_ops = { .read = reg_read, .write = reg_write };

/* --- answers */

static void post(struct fake *f, unsigned int sq, uint16_t cid, uint16_t sq_id, uint16_t sq_head,
		 uint16_t status, uint32_t result)
{
	struct machine *m = machine(f);
	struct ring *r = &m->rings[sq];
	volatile struct nvme_cqe *cqe = (struct nvme_cqe *)phys_to_virt(r->cq) + r->cq_tail;

	cqe->result = cpu_to_le32(result);
	cqe->sq_head = cpu_to_le16(sq_head);
	cqe->sq_id = cpu_to_le16(sq_id);
	cqe->cid = cpu_to_le16(cid);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	cqe->status = cpu_to_le16((uint16_t)(status << 1 | r->phase));
	r->cq_tail = (r->cq_tail + 1) % r->cq_size;
	if (!r->cq_tail)
		r->phase ^= 1;
	m->raise[sq] = true;
}

void fake_post(struct fake *f, unsigned int sq, uint16_t cid, uint16_t sq_id, uint16_t sq_head,
	       uint16_t status)
{
	post(f, sq, cid, sq_id, sq_head, status, 0);
	pthread_cond_signal(&machine(f)->work);
}

/* --- admin commands */

static uint16_t identify(struct fake *f, const struct nvme_cmd *cmd)
{
	uint8_t *page = phys_to_virt(le64_to_cpu(cmd->prp1));
	const uint32_t nsid = le32_to_cpu(cmd->nsid);

	memset(page, 0, NVME_IDENTIFY_LEN);
	switch (le32_to_cpu(cmd->cdw10) & 0xff) {
	case NVME_CNS_CONTROLLER:
		memcpy(page, &f->id, sizeof(f->id));
		return NVME_SC_OK;
	case NVME_CNS_ACTIVE_NSIDS:
		for (unsigned int i = 0, at = 0; i < f->nr_ns; i++) {
			if (f->ns[i].id > nsid)
				((le32_t *)page)[at++] = cpu_to_le32(f->ns[i].id);
		}
		return NVME_SC_OK;
	case NVME_CNS_NAMESPACE:
		for (unsigned int i = 0; i < f->nr_ns; i++) {
			struct nvme_id_ns *ns = (struct nvme_id_ns *)page;

			if (f->ns[i].id != nsid)
				continue;
			ns->nsze = ns->ncap = cpu_to_le64(f->ns[i].blocks);
			ns->nlbaf = 1;
			ns->flbas = 1;
			ns->formats[1].shift = (uint8_t)f->ns[i].shift;
			return NVME_SC_OK;
		}
		break;
	}
	return NVME_SC_INVALID_FIELD;
}

static uint16_t create(struct fake *f, const struct nvme_cmd *cmd, bool cq)
{
	const uint32_t dw10 = le32_to_cpu(cmd->cdw10);
	const unsigned int id = dw10 & 0xffff;
	struct ring *r = &machine(f)->rings[id];

	if (!id || id >= FAKE_MAX_QUEUES)
		return NVME_SC_INVALID_FIELD;
	if (cq) {
		r->cq = le64_to_cpu(cmd->prp1);
		r->cq_size = (dw10 >> 16) + 1;
		r->cq_tail = 0;
		r->phase = 1;
	} else {
		r->sq = le64_to_cpu(cmd->prp1);
		r->sq_size = (dw10 >> 16) + 1;
		r->head = r->tail = 0;
	}
	return NVME_SC_OK;
}

/* A swallowed command ends, if it is still there. */
static void abort_command(struct fake *f, uint32_t what)
{
	struct ring *r = &machine(f)->rings[what & (FAKE_MAX_QUEUES - 1)];

	for (unsigned int i = 0; i < r->nr_swallowed && !f->deaf_abort; i++) {
		if (le16_to_cpu(r->swallowed[i].cid) != what >> 16)
			continue;
		post(f, what & 0xffff, (uint16_t)(what >> 16), (uint16_t)what, 0, NVME_SC_ABORTED,
		     0);
		r->swallowed[i] = r->swallowed[--r->nr_swallowed];
		return;
	}
}

static uint16_t do_admin(struct fake *f, const struct nvme_cmd *cmd, uint32_t *result)
{
	switch (cmd->opcode) {
	case NVME_ADMIN_IDENTIFY:
		return identify(f, cmd);
	case NVME_ADMIN_SET_FEATURES:
		*result = f->granted ? f->granted : le32_to_cpu(cmd->cdw11);
		return NVME_SC_OK;
	case NVME_ADMIN_CREATE_CQ:
	case NVME_ADMIN_CREATE_SQ:
		return create(f, cmd, cmd->opcode == NVME_ADMIN_CREATE_CQ);
	case NVME_ADMIN_ABORT:
		abort_command(f, le32_to_cpu(cmd->cdw10));
		return NVME_SC_OK;
	default:
		return NVME_SC_INVALID_OPCODE;
	}
}

/* --- I/O commands */

/* The address of page @n that @cmd names. */
static uint8_t *page_of(const struct nvme_cmd *cmd, unsigned int n, unsigned int nr)
{
	if (!n)
		return phys_to_virt(le64_to_cpu(cmd->prp1));
	if (nr == 2)
		return phys_to_virt(le64_to_cpu(cmd->prp2));
	return phys_to_virt(le64_to_cpu(((le64_t *)phys_to_virt(le64_to_cpu(cmd->prp2)))[n - 1]));
}

static uint16_t transfer(struct fake *f, const struct fake_ns *ns, const struct nvme_cmd *cmd)
{
	const uint64_t block = (uint64_t)le32_to_cpu(cmd->cdw11) << 32 | le32_to_cpu(cmd->cdw10);
	const uint64_t nr_blocks = (le32_to_cpu(cmd->cdw12) & 0xffff) + 1;
	const uint32_t len = (uint32_t)(nr_blocks << ns->shift);
	const uint32_t first = NVME_PAGE - (uint32_t)(le64_to_cpu(cmd->prp1) % NVME_PAGE);
	const unsigned int nr = len <= first ? 1 : 1 + DIV_ROUND_UP(len - first, NVME_PAGE);
	uint8_t *disk = ns->data + (block << ns->shift);

	if (block + nr_blocks > ns->blocks)
		return 0x80;
	if (f->id.mdts && len > NVME_PAGE << f->id.mdts)
		return NVME_SC_INVALID_FIELD;
	f->nr_transfers++;
	f->longest = MAX(f->longest, len);
	if (cmd->opcode == NVME_IO_WRITE && (le32_to_cpu(cmd->cdw12) & NVME_RW_FUA))
		f->nr_fua++;
	for (uint32_t done = 0, n = 0; done < len; n++) {
		const uint32_t part = MIN(n ? NVME_PAGE : first, len - done);
		uint8_t *mem = page_of(cmd, n, nr);

		if (n && (uintptr_t)mem % NVME_PAGE)
			return NVME_SC_INVALID_FIELD;
		if (cmd->opcode == NVME_IO_WRITE)
			memcpy(disk + done, mem, part);
		else
			memcpy(mem, disk + done, part);
		done += part;
	}
	return NVME_SC_OK;
}

static uint16_t clear(struct fake *f, const struct fake_ns *ns, uint64_t block, uint64_t nr,
		      uint8_t with)
{
	if (block + nr > ns->blocks)
		return 0x80;
	memset(ns->data + (block << ns->shift), with, nr << ns->shift);
	if (with)
		f->nr_ranges++;
	else
		f->nr_zeroings++;
	return NVME_SC_OK;
}

static uint16_t do_io(struct fake *f, const struct nvme_cmd *cmd)
{
	const struct nvme_range *range;
	const struct fake_ns *ns = NULL;

	for (unsigned int i = 0; i < f->nr_ns; i++) {
		if (f->ns[i].id == le32_to_cpu(cmd->nsid))
			ns = &f->ns[i];
	}
	if (!ns)
		return 0x00b;
	switch (cmd->opcode) {
	case NVME_IO_FLUSH:
		f->nr_flushes++;
		return NVME_SC_OK;
	case NVME_IO_READ:
	case NVME_IO_WRITE:
		return transfer(f, ns, cmd);
	case NVME_IO_WRITE_ZEROES:
		return clear(f, ns, le32_to_cpu(cmd->cdw10), (le32_to_cpu(cmd->cdw12) & 0xffff) + 1,
			     0);
	case NVME_IO_DSM:
		range = phys_to_virt(le64_to_cpu(cmd->prp1));
		if (le32_to_cpu(cmd->cdw10) || !(le32_to_cpu(cmd->cdw11) & NVME_DSM_DEALLOCATE))
			return NVME_SC_INVALID_FIELD;
		return clear(f, ns, le64_to_cpu(range->block), le32_to_cpu(range->nr_blocks), 0xdd);
	default:
		return NVME_SC_INVALID_OPCODE;
	}
}

/* --- the thread */

static void take(struct fake *f, unsigned int sq)
{
	struct machine *m = machine(f);
	struct ring *r = &m->rings[sq];
	const struct nvme_cmd cmd = ((struct nvme_cmd *)phys_to_virt(r->sq))[r->head];
	uint16_t status = NVME_SC_OK;
	uint32_t result = 0;
	enum fake_deed deed = FAKE_DO;

	r->head = (r->head + 1) % r->sq_size;
	if (f->hook)
		deed = f->hook(f, sq, &cmd, &status);
	if (deed == FAKE_STOP)
		m->stopped = true;
	if (deed == FAKE_SWALLOW && r->nr_swallowed < ARRAY_SIZE(r->swallowed))
		r->swallowed[r->nr_swallowed++] = cmd;
	if (deed != FAKE_DO)
		return;
	if (!status)
		status = sq ? do_io(f, &cmd) : do_admin(f, &cmd, &result);
	post(f, sq, le16_to_cpu(cmd.cid), (uint16_t)sq, (uint16_t)r->head, status, result);
}

static bool take_one(struct fake *f)
{
	struct machine *m = machine(f);

	for (unsigned int sq = 0; sq < FAKE_MAX_QUEUES; sq++) {
		struct ring *r = &m->rings[sq];

		if (!m->gone && !m->stopped && (m->csts & NVME_CSTS_RDY) && r->sq_size &&
		    r->head != r->tail) {
			take(f, sq);
			return true;
		}
	}
	return false;
}

/* Raise one interrupt that is due.  The driver may ring doorbells in it. */
static bool raise_one(struct fake *f)
{
	struct machine *m = machine(f);

	for (unsigned int i = 0; i < FAKE_MAX_QUEUES; i++) {
		if (!m->raise[i])
			continue;
		m->raise[i] = false;
		if (f->no_interrupts || (i && (!f->c.io || i > f->c.nr_io)))
			continue;
		fake_unlock(f);
		nvme_queue_irq(i ? &f->c.io[i - 1] : &f->c.admin);
		fake_lock(f);
		return true;
	}
	return false;
}

static void *run(void *arg)
{
	struct fake *f = arg;
	struct machine *m = machine(f);

	fake_lock(f);
	while (!m->ending) {
		if (!take_one(f) && !raise_one(f))
			pthread_cond_wait(&m->work, &m->lock);
	}
	fake_unlock(f);
	return NULL;
}

/* --- set-up */

static int bind(struct nvme *c, struct nvme_queue *q)
{
	(void)c;
	(void)q;
	return 0;
}

static void fence(struct nvme *c)
{
	struct fake *f = container_of(c, struct fake, c);

	fake_lock(f);
	f->nr_fences++;
	machine(f)->stopped = true;
	fake_unlock(f);
}

static void unbind(struct nvme *c)
{
	struct fake *f = container_of(c, struct fake, c);

	if (machine(f)->ending)
		return;
	fake_lock(f);
	machine(f)->ending = true;
	pthread_cond_signal(&machine(f)->work);
	fake_unlock(f);
	pthread_join(machine(f)->thread, NULL);
}

static const struct nvme_bus fake_bus = { .bind = bind, .fence = fence, .unbind = unbind };

struct fake *fake_new(void)
{
	struct fake *f = calloc(1, sizeof(*f));
	struct machine *m = calloc(1, sizeof(*m));

	if (!f || !m)
		abort();
	f->priv = m;
	pthread_mutex_init(&m->lock, NULL);
	pthread_cond_init(&m->work, NULL);
	f->cap = BIT64(37) | 1ull << 24 | 1023; /* NVM commands, 500 ms, rings of 1024 */
	f->id.sqes = 0x66;
	f->id.cqes = 0x44;
	f->id.nn = cpu_to_le32(64);
	f->id.oncs = cpu_to_le16(NVME_ONCS_DSM | NVME_ONCS_WRITE_ZEROES);
	f->id.vwc = NVME_VWC_PRESENT;
	memcpy(f->id.model, "fake disk           ", 20);
	memcpy(f->id.serial, "12345               ", 20);
	return f;
}

void fake_add_ns(struct fake *f, uint32_t id, uint64_t blocks, unsigned int shift)
{
	uint8_t *data = calloc(blocks, 1ul << shift);

	if (!data || f->nr_ns == FAKE_MAX_NS)
		abort();
	f->ns[f->nr_ns++] =
		(struct fake_ns){ .id = id, .blocks = blocks, .shift = shift, .data = data };
}

int fake_start(struct fake *f, unsigned int nr_cpus)
{
	static unsigned int number;
	struct machine *m = machine(f);

	the_fake = f;
	shim_mmio_ops = &mmio_ops;
	f->c.bus = &fake_bus;
	f->c.regs = m->regs;
	f->c.regs_len = FAKE_REGS_LEN;
	f->c.nr_vectors = FAKE_MAX_QUEUES;
	snprintf(f->c.name, sizeof(f->c.name), "fake%u", number++);
	f->worker = workqueue_create("nvme", 1);
	nvme_rescue_init(&f->c, f->worker);
	if (pthread_create(&m->thread, NULL, run, f))
		abort();
	return nvme_start(&f->c, nr_cpus);
}

void fake_free(struct fake *f)
{
	struct machine *m = machine(f);
	struct nvme_ns *ns;

	list_for_each_entry(ns, &f->c.namespaces, link) {
		if (ns->bd.link.next)
			list_del(&ns->bd.link); /* tests unplug what drivers never do */
	}
	nvme_free(&f->c);
	workqueue_destroy(f->worker);
	shim_mmio_ops = NULL;
	for (unsigned int i = 0; i < f->nr_ns; i++)
		free(f->ns[i].data);
	pthread_cond_destroy(&m->work);
	pthread_mutex_destroy(&m->lock);
	free(m);
	free(f);
}

void fake_vanish(struct fake *f)
{
	fake_lock(f);
	machine(f)->gone = true;
	fake_unlock(f);
}

void fake_set_csts(struct fake *f, uint32_t csts)
{
	fake_lock(f);
	machine(f)->csts = csts;
	fake_unlock(f);
}
