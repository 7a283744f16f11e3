/* SPDX-License-Identifier: MIT */
/*
 * /proc/<pid>/stat and status: one process, or one thread, in numbers and in words.
 *
 * Fields that mean nothing here are 0 as on Linux: kernel stack, wait channel. A major fault is one
 * that waited for a page of another node.
 */
#include <abi/sched.h>
#include <kernel/panic.h>
#include <kernel/time.h>
#include <lib/bitmap.h>
#include <lib/errno.h>
#include <lib/string.h>
#include <processor/ns/user_ns.h>
#include <processor/process/cred.h>
#include <processor/tty/tty.h>
#include <processor/vfs/file.h>

#include "proc_private.h"
#include "system_private.h"

/* The facts of both files, read in one go. */
struct facts {
	uint32_t pid, tgid, ppid, pgid, sid, tracer;
	char state;
	char comm[COMM_LEN];
	uint32_t nr_threads;
	int nice, exit_signal;
	uint32_t policy, rt_prio;
	struct run_rank lent; /* of fixed.order FAIR_SHARES and weight 0: nothing is */
	uint32_t cpu;
	struct cpu_mask allowed;
	uint64_t user_ns, system_ns, child_user_ns, child_system_ns, start_ns;
	uint64_t faults, major, child_faults, child_major, switches, forced;
	uint64_t pending, shared_pending, blocked, ignored, caught;
	uint64_t queued, queue_limit; /* signals of its user */
	uint32_t seccomp_mode, nr_filters;
	uint32_t exit_code;
	const struct cred *cred; /* counted; NULL: a zombie that has none any more */
};

static char state_of_thread(const struct task *t)
{
	if (t->trace.state != TRACE_RUNS)
		return 't';
	if (t->sig.stopped && !t->trace.tracer)
		return 'T';
	return READ_ONCE(t->thread->state) == THREAD_RUNNABLE ? 'R' : 'S';
}

static void read_actions(struct sighand *h, struct facts *f)
{
	spin_lock(&h->lock);
	for (int signo = 1; signo < NR_SIGNALS; signo++) {
		if (h->actions[signo].handler == SIG_IGN)
			f->ignored |= SIGMASK(signo);
		else if (h->actions[signo].handler != SIG_DFL)
			f->caught |= SIGMASK(signo);
	}
	spin_unlock(&h->lock);
}

/* One task, with sig_lock held. */
static void add_task_locked(const struct task *t, struct facts *f)
{
	uint64_t user_ns, system_ns;

	assert_spin_held(&t->process->sig_lock);
	thread_cpu_times(t->thread, &user_ns, &system_ns);
	f->user_ns += user_ns;
	f->system_ns += system_ns;
	/* The parts first: they are never more than the whole. */
	f->forced += READ_ONCE(t->thread->nr_forced);
	f->switches += READ_ONCE(t->thread->nr_switches);
	f->major += READ_ONCE(t->major_faults);
	f->faults += READ_ONCE(t->faults);
}

static void describe_task_locked(const struct task *t, struct facts *f)
{
	assert_spin_held(&t->process->sig_lock);
	f->state = state_of_thread(t);
	f->policy = READ_ONCE(t->policy) & ~(uint32_t)SCHED_RESET_ON_FORK;
	f->rt_prio = t->fixed.prio;
	inherit_lent(t, &f->lent);
	f->cpu = READ_ONCE(t->thread->cpu);
	thread_affinity(t->thread, &f->allowed);
	f->pending = t->sig.pending.set;
	f->blocked = t->sig.mask;
	f->tracer = t->trace.tracer_tid;
	f->seccomp_mode = t->seccomp.mode;
	f->nr_filters = seccomp_nr_filters(t);
}

