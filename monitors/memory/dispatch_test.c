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
	{ 0 },
};

static const struct ktest_suite suite = { .name = "memory.dispatch", .cases = cases };
KTEST_SUITE(suite);
