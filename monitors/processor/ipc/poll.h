/* SPDX-License-Identifier: MIT */
/*
 * Watching files: what poll, select and epoll have in common.
 */
#pragma once

#include <kernel/wait.h>
#include <lib/compiler.h>
#include <processor/vfs/file.h>

#define POLL_EVENTS_IN  (POLLIN | POLLPRI | POLLRDNORM | POLLRDBAND | POLLRDHUP)
#define POLL_EVENTS_OUT (POLLOUT | POLLWRNORM | POLLWRBAND)

/* Those who watch @f's queues, at most two. */
struct file_watch {
	struct watcher in, out;
	struct waitqueue *in_wq, *out_wq; /* NULL: not on one */
};

#define POLL_ALWAYS (POLLIN | POLLOUT | POLLRDNORM | POLLWRNORM) /* a file without poll() */

static inline unsigned int file_poll(struct file *f)
{
	return f->ops->poll ? f->ops->poll(f) : POLL_ALWAYS;
}

/*
 * Be told when the answer of file_poll() may have changed, as far as @events are concerned; of
 * errors and hang-ups always. @notify_out, of fw->out, is used for a file that has a queue of its
 * own for output. The file must stay until file_watch_end().
 */
void file_watch_begin(struct file_watch *fw, struct file *f, unsigned int events, bool exclusive,
		      bool (*notify_in)(struct watcher *w), bool (*notify_out)(struct watcher *w));
void file_watch_end(struct file_watch *fw);