static void read_signals(const struct proc_ref *ref, struct facts *f)
{
	struct process *p = ref->process;
	struct task *t, *first = NULL;

	ASSERT(!ref->task || ref->task->process == p);
	spin_lock(&p->sig_lock);
	f->nr_threads = p->nr_tasks;
	f->exit_code = p->wait_status;
	f->shared_pending = p->sig.pending.set;
	signal_queue_use(p, &f->queued, &f->queue_limit);
	f->cred = p->cred ? cred_get(p->cred) : NULL;
	list_for_each_entry(t, &p->tasks, link) {
		if (!first || t->tid == p->pid)
			first = t;
		if (!ref->task)
			add_task_locked(t, f);
		if (t == ref->task)
			add_task_locked(t, f);
	}
	if (ref->task)
		first = list_empty(&ref->task->link) ? NULL : ref->task;
	if (first)
		describe_task_locked(first, f);
	/* As Linux: the first thread has ended, the others live on. */
	if (first && !ref->task && first->tid != p->pid)
		f->state = 'Z';
	if (p->sig.sighand && first)
		read_actions(p->sig.sighand, f);
	spin_unlock(&p->sig_lock);
}

static int read_facts(const struct pseudo_subject *s, struct facts *f)
{
	struct process *p;
	struct proc_ref ref;
	const int err = proc_get(s, &ref);

	*f = (struct facts){ .state = 'Z' };
	if (err)
		return err;
	p = ref.process;
	f->tgid = p->pid;
	f->pid = s->tid ? s->tid : p->pid;
	f->ppid = process_ppid(p);
	f->start_ns = p->start_ns;
	mutex_lock(&p->lock);
	strlcpy(f->comm, ref.task ? ref.task->comm : p->comm, sizeof(f->comm));
	f->nice = ref.task ? READ_ONCE(ref.task->nice) : READ_ONCE(p->nice);
	mutex_unlock(&p->lock);
	spin_lock(&p->vnode->lock);
	f->pgid = p->pgid;
	f->sid = p->sid;
	f->exit_signal = p->exit_signal;
	if (!ref.task) {
		f->user_ns = p->usage_dead.utime_ns;
		f->system_ns = p->usage_dead.stime_ns;
		f->faults = p->usage_dead.faults;
		f->major = p->usage_dead.major;
		f->switches = p->usage_dead.switches;
		f->forced = p->usage_dead.forced;
	}
	f->child_user_ns = p->usage_children.utime_ns;
	f->child_system_ns = p->usage_children.stime_ns;
	f->child_faults = p->usage_children.faults;
	f->child_major = p->usage_children.major;
	spin_unlock(&p->vnode->lock);
	read_signals(&ref, f);
	/* The last task gives back the memory on its way out. */
	if (!f->nr_threads && READ_ONCE(p->state) == PROCESS_ALIVE)
		f->state = 'R';
	if (!f->nr_threads)
		f->nr_threads = 1; /* a zombie counts as one, as on Linux */
	proc_put(&ref);
	return 0;
}

static void facts_done(struct facts *f)
{
	if (f->cred)
		cred_put(f->cred);
}

static unsigned long long ticks(uint64_t ns)
{
	return ns / NS_PER_TICK;
}

static uint64_t rss_limit(const struct pseudo_subject *s)
{
	struct proc_ref ref;
	uint64_t cur;

	if (proc_get(s, &ref))
		return RLIM_INFINITY;
	mutex_lock(&ref.process->lock);
	cur = ref.process->rlimits[RLIMIT_RSS].cur;
	mutex_unlock(&ref.process->lock);
	proc_put(&ref);
	return cur;
}

/* As Linux counts: real time is below 0. */
static int priority_of(const struct facts *f)
{
	if (f->lent.fixed.order != FAIR_SHARES)
		return f->lent.fixed.order == FAIR_DEADLINE ? -101 : -1 - (int)f->lent.fixed.prio;
	for (int nice = NICE_MIN; f->lent.weight && nice < f->nice; nice++) {
		if (fair_nice_weight(nice) <= f->lent.weight)
			return 20 + nice;
	}
	if (f->policy == SCHED_DEADLINE)
		return -101;
	return f->rt_prio ? -1 - (int)f->rt_prio : 20 + f->nice;
}

/* From here on each word is a field of proc(5), in its order. */
static void put_stat(struct text *t, const struct pseudo_subject *s, const struct facts *f,
		     struct aspace *as)
{
	struct proc_sizes z = { 0 };
	uint32_t tty;
	int foreground;

