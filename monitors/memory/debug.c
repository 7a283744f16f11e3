/* SPDX-License-Identifier: MIT */
/*
 * Test commands of a memory node, on its control channel: see docs/protocol/control.md.
 */
#include "service.h"

#include <lib/errno.h>
#include <lib/fmt.h>
#include <lib/string.h>

#include "memory.h"

/* The next word of *@s, in place; NULL at the end. */
static char *next_word(char **s)
{
	char *word;

	while (**s == ' ')
		(*s)++;
	if (!**s)
		return NULL;
	word = *s;
	while (**s && **s != ' ')
		(*s)++;
	if (**s)
		*(*s)++ = '\0';
	return word;
}

/* A number, or "any" for @any. */
static int word_number(char **s, uint64_t any, uint64_t *out)
{
	const char *word = next_word(s);

	if (!word)
		return -EINVAL;
	if (strcmp(word, "any") == 0) {
		*out = any;
		return 0;
	}
	return kstrtou64(word, 0, out);
}

/* move_vregion <aspace|any> <index|any> <node> */
static int debug_move(char *args, char *reply, size_t cap)
{
	uint64_t aspace, index, node;
	int err;

	if (word_number(&args, 0, &aspace) || word_number(&args, UINT64_MAX, &index) ||
	    word_number(&args, 0, &node) || !node || node > PROTO_NODE_MAX || next_word(&args))
		return -EINVAL;
	err = home_move_vregion(&memory_node, aspace, index, (uint32_t)node);
	if (!err)
		scnprintf(reply, cap, "ok: moved to node %u", (uint32_t)node);
	return err;
}

int memory_debug_command(const char *cmd, char *reply, size_t cap)
{
	char line[128];
	char *rest = line;
	char *word;

	if (!memory_self())
		return -EAGAIN;
	if (strlcpy(line, cmd, sizeof(line)) >= sizeof(line))
		return -EINVAL;
	word = next_word(&rest);
	if (word && strcmp(word, "move_vregion") == 0)
		return debug_move(rest, reply, cap);
	if (word && strcmp(word, "drop_file_pages") == 0) {
		scnprintf(reply, cap, "ok: %lu pages",
			  (unsigned long)page_cache_drop_all(&memory_node));
		return 0;
	}
	return -ENOSYS;
}
