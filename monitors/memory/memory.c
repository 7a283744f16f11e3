/* SPDX-License-Identifier: MIT */
/*
 * Memory monitor: making an instance, placement, and the dispatch of its requests.
 */
#define PR_FMT "memory: "

#include "memory.h"

#include <kernel/printk.h>
#include <lib/alloc.h>
#include <lib/errno.h>
#include <lib/string.h>
#include <managers/policy.h>
#include <proto/mp.h>

int memory_init(struct memory *m, const struct memory_config *cfg)
{
	int err;

	memset(m, 0, sizeof(*m));
	m->node = cfg->node;
	m->vregion_shift = cfg->vregion_shift;
	if (cfg->file_key)
		m->file_key = *cfg->file_key;
	m->net = cfg->net;
	m->net_arg = cfg->net_arg;
	m->storage_wait_ns = cfg->storage_wait_ns;
	m->placements = 1;
	spin_lock_init(&m->nodes_lock, "memory_nodes", RANK_SPIN_MONITOR);
	mutex_init(&m->reserve_lock, "memory_reserve", RANK_MONITOR);
	m->reserve = lib_alloc(sizeof(*m->reserve));
	err = m->reserve ? memory_set_nodes(m, &m->node, 1) : -ENOMEM;
	if (err)
		goto out_reserve;
	err = pool_init(&m->pool, cfg->runs, cfg->nr_runs, MAX(cfg->extent_pages, 1ull),
			cfg->file_min, &cfg->policy);
	if (err)
		goto out_nodes;
	m->pool.ops = cfg->ops;
	m->pool.ops_arg = m;
	m->pool.kernel_max = cfg->kernel_max;
	err = owner_init(m);
	if (err)
		goto out_pool;
	home_init(m);
	relief_init(m);
	err = page_cache_init(m);
	if (err)
		goto out_owner;
	return 0;

out_owner:
	owner_destroy(m);
out_pool:
	pool_destroy(&m->pool);
out_nodes:
	lib_free(m->nodes);
	lib_free(m->lives);
	lib_free(m->programs);
out_reserve:
	lib_free(m->reserve);
	return err;
}

void memory_destroy(struct memory *m)
{
	lock_not_needed(&m->nodes_lock, "the last user");
	lock_not_needed(&m->reserve_lock, "the last user");
	home_destroy(m);
	owner_destroy(m);
	page_cache_destroy(m);
	pool_destroy(&m->pool);
	lib_free(m->nodes);
	lib_free(m->lives);
	lib_free(m->programs);
	lib_free(m->reserve);
}

int memory_check_vnode(struct memory *m, uint32_t vnode, uint32_t node, bool may_wait)
{
	const int err = m->net->vnode_check(m, vnode, node, may_wait);

	if (err == -EACCES) {
		STAT_INC(m, not_placed);
		pr_warn_ratelimited("node %u asks for vNode %u, which is not placed there: "
				    "refused\n",
				    node, vnode);
	}
	return err;
}

int memory_check_file(struct memory *m, const struct proto_file *file, uint32_t node, bool may_wait)
{
	if (file->seal == proto_file_seal(&m->file_key, file))
		return memory_check_vnode(m, file->vnode, node, may_wait);
	STAT_INC(m, not_sealed);
	pr_warn_ratelimited("node %u has a handle that was not made for vNode %u: refused\n", node,
			    file->vnode);
	return -EACCES;
}

void memory_vnode_withdrawn(struct memory *m)
{
	/* 0 is what a vRegion has that was never compared. */
	while (!__atomic_add_fetch(&m->placements, 1, __ATOMIC_RELEASE))
		;
	/* Nor may it read pages by itself. Of whom they are is not looked at: that is rare. */
	extents_recall_all(&m->pool);
}

static bool is_member(void *arg, uint32_t proc)
{
	struct memory *m = arg;

	return !m->net->is_processor || m->net->is_processor(m, proc);
}

/*
 * A home names the processor. One that is no member here, since it has gone, is not known yet or
 * was made up, shares what one processor may have with all others of that kind.
 */
int memory_charge(struct memory *m, uint32_t proc, uint64_t bytes)
{
	const int err = is_member(m, proc)
				? pool_charge_kernel(&m->pool, proc, bytes)
				: pool_charge_stranger(&m->pool, proc, bytes, is_member, m);

	if (err)
		STAT_INC(m, kernel_full);
	return err;
}

void memory_uncharge(struct memory *m, uint32_t proc, uint64_t bytes)
{
	pool_uncharge_kernel(&m->pool, proc, bytes);
}

/* The present list says so about @node. */
static uint64_t programs_locked(const struct memory *m, uint32_t node)
{
	assert_spin_held(&m->nodes_lock);
	for (size_t i = 0; i < m->nr_nodes; i++)
		if (m->nodes[i] == node)
			return m->programs[i];
	return 0;
}

int memory_set_nodes(struct memory *m, const uint32_t *nodes, size_t nr)
{
	uint32_t *copy = lib_alloc((nr + 1) * sizeof(*copy));
	uint64_t *programs = lib_alloc((nr + 1) * sizeof(*programs));
	uint64_t *old_programs;
	uint32_t *old;

	if (!copy || !programs) {
		lib_free(copy);
		lib_free(programs);
		return -ENOMEM;
	}
	memcpy(copy, nodes, nr * sizeof(*copy));
	spin_lock(&m->nodes_lock);
	for (size_t i = 0; i < nr; i++)
		programs[i] = programs_locked(m, nodes[i]);
	old = m->nodes;
	old_programs = m->programs;
	m->nodes = copy;
	m->programs = programs;
	m->nr_nodes = nr;
	spin_unlock(&m->nodes_lock);
	lib_free(old);
	lib_free(old_programs);
	return 0;
}