	if (as)
		proc_sizes(as, &z);
	tty_of_session(f->sid, &tty, &foreground);
	if (foreground > 0)
		foreground = (int)proc_nr(s, (uint32_t)foreground);
	text_printf(t, "%u (%s) %c %u %u %u %u %d 4194304 ", proc_nr(s, f->pid), f->comm, f->state,
		    proc_nr(s, f->ppid), proc_nr(s, f->pgid), proc_nr(s, f->sid), tty, foreground);
	text_printf(t, "%llu %llu %llu %llu ", (unsigned long long)(f->faults - f->major),
		    (unsigned long long)(f->child_faults - f->child_major),
		    (unsigned long long)f->major, (unsigned long long)f->child_major);
	text_printf(t, "%llu %llu %llu %llu ", ticks(f->user_ns), ticks(f->system_ns),
		    ticks(f->child_user_ns), ticks(f->child_system_ns));
	text_printf(t, "%d %d %u 0 %llu ", priority_of(f), f->nice, f->nr_threads,
		    ticks(f->start_ns));
	text_printf(t, "%llu %llu %llu ", (unsigned long long)z.total << PAGE_SHIFT,
		    (unsigned long long)z.rss, (unsigned long long)rss_limit(s));
	text_printf(t, "%llu %llu %llu 0 0 ", as ? (unsigned long long)as->code_start : 0,
		    as ? (unsigned long long)as->code_end : 0,
		    as ? (unsigned long long)as->stack_top : 0);
	text_printf(t, "%llu %llu %llu %llu 0 0 0 ", (unsigned long long)(f->pending & 0x7fffffff),
		    (unsigned long long)(f->blocked & 0x7fffffff),
		    (unsigned long long)(f->ignored & 0x7fffffff),
		    (unsigned long long)(f->caught & 0x7fffffff));
	text_printf(t, "%d %u %u %u 0 0 0 ", f->exit_signal, f->cpu, f->rt_prio, f->policy);
	if (as)
		text_printf(t, "%llu %llu %llu %llu %llu %llu %llu ",
			    (unsigned long long)as->data_start, (unsigned long long)as->data_end,
			    (unsigned long long)as->brk_start, (unsigned long long)as->arg_start,
			    (unsigned long long)as->arg_end, (unsigned long long)as->env_start,
			    (unsigned long long)as->env_end);
	else
		text_puts(t, "0 0 0 0 0 0 0 ");
	text_printf(t, "%u\n", f->exit_code);
}

SHOW(show_pid_stat)
{
	struct aspace *as;
	struct facts f;
	int err = read_facts(s, &f);

	if (err)
		return err;
	err = proc_aspace(s, &as);
	if (!err) {
		put_stat(t, s, &f, as);
		if (as)
			aspace_put(as);
	}
	facts_done(&f);
	return err;
}

/* --- status -------------------------------------------------------------------------- */

static const char *state_name(char state)
{
	switch (state) {
	case 'R':
		return "R (running)";
	case 'S':
		return "S (sleeping)";
	case 'T':
		return "T (stopped)";
	case 't':
		return "t (tracing stop)";
	default:
		return "Z (zombie)";
	}
}

static void put_ids(struct text *t, const struct cred *c)
{
	text_printf(t, "Uid:\t%u\t%u\t%u\t%u\nGid:\t%u\t%u\t%u\t%u\n", uid_out(c->uid),
		    uid_out(c->euid), uid_out(c->suid), uid_out(c->fsuid), gid_out(c->gid),
		    gid_out(c->egid), gid_out(c->sgid), gid_out(c->fsgid));
}

static void put_kib(struct text *t, const char *name, uint64_t pages)
{
	text_printf(t, "%s:\t%8llu kB\n", name, (unsigned long long)pages * (PAGE_SIZE >> 10));
}

