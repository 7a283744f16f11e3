/* SPDX-License-Identifier: MIT */
/* Control messages of virtio consoles. */
#include <lib/errno.h>
#include <lib/ktest.h>
#include <lib/string.h>

#include "virtio_console.h"

static void good_messages(struct ktest *t)
{
	static const uint8_t open[] = { 3, 0, 0, 0, 6, 0, 1, 0 };
	static const uint8_t name[] = { 1, 0, 0, 0, 7, 0, 1, 0, 'c', 't', 'l' };
	static const uint8_t terminated[] = { 1, 0, 0, 0, 7, 0, 1, 0, 'c', 't', 'l', 0 };
	struct vcon_event e;

	ASSERT_EQ(t, vcon_event_decode(open, sizeof(open), &e), 0);
	EXPECT_EQ(t, e.port, 3u);
	EXPECT_EQ(t, (int)e.event, (int)VIRTIO_CONSOLE_PORT_OPEN);
	EXPECT_EQ(t, e.value, 1);
	ASSERT_EQ(t, vcon_event_decode(name, sizeof(name), &e), 0);
	EXPECT_STREQ(t, e.name, "ctl");
	ASSERT_EQ(t, vcon_event_decode(terminated, sizeof(terminated), &e), 0);
	EXPECT_STREQ(t, e.name, "ctl");
}

static void bad_messages(struct ktest *t)
{
	uint8_t msg[8 + CHARDEV_NAME_LEN + 8] = { 1, 0, 0, 0, 7, 0, 1, 0 };
	struct vcon_event e;

	EXPECT_EQ(t, vcon_event_decode(msg, 0, &e), -EPROTO);
	EXPECT_EQ(t, vcon_event_decode(msg, 7, &e), -EPROTO);
	EXPECT_EQ(t, vcon_event_decode(msg, 8, &e), -EPROTO);  /* no name */
	EXPECT_EQ(t, vcon_event_decode(msg, 12, &e), -EPROTO); /* only terminators */
	memset(msg + 8, 'x', sizeof(msg) - 8);
	EXPECT_EQ(t, vcon_event_decode(msg, 8 + CHARDEV_NAME_LEN - 1, &e), 0);
	EXPECT_EQ(t, vcon_event_decode(msg, 8 + CHARDEV_NAME_LEN, &e), -EPROTO); /* too long */
	msg[9] = '\n';
	EXPECT_EQ(t, vcon_event_decode(msg, 12, &e), -EPROTO);
	msg[9] = 0x80;
	EXPECT_EQ(t, vcon_event_decode(msg, 12, &e), -EPROTO);
}

static void queue_numbers(struct ktest *t)
{
	EXPECT_EQ(t, vcon_rx_queue(0), 0u);
	EXPECT_EQ(t, vcon_tx_queue(0), 1u);
	EXPECT_EQ(t, vcon_rx_queue(1), 4u);
	EXPECT_EQ(t, vcon_tx_queue(3), 9u);
}

static const struct ktest_case vcon_cases[] = {
	KTEST(good_messages),
	KTEST(bad_messages),
	KTEST(queue_numbers),
	{ 0 },
};
static const struct ktest_suite vcon_suite = { .name = "virtio.console", .cases = vcon_cases };
KTEST_SUITE(vcon_suite);
