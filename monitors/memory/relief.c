/* SPDX-License-Identifier: MIT */
/*
 * Relief: making room at a node that has no frame left.
 *
 * Ordering:	a program is ended only when the shortage has lasted for END_AFTER_NS: processors
 *		that were told to ask again have told by then of spaces that ended. As long as an
 *		extent of files may still be emptied no program ends.
 * Failure:	a node that does not answer is passed over. If a processor does not, or ends
 *		nothing, its programs may be the worst: it is given PATIENCE_NS, and loses its
 *		credits before a program of another one ends. The same holds for one that has most
 *		frames here and offers a program worth little of them. If storage keeps silent about
 *		reads, or a processor takes no file pages, and files keep their extents by that,
 *		vRegions move after FILES_MOVE_NS, and a program ends after FILES_END_NS.
 */
#include "relief.h"

#include <kernel/time.h>
#include <lib/alloc.h>
#include <lib/errno.h>
#include <proto/mp.h>

#include "memory.h"
#include "region_apply.h"

#define END_AFTER_NS  (200 * NSEC_PER_MSEC)
#define REFUSE_FOR_NS NSEC_PER_SEC
#define PATIENCE_NS   (10 * NSEC_PER_SEC)  /* with a processor that ends nothing */
#define WORTH_PART    64u                  /* of what a processor has: an offer that counts */
#define LOOK_AGAIN_NS (50 * NSEC_PER_MSEC) /* while something is on its way */
/*
 * With files that do not give way: before anything else is done, and before a program ends. The
 * latter is more than the usual lease: the reads of a storage node that is gone have ended by then.
 */
#define FILES_MOVE_NS NSEC_PER_SEC
#define FILES_END_NS  (20 * NSEC_PER_SEC)

void relief_init(struct memory *m)
{
	waitqueue_init(&m->relief.wake);
}

bool relief_kick(struct memory *m)
{
	const uint64_t refused = __atomic_load_n(&m->relief.refused_ns, __ATOMIC_RELAXED);

	if (!m->relief.on || (refused && time_now_ns() - refused < REFUSE_FOR_NS))
		return false;
	__atomic_add_fetch(&m->relief.kicks, 1, __ATOMIC_RELEASE);
	wake_all(&m->relief.wake);
	return true;
}

bool relief_is_wanted(struct memory *m)
{
	return __atomic_load_n(&m->relief.kicks, __ATOMIC_ACQUIRE) !=
	       __atomic_load_n(&m->relief.handled, __ATOMIC_RELAXED);
}

/* --- handing a vRegion over --------------------------------------------------------- */

bool relief_choose(const struct relief_node *nodes, size_t nr_nodes,
		   const struct relief_region *regions, size_t nr_regions, size_t *node,
		   size_t *region)
{
	bool found = false;

	*node = 0;
	for (size_t i = 1; i < nr_nodes; i++)
		if (nodes[i].room > nodes[*node].room)
			*node = i;
	for (size_t i = 0; nr_nodes && i < nr_regions; i++) {
		const struct relief_region *r = &regions[i];

		if (r->refused || r->pages < RELIEF_PAGES_MIN || r->pages > nodes[*node].room / 2)
			continue;
		if (!found || r->pages > regions[*region].pages)
			*region = i;
		found = true;
	}
	return found;
}

/* The room of the other memory nodes that answer; *@nr of them, to be freed with lib_free(). */
static struct relief_node *look_at_nodes(struct memory *m, size_t *nr)
{
	struct relief_node *out = NULL;
	struct pm_meminfo_rep info;
	uint32_t *ids;
	size_t all;

	*nr = 0;
	if (!memory_get_nodes(m, &ids, &all))
		out = lib_alloc((all + 1) * sizeof(*out));
	for (size_t i = 0; out && i < all; i++) {
		struct pm_meminfo_rep_wire w;
		uint64_t taken;
		int ret;

		if (ids[i] == m->node)
			continue;
		ret = memory_call(m, ids[i], PM_MEMINFO, NULL, 0, &w, sizeof(w));
		if (ret < 0 || pm_meminfo_rep_decode(&w, (size_t)ret, &info))
			continue;
		taken = info.total - info.free - info.file + info.granted;
		out[(*nr)++] = (struct relief_node){
			.id = ids[i],
			.room = info.programs - MIN(info.programs, taken),
		};
	}
	lib_free(ids);
	return out;
}