static void put_memory(struct text *t, struct aspace *as)
{
	struct proc_sizes z;

	proc_sizes(as, &z);
	put_kib(t, "VmPeak", z.total);
	put_kib(t, "VmSize", z.total);
	put_kib(t, "VmLck", READ_ONCE(as->locked.nr_pages));
	text_puts(t, "VmPin:\t       0 kB\n");
	put_kib(t, "VmHWM", z.rss);
	put_kib(t, "VmRSS", z.rss);
	put_kib(t, "RssAnon", z.rss - MIN(z.rss, z.shared));
	put_kib(t, "RssFile", z.shared);
	text_puts(t, "RssShmem:\t       0 kB\n");
	put_kib(t, "VmData", z.data);
	put_kib(t, "VmStk", z.stack);
	put_kib(t, "VmExe", z.text);
	put_kib(t, "VmLib", z.lib);
	lock_not_needed(&as->lock, "the pointer is const; the count is read as one word");
	put_kib(t, "VmPTE", pgtable_table_pages(as->pt));
	text_puts(t, "VmSwap:\t       0 kB\nHugetlbPages:\t       0 kB\n");
}

static void put_signals(struct text *t, const struct facts *f)
{
	text_printf(t, "SigPnd:\t%016llx\nShdPnd:\t%016llx\nSigBlk:\t%016llx\n",
		    (unsigned long long)f->pending, (unsigned long long)f->shared_pending,
		    (unsigned long long)f->blocked);
	text_printf(t, "SigIgn:\t%016llx\nSigCgt:\t%016llx\n", (unsigned long long)f->ignored,
		    (unsigned long long)f->caught);
}

static void put_caps(struct text *t, const struct cred *c)
{
	text_printf(t, "CapInh:\t%016llx\nCapPrm:\t%016llx\nCapEff:\t%016llx\n",
		    (unsigned long long)c->inheritable, (unsigned long long)c->permitted,
		    (unsigned long long)c->effective);
	text_printf(t, "CapBnd:\t%016llx\nCapAmb:\t%016llx\n", (unsigned long long)c->bounding,
		    (unsigned long long)c->ambient);
}

static void put_name(struct text *t, const char *comm)
{
	text_puts(t, "Name:\t");
	for (; *comm; comm++) {
		if (*comm == '\n')
			text_puts(t, "\\n");
		else if (*comm == '\\')
			text_puts(t, "\\\\");
		else
			text_putc(t, *comm);
	}
	text_putc(t, '\n');
}

/* One past the highest open descriptor, as far as the table has ever grown. */
static int highest_fd(const struct pseudo_subject *s, uint32_t *mask)
{
	struct files *files;
	struct proc_ref ref;
	struct fs_state *fs;
	int fd, high = 0;

	*mask = 022;
	if (proc_get(s, &ref))
		return 0;
	files = process_files(ref.process);
	for (fd = 0; files && (fd = files_next(files, fd)) >= 0; fd++)
		high = fd + 1;
	if (files)
		files_put(files);
	fs = process_fs(ref.process);
	if (fs) {
		*mask = fs_state_umask(fs);
		fs_state_put(fs);
	}
	proc_put(&ref);
	return high;
}

/* The mask in hex, words of 32 bits, and the same as a list of ranges. */
static void put_cpus(struct text *t, const struct cpu_mask *allowed)
{
	const unsigned int cpus = cpu_online_count(), width = MAX(cpus, cpu_possible_count());
	const char *sep = "";

	for (unsigned int w = (width + 31) / 32; w-- > 0;) {
		uint32_t word = 0;

		for (unsigned int cpu = 32 * w; cpu < MIN(cpus, 32 * (w + 1)); cpu++)
			word |= cpu_mask_test(allowed, cpu) ? 1u << (cpu % 32) : 0;
		text_printf(t, "%0*x%s",
			    32 * (w + 1) >= width ? (int)((width - 32 * w + 3) / 4) : 8, word,
			    w ? "," : "");
	}
	text_puts(t, "\nCpus_allowed_list:\t");
	for (unsigned int cpu = 0; cpu < cpus; cpu++) {
		unsigned int last = cpu;

		if (!cpu_mask_test(allowed, cpu))
			continue;
		while (last + 1 < cpus && cpu_mask_test(allowed, last + 1))
			last++;
		text_printf(t, last > cpu ? "%s%u-%u" : "%s%u", sep, cpu, last);
		sep = ",";
		cpu = last;
	}
}

/*
 * From the tree's namespace to the innermost one of @pid: the number in each of what @which is. 0:
 * it has none there.
 */
