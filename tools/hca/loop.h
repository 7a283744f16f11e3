/* SPDX-License-Identifier: MIT */
/*
 * HCA model: the event loop and its sources of events: VMs, interrupt channels and
 * the control socket.
 */
#pragma once

#include "hca.h"

struct watch {
	int fd;
	void (*ready)(struct watch *w, uint32_t events);
	void (*release)(struct watch *w); /* frees the owner, when no event can name it */
	bool dead;
	struct watch *next_dead;
};

struct loop {
	int epfd;
	bool quit;
	struct fabric *fabric;
	uint64_t spin_ns; /* look this long for more after an access, before sleeping */
	struct watch *dead;
	unsigned nr_vms; /* attached now */
	bool stay;       /* go on when the last VM has left */
};

bool loop_init(struct loop *l, struct fabric *f);
bool loop_add(struct loop *l, struct watch *w, uint32_t events);
void loop_change(struct loop *l, struct watch *w, uint32_t events);
void loop_remove(struct loop *l, struct watch *w);
void loop_run(struct loop *l);
/* One turn without waiting, for tests. */
void loop_poll(struct loop *l);

/* qtest.c: interrupts through QEMU's qtest socket */
struct qtest;
struct qtest *qtest_open(struct loop *l, struct hca *h, const char *where);
void qtest_close(struct qtest *q);
void qtest_writel(struct qtest *q, uint64_t addr, uint32_t val);

/* mpqemu.c */
struct vm_options {
	int fd;
	uint16_t lid;
	uint64_t guid;
	char name[32];
	char qtest[108];
};
bool vm_options_parse(char *text, struct vm_options *o, const char **why);
bool vm_attach(struct loop *l, const struct vm_options *o, const char **why);

/* vfio.c */
struct vfio_dev;
struct vfio_dev *vfio_create(struct loop *l, const struct vm_options *o, const char **why);
bool vfio_listen(struct vfio_dev *d, const char *path);
bool vfio_serve(struct vfio_dev *d, int fd);
void vfio_close_all(void);
/* For tests: end one device. */
void vfio_destroy(struct vfio_dev *d);

/* control.c */
bool control_listen(struct loop *l, const char *path);
bool scenario_start(struct loop *l, const char *path);
void control_close(void);