/* Ask the home of @r for the move.  0: it has been made. */
static int give(struct memory *m, const struct relief_region *r, uint32_t to)
{
	const struct mm_relieve_req req = { .aspace = r->aspace, .index = r->index, .to = to };
	struct mm_relieve_req_wire w;
	int ret;

	mm_relieve_req_encode(&req, &w);
	ret = memory_call(m, owner_masters(m, r->aspace).home, MM_RELIEVE, &w, sizeof(w), NULL, 0);
	return MIN(ret, 0);
}

static bool hand_over(struct memory *m)
{
	size_t nr_nodes, nr_regions, node, region;
	struct relief_node *nodes = look_at_nodes(m, &nr_nodes);
	struct relief_region *regions = owner_list_regions(m, &nr_regions);
	bool moved = false;

	while (nodes && regions && !moved &&
	       relief_choose(nodes, nr_nodes, regions, nr_regions, &node, &region)) {
		moved = !give(m, &regions[region], nodes[node].id);
		regions[region].refused = true;
	}
	if (moved)
		STAT_INC(m, relief_moves);
	lib_free(nodes);
	lib_free(regions);
	return moved;
}

/* --- ending a program --------------------------------------------------------------- */

static int ask_processor(struct memory *m, uint32_t proc, uint32_t pid, struct mp_oom_rep *rep)
{
	const struct mp_oom_req req = {
		.total = m->pool.total - m->pool.file_min,
		.flags = pid ? MP_OOM_END : 0,
		.pid = pid,
	};
	struct mp_oom_req_wire w;
	struct mp_oom_rep_wire rw;
	int ret;

	mp_oom_req_encode(&req, &w);
	ret = m->net->call(m, proc, MP_OOM, &w, sizeof(w), NULL, 0, &rw, sizeof(rw));
	return ret < 0 ? ret : mp_oom_rep_decode(&rw, (size_t)ret, rep);
}

struct worst {
	uint32_t proc;
	struct mp_oom_rep rep;
};

/*
 * Take back the frames that credits of @proc stand for. A page that it writes back without a credit
 * waits for a frame like others' pages. False: it has none.
 */
static bool revoke(struct memory *m, uint32_t proc)
{
	if (!pool_credits(&m->pool, proc))
		return false;
	owner_revoke(m, proc);
	STAT_INC(m, relief_revokes);
	return true;
}

/* Credits of processors that have no space here, and so no use for them. */
static bool revoke_idle(struct memory *m)
{
	bool revoked = false;

	for (uint32_t proc = 0; (proc = pool_next_creditor(&m->pool, proc + 1)) != 0;) {
		if (owner_next_processor(m, proc) != proc)
			revoked |= revoke(m, proc);
	}
	return revoked;
}

/* A processor that has more than half of the frames for programs, and what it offers. */
struct hog {
	uint32_t proc; /* 0: there is none */
	uint64_t held;
	struct mp_oom_rep rep; /* .state: MP_OOM_CANDIDATE if it has offered one */
};

static void hog_note(struct memory *m, struct hog *hog, uint32_t proc, int err,
		     const struct mp_oom_rep *rep)
{
	const uint64_t held = pool_credits(&m->pool, proc) + owner_pages_of(m, proc);

	if (held <= (m->pool.total - m->pool.file_min) / 2 || held <= hog->held)
		return;
	*hog = (struct hog){ .proc = proc, .held = held };
	if (!err)
		hog->rep = *rep;
	else
		hog->rep.state = MP_OOM_NONE;
}

/*
 * @worst, the worst of what was offered, is to end. If another processor has most frames and offers
 * nothing that would help, it loses its credits first, and then its own program ends: one in a
 * shortage, as its frames may be of files in its memory or of many programs, and for PATIENCE_NS,
 * as it may never end one, and others wait. After that it loses credits whatever it offers, since
 * ends have not helped.
 */
static enum relief_result hog_first(struct memory *m, const struct hog *hog, bool patient,
				    struct worst *worst)
{
	const bool offers = hog->rep.state == MP_OOM_CANDIDATE;
	const bool is_worst = hog->proc == worst->proc;