int memory_get_nodes(struct memory *m, uint32_t **nodes, size_t *nr)
{
	size_t cap = 0;

	*nodes = NULL;
	for (;;) {
		spin_lock(&m->nodes_lock);
		*nr = m->nr_nodes;
		if (*nr <= cap && *nodes) {
			memcpy(*nodes, m->nodes, *nr * sizeof(**nodes));
			spin_unlock(&m->nodes_lock);
			return 0;
		}
		spin_unlock(&m->nodes_lock);
		cap = *nr + 1;
		lib_free(*nodes);
		*nodes = lib_alloc(cap * sizeof(**nodes));
		if (!*nodes) {
			*nr = 0;
			return -ENOMEM;
		}
	}
}

uint32_t memory_owner_for(struct memory *m, uint64_t aspace, uint64_t index)
{
	size_t self = 0;
	uint32_t node = 0;

	if (m->net->owner_for)
		return m->net->owner_for(m, aspace, index);
	spin_lock(&m->nodes_lock);
	while (self < m->nr_nodes && m->nodes[self] != m->node)
		self++;
	if (m->nr_nodes)
		node = m->nodes[(self + index) % m->nr_nodes];
	spin_unlock(&m->nodes_lock);
	return node;
}

uint32_t memory_cache_node(struct memory *m, const struct proto_file *file)
{
	uint32_t node;

	if (m->net->cache_node)
		return m->net->cache_node(m, file);
	spin_lock(&m->nodes_lock);
	node = m->nr_nodes
		       ? gsm_hash.cache_node(&(struct memory_nodes){ m->nodes, m->nr_nodes }, file)
		       : 0;
	spin_unlock(&m->nodes_lock);
	return node;
}

int memory_call(struct memory *m, uint32_t peer, uint16_t opcode, const void *body,
		uint32_t body_len, void *reply, uint32_t reply_max)
{
	if (peer == m->node)
		return memory_serve(m, peer, opcode, body, body_len, NULL, 0, reply, reply_max,
				    NULL);
	return m->net->call(m, peer, opcode, body, body_len, NULL, 0, reply, reply_max);
}

static bool matches_processor(const struct owner_space *s, uint32_t node)
{
	return s->proc == node;
}

static bool matches_home(const struct owner_space *s, uint32_t node)
{
	return s->home == node;
}

void memory_processor_gone(struct memory *m, uint32_t proc)
{
	pool_fence(&m->pool, proc);
	extents_recall(&m->pool, proc, false); /* before a frame of its is another's */
	home_processor_gone(m, proc);
	owner_destroy_matching(m, matches_processor, proc);
}

int memory_revoke(struct memory *m, uint32_t proc, uint32_t number, bool below)
{
	const struct mp_revoke_req req = { .extent = number, .flags = below ? MP_REVOKE_BELOW : 0 };
	struct mp_revoke_req_wire w;
	int err;

	mp_revoke_req_encode(&req, &w);
	err = m->net->call(m, proc, MP_REVOKE, &w, sizeof(w), NULL, 0, NULL, 0);
	if (err < 0 && err != -EHOSTDOWN)
		STAT_INC(m, revokes_unheard);
	return err < 0 && err != -EHOSTDOWN ? err : 0;
}

void memory_processor_joined(struct memory *m, uint32_t proc)
{
	pool_admit(&m->pool, proc);
}

static struct node_life *life_locked(struct memory *m, uint32_t node)
{
	assert_spin_held(&m->nodes_lock);
	for (size_t i = 0; i < m->nr_lives; i++) {
		if (m->lives[i].node == node)
			return &m->lives[i];
	}
	return NULL;
}

uint32_t memory_node_life(struct memory *m, uint32_t node)
{
	const struct node_life *at;
	uint32_t life;

	spin_lock(&m->nodes_lock);
	at = life_locked(m, node);
	life = at ? at->life : 0;
	spin_unlock(&m->nodes_lock);
	return life;
}

/* One caller at a time: views are applied one after the other. */
static int end_life(struct memory *m, uint32_t node)
{
	struct node_life *more, *old = NULL;
	struct node_life *at;
	size_t nr;

	spin_lock(&m->nodes_lock);
	nr = m->nr_lives;
	at = life_locked(m, node);
	if (at)
		at->life++;
	spin_unlock(&m->nodes_lock);
	if (at)
		return 0;
	more = lib_alloc((nr + 1) * sizeof(*more));
	if (!more)
		return -ENOMEM;
	spin_lock(&m->nodes_lock);
	old = m->lives;
	if (nr)
		memcpy(more, old, nr * sizeof(*more));
	more[nr] = (struct node_life){ node, 1 };
	m->lives = more;
	m->nr_lives = nr + 1;
	spin_unlock(&m->nodes_lock);
	lib_free(old);
	return 0;
}

int memory_node_gone(struct memory *m, uint32_t node)
{
	const int err = end_life(m, node);
	uint32_t proc = 0;

	/*
	 * Its processors may not know yet, and know where pages lie; the frames will have other
	 * contents. This thread cannot wait for their answers.
	 */
	while ((proc = owner_next_of_home(m, node, proc)))
		extents_refuse(&m->pool, proc);
	owner_destroy_matching(m, matches_home, node);
	extents_refuse_end(&m->pool);
	return err;
}
