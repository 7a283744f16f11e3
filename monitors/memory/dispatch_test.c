/* SPDX-License-Identifier: MIT */
/*
 * The table of messages: each entry is complete, and says the same as the opcode does.
 */
#include "dispatch.h"

#include <lib/ktest.h>
#include <proto/mm.h>

#include "memory.h"

/* Faults wait only while a vRegion is handed over, and then for a bounded time. */
static bool waits_for_ever(const struct msg_type *type)
{
	switch (type->opcode) {
	case PM_FETCH:
	case PM_FILL_VMA:
	case PM_WRITEBACK:
		return false;
	default:
		return type->flags & RPC_HANDLER_WAITS;
	}
}

/* Each opcode that there is: the compiler asks for a new one here, and then the table has to. */
static bool is_opcode(uint16_t opcode)
{
	switch ((enum pm_opcode)opcode) {
	case PM_EXEC:
	case PM_MMAP:
	case PM_MUNMAP:
	case PM_MPROTECT:
	case PM_MREMAP:
	case PM_BRK:
	case PM_VREGIONS:
	case PM_DESTROY:
	case PM_FETCH:
	case PM_FILL_VMA:
	case PM_WRITEBACK:
	case PM_CREDIT:
	case PM_FILE_FETCH:
	case PM_FORK:
	case PM_COLLAPSE:
	case PM_DISCARD:
	case PM_SPACE:
	case PM_MEMINFO:
	case PM_COMMIT:
	case PM_FETCH_AHEAD:
	case PM_LEASE:
	case PM_FILE_OPEN:
	case PM_FILE_WRITE:
	case PM_FILE_CHANGE:
		return true;
	}
	return opcode >= MM_MAP && opcode <= MM_EXPECT;
}

/* No entry is silent about the vNode, and the handlers are such that it can be looked at. */
static void entries_say_where_the_vnode_is(struct ktest *t)
{
	for (uint16_t opcode = PM_EXEC; opcode < PROTO_FIRST_OPCODE(PROTO_MM) + 0x100; opcode++)
		EXPECT_EQ(t, is_opcode(opcode), msg_find(opcode) != NULL);
	for (size_t i = 0; i < nr_msg_types; i++) {
		const struct msg_type *type = &msg_types[i];
		const bool of_memory = type->opcode >= MM_MAP;

		EXPECT_NE(t, (int)type->vnode, (int)MSG_VNODE_UNSAID);
		EXPECT_EQ(t, type->vnode == MSG_VNODE_BY_MEMORY, of_memory);
		EXPECT_EQ(t, !!(type->flags & MSG_FROM_MEMORY), of_memory);
		/* The RPC layer calls these handlers itself: the dispatcher looks at none. */
		if (type->direct)
			EXPECT_TRUE(t, type->vnode == MSG_VNODE_REGION ||
					       type->vnode == MSG_VNODE_HANDLE);
		/* The placements may have to be waited for. */
		if (type->vnode == MSG_VNODE_NAMED || type->vnode == MSG_VNODE_SPACES ||
		    type->vnode == MSG_VNODE_HANDLE)
			EXPECT_TRUE(t, type->flags & RPC_HANDLER_WAITS);
	}
}

static void entries_are_complete(struct ktest *t)
{
	for (size_t i = 0; i < nr_msg_types; i++) {
		const struct msg_type *type = &msg_types[i];

		/* Served by a decoder and a handler, or by the RPC layer directly. */
		EXPECT_EQ(t, !type->act, !type->decode);
		EXPECT_TRUE(t, !type->act != !type->direct);
		EXPECT_TRUE(t, !(type->flags & RPC_HANDLER_INLINE) == !type->direct);
		/* A memory node's messages are taken from memory nodes only. */
		EXPECT_EQ(t, !!(type->flags & MSG_FROM_MEMORY), type->opcode >= MM_MAP);
		/* The RPC layer lets nobody else call: a processor's only, or a memory node's. */
		EXPECT_EQ(t, !!(type->flags & RPC_HANDLER_FROM_PROCESSOR), type->opcode < MM_MAP);
		EXPECT_FALSE(t, type->flags & RPC_HANDLER_FROM_STORAGE);
		if (type->opcode >= MM_MAP)
			EXPECT_TRUE(t, type->flags & RPC_HANDLER_FROM_MEMORY);
		EXPECT_TRUE(t, msg_find(type->opcode) == type); /* no opcode twice */
		EXPECT_EQ(t, proto_waits(type->opcode), waits_for_ever(type));
		if (type->flags & MSG_RESERVE)
			EXPECT_TRUE(t, type->req_size <= sizeof(union memory_reserve));
	}
	EXPECT_TRUE(t, msg_find(0) == NULL);
}

static const struct ktest_case cases[] = {
	KTEST(entries_are_complete),
	KTEST(entries_say_where_the_vnode_is),
	{ 0 },
};

static const struct ktest_suite suite = { .name = "memory.dispatch", .cases = cases };
KTEST_SUITE(suite);
