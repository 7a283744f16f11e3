/* SPDX-License-Identifier: MIT */
/* virtio consoles: control messages.  Pure. */
#include <lib/errno.h>
#include <lib/string.h>

#include "virtio_console.h"

static bool name_char_ok(char c)
{
	return c > ' ' && c < 0x7f;
}

int vcon_event_decode(const void *msg, uint32_t len, struct vcon_event *out)
{
	struct virtio_console_control c;
	struct vcon_event e;
	uint32_t name_len;

	if (len < sizeof(c))
		return -EPROTO;
	memcpy(&c, msg, sizeof(c));
	memset(&e, 0, sizeof(e));
	e.port = le32_to_cpu(c.id);
	e.event = le16_to_cpu(c.event);
	e.value = le16_to_cpu(c.value);
	if (e.event == VIRTIO_CONSOLE_PORT_NAME) {
		const char *name = (const char *)msg + sizeof(c);

		name_len = len - (uint32_t)sizeof(c);
		/* Some hosts send a terminator, some do not. */
		while (name_len && name[name_len - 1] == '\0')
			name_len--;
		if (!name_len || name_len >= sizeof(e.name))
			return -EPROTO;
		for (uint32_t i = 0; i < name_len; i++) {
			if (!name_char_ok(name[i]))
				return -EPROTO;
		}
		memcpy(e.name, name, name_len);
	}
	*out = e;
	return 0;
}