static void put_levels(struct text *t, const char *name, const struct pseudo_subject *s,
		       const uint32_t nrs[], uint32_t n)
{
	text_printf(t, "%s:", name);
	for (uint32_t i = pid_ns_level(s->pid_ns); i < n; i++)
		text_printf(t, "\t%u", nrs[i]);
	text_puts(t, "\n");
}

/* The numbers of what is called @nr in the vNode, in the first @n namespaces around @of. */
static void read_levels(uint32_t nr, const struct pid *of, uint32_t nrs[], uint32_t n)
{
	const struct pid *pid = pid_find_locked(&root_vnode, nr);

	assert_spin_held(&root_vnode.lock);
	for (uint32_t i = 0; i < n; i++)
		nrs[i] = pid ? pid_nr_in(pid, i ? of->inner[i - 1].ns : NULL) : 0;
}

/* Nothing of a task that has gone meanwhile. */
static void put_namespaces(struct text *t, const struct pseudo_subject *s, const struct facts *f)
{
	static const char *const names[4] = { "NStgid", "NSpid", "NSpgid", "NSsid" };
	const uint32_t ids[4] = { f->tgid, f->pid, f->pgid, f->sid };
	uint32_t nrs[4][PID_NS_LEVELS + 1], n = 0;
	const struct pid *own;

	spin_lock(&root_vnode.lock);
	own = pid_find_locked(&root_vnode, f->pid);
	if (own) {
		n = own->level + 1;
		for (int i = 0; i < 4; i++)
			read_levels(ids[i], own, nrs[i], n);
	}
	spin_unlock(&root_vnode.lock);
	for (int i = 0; i < 4; i++)
		put_levels(t, names[i], s, nrs[i], n);
}

static void put_status(struct text *t, const struct pseudo_subject *s, const struct facts *f,
		       struct aspace *as)
{
	static const struct cred nobody = { .uid = 0 };
	const struct cred *c = f->cred ? f->cred : &nobody;
	uint32_t mask;
	const int fds = highest_fd(s, &mask);

	put_name(t, f->comm);
	text_printf(t, "Umask:\t%04o\nState:\t%s\nTgid:\t%u\nNgid:\t0\nPid:\t%u\nPPid:\t%u\n", mask,
		    state_name(f->state), proc_nr(s, f->tgid), proc_nr(s, f->pid),
		    proc_nr(s, f->ppid));
	text_printf(t, "TracerPid:\t%u\n", proc_nr(s, f->tracer));
	put_ids(t, c);
	text_printf(t, "FDSize:\t%d\nGroups:\t", MAX((fds + 63) & ~63, 64));
	for (uint32_t i = 0; i < c->nr_groups; i++)
		text_printf(t, "%u ", c->groups[i]);
	text_puts(t, "\n");
	put_namespaces(t, s, f);
	if (as)
		put_memory(t, as);
	text_printf(t, "CoreDumping:\t0\nTHP_enabled:\t0\nThreads:\t%u\nSigQ:\t%llu/%llu\n",
		    f->nr_threads, (unsigned long long)f->queued,
		    (unsigned long long)f->queue_limit);
	put_signals(t, f);
	put_caps(t, c);
	text_printf(t, "NoNewPrivs:\t%d\nSeccomp:\t%u\nSeccomp_filters:\t%u\nCpus_allowed:\t",
		    c->no_new_privs, f->seccomp_mode, f->nr_filters);
	put_cpus(t, &f->allowed);
	text_puts(t, "\nMems_allowed:\t1\nMems_allowed_list:\t0\n");
	text_printf(t, "voluntary_ctxt_switches:\t%llu\nnonvoluntary_ctxt_switches:\t%llu\n",
		    (unsigned long long)(f->switches - f->forced), (unsigned long long)f->forced);
}

SHOW(show_pid_status)
{
	struct aspace *as;
	struct facts f;
	int err = read_facts(s, &f);

	if (err)
		return err;
	err = proc_aspace(s, &as);
	if (!err) {
		put_status(t, s, &f, as);
		if (as)
			aspace_put(as);
	}
	facts_done(&f);
	return err;
}