	if (!hog->proc)
		return RELIEF_ENDED;
	if (patient && (is_worst || (offers && hog->rep.frames >= hog->held / WORTH_PART)))
		return RELIEF_ENDED;
	if (revoke(m, hog->proc))
		return RELIEF_MOVED;
	if (!patient || is_worst || m->relief.hog_ended)
		return RELIEF_ENDED;
	if (!offers)
		return RELIEF_WAITS;
	m->relief.hog_ended = true;
	*worst = (struct worst){ hog->proc, hog->rep };
	return RELIEF_ENDED;
}

/*
 * The worst program of all processors. RELIEF_ENDED: it is in *@worst. A processor that has none to
 * end, or has had its time, loses its credits first (RELIEF_MOVED), and then others' programs end.
 */
static enum relief_result find_worst(struct memory *m, struct worst *worst)
{
	const bool patient = time_now_ns() - m->relief.short_since_ns < PATIENCE_NS;
	enum relief_result result = RELIEF_NOTHING;
	struct hog hog = { 0 };

	for (uint32_t proc = 0; (proc = owner_next_processor(m, proc + 1)) != 0;) {
		struct mp_oom_rep rep;
		const int err = ask_processor(m, proc, 0, &rep);

		if ((err || rep.state == MP_OOM_ENDING) && patient)
			return RELIEF_WAITS;
		if ((err || rep.state != MP_OOM_CANDIDATE) && revoke(m, proc))
			return RELIEF_MOVED;
		hog_note(m, &hog, proc, err, &rep);
		if (err || rep.state != MP_OOM_CANDIDATE ||
		    (result == RELIEF_ENDED &&
		     (rep.badness < worst->rep.badness ||
		      (rep.badness == worst->rep.badness && rep.frames <= worst->rep.frames))))
			continue;
		*worst = (struct worst){ proc, rep };
		result = RELIEF_ENDED;
	}
	return result == RELIEF_ENDED ? hog_first(m, &hog, patient, worst) : result;
}

static enum relief_result end_one(struct memory *m)
{
	struct worst worst;
	enum relief_result result = find_worst(m, &worst);

	if (result == RELIEF_ENDED && ask_processor(m, worst.proc, worst.rep.pid, &worst.rep))
		return RELIEF_WAITS; /* it is gone by itself, or nobody knows */
	if (result == RELIEF_ENDED)
		STAT_INC(m, relief_ends);
	return result;
}

/* --- steps -------------------------------------------------------------------------- */

enum relief_result relief_step(struct memory *m)
{
	struct relief *r = &m->relief;
	const uint64_t now = time_now_ns();
	uint64_t stuck_ns = UINT64_MAX;

	if (pool_room_now(&m->pool)) {
		r->short_since_ns = r->files_since_ns = 0;
		r->hog_ended = false;
		return RELIEF_ENOUGH;
	}
	/*
	 * Extents of files are being emptied: no program ends for want of what files have. The
	 * tries begin before anybody lacks a frame, so those before this shortage do not count.
	 */
	if (!pool_room(&m->pool)) {
		r->files_since_ns = 0;
	} else {
		if (!r->files_since_ns)
			r->files_since_ns = now;
		stuck_ns = MIN(extents_stuck_ns(&m->pool), now - r->files_since_ns);
	}
	if (stuck_ns < FILES_END_NS)
		r->short_since_ns = 0;
	else if (!r->short_since_ns)
		r->short_since_ns = now;
	if (stuck_ns < FILES_MOVE_NS)
		return RELIEF_WAITS;
	if (hand_over(m))
		return RELIEF_MOVED;
	if (revoke_idle(m))
		return RELIEF_MOVED;
	if (!r->short_since_ns || now - r->short_since_ns < END_AFTER_NS)
		return RELIEF_WAITS;
	return end_one(m);
}

void relief_run(struct memory *m)
{
	const uint64_t kicks = __atomic_load_n(&m->relief.kicks, __ATOMIC_ACQUIRE);
	enum relief_result result = RELIEF_MOVED;

	while (result != RELIEF_ENOUGH && result != RELIEF_NOTHING) {
		result = relief_step(m);
		if (result == RELIEF_WAITS || result == RELIEF_ENDED)
			(void)wait_event_timeout(&m->pool.freed, pool_room_now(&m->pool) > 0,
						 time_now_ns() + LOOK_AGAIN_NS);
	}
	__atomic_store_n(&m->relief.refused_ns, result == RELIEF_NOTHING ? time_now_ns() : 0,
			 __ATOMIC_RELAXED);
	__atomic_store_n(&m->relief.handled, kicks, __ATOMIC_RELEASE);
}
