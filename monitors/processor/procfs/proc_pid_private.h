/* SPDX-License-Identifier: MIT */
/* Functions of proc_pid.c for the tables in proc_tree.c. */
#pragma once

#include "proc_private.h"

SHOW(show_pid_auxv);
SHOW(show_pid_cgroup);
SHOW(show_pid_cmdline);
SHOW(show_pid_comm);
SHOW(show_pid_coredump_filter);
SHOW(show_pid_cpuset);
SHOW(show_pid_environ);
SHOW(show_pid_id_map);
SHOW(show_pid_limits);
SHOW(show_pid_loginuid);
SHOW(show_pid_oom_score);
SHOW(show_pid_oom_score_adj);
SHOW(show_pid_personality);
SHOW(show_pid_wchan);

int store_pid_comm(const struct pseudo_subject *s, const char *buf, size_t len);
int store_pid_oom_score_adj(const struct pseudo_subject *s, const char *buf, size_t len);

int link_pid_cwd(struct text *t, const struct pseudo_subject *s);
int link_pid_exe(struct text *t, const struct pseudo_subject *s);
int link_pid_root(struct text *t, const struct pseudo_subject *s);
int magic_pid_cwd(const struct pseudo_subject *s, struct path *to);
