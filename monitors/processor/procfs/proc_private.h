/* SPDX-License-Identifier: MIT */
/* Files of /proc, between the files of this folder. */
#pragma once

#include <processor/mm/aspace.h>
#include <processor/process/process.h>

#include "pseudo_private.h"

/* --- /proc/<pid> ---------------------------------------------------------------------- */

/*
 * The process and task that a subject means now, referenced. -ESRCH: it is gone. @task is NULL when
 * the subject is the process as a whole.
 */
struct proc_ref {
	struct process *process;
	struct task *task;
};
int proc_get(const struct pseudo_subject *s, struct proc_ref *ref) __must_check;
/* Number @nr of the vNode as the tree of @s shows it; 0: it is not seen there. */
static inline uint32_t proc_nr(const struct pseudo_subject *s, uint32_t nr)
{
	return pid_vnr_in(nr, s->pid_ns);
}
void proc_put(struct proc_ref *ref);
/* Its address space, referenced; NULL: a zombie has none. -ESRCH */
int proc_aspace(const struct pseudo_subject *s, struct aspace **as) __must_check;

/* [@start, @end) of it into @t, as far as it can be had. */
void proc_put_memory(struct text *t, struct aspace *as, vaddr_t start, vaddr_t end);
/* Give the file of @v a name, if it is the program or its interpreter. */
void proc_name_object(const struct pseudo_subject *s, struct aspace *as, const struct vma *v);
struct proc_sizes { /* pages */
	uint64_t total, rss, shared, text, data, stack, lib;
};
void proc_sizes(struct aspace *as, struct proc_sizes *out);

SHOW(show_pid_maps);
SHOW(show_pid_numa_maps);
SHOW(show_pid_smaps);
SHOW(show_pid_smaps_rollup);
SHOW(show_pid_stat);
SHOW(show_pid_statm);
SHOW(show_pid_status);
SHOW(show_pid_mountinfo);
SHOW(show_pid_mounts);
SHOW(show_pid_fdinfo);

extern const struct pseudo_dynamic proc_fds, proc_fdinfos;

/* proc_mem.c */
extern const struct file_ops proc_mem_ops;

/* proc_pid.c, for the tables in proc_tree.c */
SHOW(show_pid_auxv);
SHOW(show_pid_cgroup);
SHOW(show_pid_cmdline);
SHOW(show_pid_comm);
SHOW(show_pid_coredump_filter);
SHOW(show_pid_cpuset);
SHOW(show_pid_environ);
SHOW(show_pid_limits);
SHOW(show_pid_loginuid);
SHOW(show_pid_sessionid);
SHOW(show_pid_oom_score);
SHOW(show_pid_oom_score_adj);
SHOW(show_pid_personality);
SHOW(show_pid_wchan);

int store_pid_comm(const struct pseudo_subject *s, const char *buf, size_t len);
int store_pid_oom_score_adj(const struct pseudo_subject *s, const char *buf, size_t len);
int store_pid_coredump_filter(const struct pseudo_subject *s, const char *buf, size_t len);

int link_pid_cwd(struct text *t, const struct pseudo_subject *s);
int link_pid_exe(struct text *t, const struct pseudo_subject *s);
int link_pid_root(struct text *t, const struct pseudo_subject *s);
int magic_pid_cwd(const struct pseudo_subject *s, struct path *to);
int magic_pid_root(const struct pseudo_subject *s, struct path *to);

/* proc_ns.c */
extern const struct pseudo_node proc_ns_nodes[];
SHOW(show_hostname);
SHOW(show_domainname);
int store_hostname(const struct pseudo_subject *s, const char *buf, size_t len);
int store_domainname(const struct pseudo_subject *s, const char *buf, size_t len);

/* proc_user.c */
int proc_open_uid_map(struct file *f) __must_check;
int proc_open_gid_map(struct file *f) __must_check;
int proc_open_projid_map(struct file *f) __must_check;
int proc_open_setgroups(struct file *f) __must_check;

/* proc_login.c */
int store_pid_loginuid(const struct pseudo_subject *s, const char *buf, size_t len);

/* --- the system as a whole ------------------------------------------------------------ */

SHOW(show_cgroups);
SHOW(show_cmdline);
SHOW(show_cpuinfo);
SHOW(show_devices);
SHOW(show_filesystems);
SHOW(show_interrupts);
SHOW(show_loadavg);
SHOW(show_meminfo);
SHOW(show_partitions);
SHOW(show_stat);
SHOW(show_swaps);
SHOW(show_uptime);
SHOW(show_version);
SHOW(show_vmstat);

extern const struct pseudo_node proc_net_nodes[], proc_sys_nodes[], proc_sysvipc_nodes[];

/* proc_sysv.c: limits of System V IPC */

SHOW(show_msgmax);
int store_msgmax(const struct pseudo_subject *s, const char *buf, size_t len);
SHOW(show_msgmnb);
int store_msgmnb(const struct pseudo_subject *s, const char *buf, size_t len);
SHOW(show_msgmni);
int store_msgmni(const struct pseudo_subject *s, const char *buf, size_t len);
SHOW(show_sem_limits);
int store_sem_limits(const struct pseudo_subject *s, const char *buf, size_t len);
SHOW(show_shmall);
int store_shmall(const struct pseudo_subject *s, const char *buf, size_t len);
SHOW(show_shmmax);
int store_shmmax(const struct pseudo_subject *s, const char *buf, size_t len);
SHOW(show_shm_next_id);
SHOW(show_sem_next_id);
SHOW(show_msg_next_id);
int store_shm_next_id(const struct pseudo_subject *s, const char *buf, size_t len);
int store_sem_next_id(const struct pseudo_subject *s, const char *buf, size_t len);
int store_msg_next_id(const struct pseudo_subject *s, const char *buf, size_t len);
SHOW(show_shmmni);
int store_shmmni(const struct pseudo_subject *s, const char *buf, size_t len);
