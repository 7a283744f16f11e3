/* SPDX-License-Identifier: MIT */
/*
 * execve, execveat: another program in the calling process.
 *
 * Flow:	copy the strings; find and load the program into a space of its own, by way of its
 *		interpreter if it is a script; make everything else that may fail. Then end the
 *		other threads of the process and wait for that: from here on there is no way back,
 *		and what fails kills. The caller becomes the first task, its process gets the new
 *		space.
 * Failure:	before that the caller goes on with the errno of execve(2), as if nothing had been.
 * Limits:	set-user-id bits and file capabilities are ignored, as with PR_SET_NO_NEW_PRIVS.
 */
#include <abi/fcntl.h>
#include <abi/prctl.h>
#include <arch/fpu.h>
#include <arch/trap.h>
#include <arch/uaccess.h>
#include <fs/access.h>
#include <kernel/counter.h>
#include <lib/err.h>
#include <lib/string.h>
#include <managers/placement.h>
#include <mm/kmap.h>
#include <mm/slab.h>
#include <processor/account/account.h>
#include <processor/excache/object.h>
#include <processor/mm/aspace.h>
#include <processor/mm/expand.h>
#include <processor/mm/kmem.h>
#include <processor/mm/remote.h>
#include <processor/ns/user_ns.h>
#include <processor/syscall/syscall.h>
#include <processor/vfs/file.h>
#include <processor/vfs/path.h>
#include <processor/vfs/uio.h>

#include "process_private.h"

COUNTER(exec_execs, "process.execs", "programs begun by exec");

#define FEW_VMAS    16u /* that most programs begin with */
#define FIRST_ROOM  4096u
#define KMALLOC_MAX 65536u /* larger buffers come from the vmalloc area */

/* --- strings ------------------------------------------------------------------------------- */

static char *room_alloc(size_t size)
{
	return size > KMALLOC_MAX ? vmalloc(size) : kmalloc(size);
}

static void room_free(char *buf, size_t size)
{
	if (size > KMALLOC_MAX)
		vfree(buf);
	else
		kfree(buf);
}

static void exec_strings_free(struct exec_strings *s)
{
	room_free(s->buf, s->size);
	*s = (struct exec_strings){ 0 };
}

/* Room for @len bytes more. */
static int strings_reserve(struct exec_strings *s, size_t len)
{
	size_t size = s->size ? s->size : FIRST_ROOM;
	char *buf;

	if (len <= s->size - s->len)
		return 0;
	while (size - s->len < len)
		size *= 2;
	buf = room_alloc(size);
	if (!buf)
		return -ENOMEM;
	if (s->len)
		memcpy(buf, s->buf, s->len);
	room_free(s->buf, s->size);
	s->buf = buf;
	s->size = size;
	return 0;
}

int exec_strings_add(struct exec_strings *s, const char *str)
{
	const size_t len = strlen(str) + 1;
	const int err = strings_reserve(s, len);

	if (err)
		return err;
	memcpy(s->buf + s->len, str, len);
	s->len += len;
	s->nr++;
	return 0;
}

/* One string of the caller's, with at most @budget bytes. */
static int add_user(struct exec_strings *s, uint64_t ustr, uint64_t budget)
{
	const size_t most = (size_t)MIN(budget, (uint64_t)EXEC_STRING_MAX);
	size_t room = 128;

	for (;;) {
		ssize_t len;
		int err;

		room = MIN(room, most);
		err = room ? strings_reserve(s, room) : -E2BIG;
		if (err)
			return err;
		room = MIN(s->size - s->len, most);
		len = strncpy_from_user(s->buf + s->len, (const char __user *)ustr, room);
		if (len >= 0) {
			s->len += (size_t)len + 1;
			s->nr++;
			return 0;
		}
		if (len != -ENAMETOOLONG)
			return (int)len;
		if (room == most)
			return -E2BIG;
		room *= 2;
	}
}

/* The array of pointers at @uarray; each costs its own 8 bytes of *@budget too. */
static int add_user_array(struct exec_strings *s, uint64_t uarray, uint64_t *budget)
{
	uint64_t ustr;

	if (!uarray)
		return 0;
	for (uint64_t at = uarray;; at += sizeof(ustr)) {
		const size_t before = s->len;
		int err;

		if (get_user_u64(&ustr, (const void __user *)at))
			return -EFAULT;
		if (!ustr)
			return 0;
		if (*budget < sizeof(ustr))
			return -E2BIG;
		*budget -= sizeof(ustr);
		err = add_user(s, ustr, *budget);
		if (err)
			return err;
		*budget -= s->len - before;
		if (s->nr % 1024 == 0 && signal_pending())
			return -ERESTARTNOINTR;
	}
}

/* --- scripts -------------------------------------------------------------------------------- */

#define SCRIPT_LINE  255u /* as Linux: 256 with a NUL */
#define SCRIPT_DEPTH 5u

static bool is_blank(char c)
{
	return c == ' ' || c == '\t';
}

static char *skip_blanks(char *s)
{
	while (is_blank(*s))
		s++;
	return s;
}

static char *skip_word(char *s)
{
	while (*s && !is_blank(*s))
		s++;
	return s;
}

/*
 * Take "#! interpreter argument" apart, in place; @line has SCRIPT_LINE bytes and a NUL. A line
 * that is cut off must at least name the whole interpreter. -ENOEXEC, -EACCES.
 */
static int exec_script_parse(char *line, char **interp, char **arg)
{
	char *end = strchr(line, '\n');
	char *name, *after;

	if (line[0] != '#' || line[1] != '!')
		return -ENOEXEC;
	name = skip_blanks(line + 2);
	if (!end) {
		end = line + strlen(line);
		if (end == line + SCRIPT_LINE && skip_word(name) == end)
			return -ENOEXEC;
		if (!*name)
			/* as Linux, which takes no name for the working directory */
			return -EACCES;
	}
	while (end > line + 2 && is_blank(end[-1]))
		end--;
	*end = '\0';
	if (name >= end)
		return -ENOEXEC;
	after = skip_word(name);
	*interp = name;
	*arg = NULL;
	if (*after) {
		*after = '\0';
		*arg = skip_blanks(after + 1);
	}
	return 0;
}

/* argv becomes: interpreter, its argument, the script, and what was behind argv[0]. */
static int rewrite_argv(struct exec_image *img, const char *interp, const char *arg)
{
	struct exec_strings old = img->argv, new = { 0 };
	const size_t first = old.nr ? strlen(old.buf) + 1 : 0;
	int err = exec_strings_add(&new, interp);

	if (!err && arg)
		err = exec_strings_add(&new, arg);
	if (!err)
		err = exec_strings_add(&new, img->path);
	if (!err)
		err = strings_reserve(&new, old.len - first);
	if (err) {
		exec_strings_free(&new);
		return err;
	}
	memcpy(new.buf + new.len, old.buf + first, old.len - first);
	new.len += old.len - first;
	new.nr += old.nr ? old.nr - 1 : 0;
	exec_strings_free(&img->argv);
	img->argv = new;
	return 0;
}

/* The first bytes of a file that may be executed, whether it may be read or not. */
static int read_head(const struct path *at, char *buf, size_t size)
{
	struct file *f = path_open_exec(at);
	struct uio uio;
	uint64_t pos = 0;
	ssize_t len;

	if (IS_ERR(f))
		return PTR_ERR(f);
	uio_kernel(&uio, buf, size);
	len = file_read(f, &uio, &pos);
	file_put(f);
	return len < 0 ? (int)len : 0;
}

/* @text is a script: the interpreter's path instead, and argv to go with it. */
static int enter_script(struct exec_image *img, const struct path *at, char *text)
{
	char line[SCRIPT_LINE + 1] = { 0 };
	char *interp, *arg;
	int err = read_head(at, line, SCRIPT_LINE);

	if (!err)
		err = exec_script_parse(line, &interp, &arg);
	if (!err)
		err = rewrite_argv(img, interp, arg);
	if (err)
		return err;
	strlcpy(text, interp, FS_PATH_MAX);
	kfree(img->path);
	img->path = kstrdup(interp);
	return img->path ? 0 : -ENOMEM;
}

/* --- loading --------------------------------------------------------------------------------- */

/*
 * The file to execute, for the caller to walk_result_put(). @first: not a script's interpreter. A
 * descriptor means the file that it is open for, whatever its path leads to by now.
 */
static int find(const struct exec_image *img, struct fs_state *fs, const char *text, bool first,
		struct walk_result *res)
{
	const uint32_t flags = img->nofollow ? WALK_NOFOLLOW : 0;
	struct fs_cred cred;
	int err;

	cred_to_fs(img->cred, &cred);
	if (first && img->rel)
		err = fs_state_walk_from(fs, &cred, &img->from, img->rel, flags | WALK_EMPTY,
					 FS_MAY_EXEC, res);
	else
		err = fs_state_walk(fs, &cred, text, flags, FS_MAY_EXEC, res);
	if (err)
		return err;
	if ((res->at.attr.mode & S_IFMT) == S_IFLNK)
		err = -ELOOP;
	else if ((res->at.attr.mode & S_IFMT) != S_IFREG)
		err = -EACCES;
	if (err)
		walk_result_put(res);
	return err;
}

static ssize_t file_head(struct file *f, uint8_t *head)
{
	struct uio uio;
	uint64_t pos = 0;

	uio_kernel(&uio, head, EXEC_HEAD_MAX);
	return file_read(f, &uio, &pos);
}

/* @f is not open for writing by anybody, and will not be while the program runs. */
static int load_shared(struct exec_image *img, struct file *f, const struct exec_args *args,
		       const struct exec_interp *in)
{
	uint8_t *head = kmalloc(EXEC_HEAD_MAX);
	struct exec_program prog = {
		.object = f->object,
		.storage = in->path ? in->storage : gsm_storage_for("/"),
		.head = head,
		.interp = in->path,
	};
	ssize_t len = head ? file_head(f, head) : -ENOMEM;

	/* A file that is not ELF may be a script: no message. */
	if (len >= 0 && (len < 4 || memcmp(head, "\177ELF", 4)))
		len = -ENOEXEC;
	if (len > 0) {
		prog.head_len = (uint32_t)len;
		len = exec_load(img->cred, img->stack_limit, args, &prog, &img->as, &img->regs);
	}
	kfree(head);
	return (int)len;
}

/*
 * A program of a file system of our own lies in a shared object, whose newest pages are here: the
 * home is told how it begins.
 */
static int load_object(struct exec_image *img, const struct path *at, const struct exec_args *args,
		       const struct exec_interp *in)
{
	struct file *f = path_open_exec(at);
	int err = -ENOEXEC;

	if (IS_ERR(f))
		return PTR_ERR(f);
	if (!f->object || f->object->kind != OBJECT_SHARED)
		goto out;
	err = object_run_begin(f->object);
	if (err)
		goto out;
	err = load_shared(img, f, args, in);
	if (err) {
		object_run_end(f->object);
	} else {
		img->as->exe = f->object;
		object_get(f->object);
	}
out:
	file_put(f);
	return err;
}

static int load_found(struct exec_image *img, const struct path *at, const struct exec_interp *in)
{
	const struct exec_args args = {
		.path = img->execfn,
		.argc = img->argv.nr,
		.argv = img->argv.buf,
		.argv_len = img->argv.len,
		.envc = img->envp.nr,
		.envp = img->envp.buf,
		.envp_len = img->envp.len,
		.fixed = img->fixed,
	};

	const struct exec_program prog = {
		.attr = &at->attr,
		.storage = in->path ? in->storage : gsm_storage_for("/"),
		.interp = in->path,
	};

	if (!at->attr.file.node) /* no storage node has it */
		return load_object(img, at, &args, in);
	return exec_load(img->cred, img->stack_limit, &args, &prog, &img->as, &img->regs);
}

/*
 * A program that the caller may not read is not shown to it in memory either, nor to the root of a
 * user namespace that has not its file.
 */
static int check_readable(struct exec_image *img, const struct path *at)
{
	struct user_ns *ns = img->look_ns;
	struct fs_cred cred;
	int err;

	cred_to_fs(img->cred, &cred);
	err = attr_access(&cred, at->inode, &at->attr, FS_MAY_READ);
	if (err != -EACCES)
		return err;
	img->unreadable = true;
	while (ns && !(id_is_mapped(ns, ID_USER, at->attr.uid) &&
		       id_is_mapped(ns, ID_GROUP, at->attr.gid)))
		ns = user_ns_parent(ns);
	(void)user_ns_get(ns);
	user_ns_put(img->look_ns);
	img->look_ns = ns;
	return 0;
}

static int load_once(struct exec_image *img, struct fs_state *fs, const struct path *at)
{
	/* Does a path mean here what it means at the root's storage node? */
	const bool apart = !fs_state_at_top(fs) || mounts_changed(fs->mounts);
	struct exec_interp in = { 0 };
	struct fs_cred cred;
	int err = 0;

	cred_to_fs(img->cred, &cred);
	if (apart)
		err = exec_interp_find(at, fs, &cred, &in);
	if (!err && !in.path && apart) {
		/* Should the home find one after all, it is not the one of our path: EACCES. */
		in.path = kstrdup("/");
		in.storage = gsm_storage_for("/");
		err = in.path ? 0 : -ENOMEM;
	}
	if (!err)
		err = load_found(img, at, &in);
	kfree(in.path);
	return err;
}

/* It is loaded: what stays of it is the program's. */
static int charge_image(struct exec_image *img, const char *path)
{
	img->exe_path = kmem_strdup(img->kmem, path);
	return img->exe_path ? kmem_charge_space(img->as, img->kmem, FEW_VMAS) : -ENOMEM;
}

int exec_image_load(struct exec_image *img, struct fs_state *fs)
{
	char *text = kmalloc(FS_PATH_MAX);
	struct walk_result res;
	int err = -ENOMEM;

	img->execfn = kstrdup(img->path);
	/* A program without argv[0] gets an empty one, as on Linux. */
	if (text && img->execfn)
		err = img->argv.nr ? 0 : exec_strings_add(&img->argv, "");
	if (!err)
		strlcpy(text, img->path, FS_PATH_MAX);
	for (unsigned int depth = 0; !err; depth++) {
		err = find(img, fs, text, !depth, &res);
		if (err)
			break;
		err = check_readable(img, &res.at);
		if (!err)
			err = load_once(img, fs, &res.at);
		if (!err)
			err = charge_image(img, res.at.text);
		else if (err == -ENOEXEC)
			err = depth < SCRIPT_DEPTH ? enter_script(img, &res.at, text) : -ELOOP;
		walk_result_put(&res);
		if (img->as)
			break;
	}
	kfree(text);
	return err;
}

void exec_image_free(struct exec_image *img)
{
	exec_strings_free(&img->argv);
	exec_strings_free(&img->envp);
	kfree(img->path);
	path_put(&img->from);
	kfree(img->rel);
	kfree(img->execfn);
	kmem_free(img->exe_path);
	if (img->cred)
		cred_put(img->cred);
	user_ns_put(img->look_ns);
	if (img->files)
		files_put(img->files);
	if (img->as)
		aspace_put(img->as);
}

void task_set_comm(struct task *t, const char *path)
{
	const char *slash = strrchr(path, '/');
	struct process *p = t->process;

	mutex_lock(&p->lock);
	strlcpy(t->comm, slash ? slash + 1 : path, sizeof(t->comm));
	strlcpy(p->comm, t->comm, sizeof(p->comm));
	mutex_unlock(&p->lock);
}

/* --- the point of no return ------------------------------------------------------------------- */

/*
 * End the other threads, and wait for that. -EINTR: the caller is ended itself, by a signal or
 * another exec, or stands still for a core file and ends then.
 */
static int end_other_tasks(struct task *t)
{
	struct process *p = t->process;
	struct task *other;
	int err = 0;

	spin_lock(&p->sig_lock);
	if (task_ending_locked(t) || p->core_task)
		err = -EINTR;
	else
		p->exec_task = t;
	list_for_each_entry(other, &p->tasks, link) {
		if (!err && other != t)
			thread_notify(other->thread, THREAD_F_KILL);
	}
	spin_unlock(&p->sig_lock);
	if (err)
		return err;
	err = wait_event_killable(&p->exec_event, READ_ONCE(p->nr_tasks) == 1);
	spin_lock(&p->sig_lock);
	p->exec_task = NULL;
	if (p->exiting)
		err = -EINTR; /* killed while the last of them left */
	spin_unlock(&p->sig_lock);
	return err;
}

/*
 * The caller is the only task: it takes the process's number if it was not the first one, and the
 * new space.
 */
static struct aspace *take_over(struct task *t, struct exec_image *img)
{
	const uint32_t old_tid = t->tid;
	struct trace_gone gone;
	const bool has_ids = t->cred->uid != t->cred->euid || t->cred->gid != t->cred->egid;
	struct process *p = t->process;
	struct vnode *v = p->vnode;
	struct aspace *old = p->as;
	struct user_ns *old_ns;

	trace_gone_init(&gone);
	spin_lock(&v->lock);
	if (t->tid != p->pid) {
		t->pid_entry->task = NULL;
		pid_release_locked(v, t->pid_entry);
		t->pid_entry = p->pid_entry;
		t->pid_entry->task = t;
		t->tid = p->pid;
		WRITE_ONCE(p->nice, t->nice);
	}
	trace_exec_locked(t, old_tid, &gone);
	p->usage_dead.max_rss = MAX(p->usage_dead.max_rss, space_rss(old));
	p->as = img->as;
	p->personality &= ~READ_IMPLIES_EXEC; /* a matter of the program, as on Linux */
	spin_lock(&p->sig_lock);
	old_ns = p->look_ns;
	p->look_ns = img->look_ns;
	img->look_ns = old_ns;
	spin_unlock(&p->sig_lock);
	WRITE_ONCE(p->undumpable, has_ids || img->unreadable);
	if (has_ids)
		p->pdeath_signal = 0;
	p->execed = true;
	p->exit_signal = SIGCHLD;
	img->as = NULL;
	spin_unlock(&v->lock);
	trace_put_all(&gone);
	thread_set_user(READ_ONCE(p->as->pt), NULL); /* stays as long as the space */
	return old;
}

static void install_files(struct task *t, struct exec_image *img)
{
	struct files *old = t->files;

	if (img->files) {
		spin_lock(&t->process->sig_lock);
		t->files = img->files;
		spin_unlock(&t->process->sig_lock);
		img->files = NULL;
		files_put(old);
	}
	files_close_range(t->files, 0, UINT32_MAX, true);
}

static void install_names(struct task *t, struct exec_image *img)
{
	struct process *p = t->process;
	char *old;

	task_set_comm(t, img->execfn);
	mutex_lock(&p->lock);
	old = p->exe_path;
	p->exe_path = img->exe_path;
	mutex_unlock(&p->lock);
	img->exe_path = old; /* freed with the image */
	thread_set_name(t->thread, t->comm);
}

static int commit(struct task *t, struct exec_image *img)
{
	const struct cred *cred = img->cred;
	struct aspace *old;
	int err;

	task_release_mm(t, false);
	old = take_over(t, img);
	aspace_put(old);
	install_files(t, img);
	install_names(t, img);
	img->cred = NULL;
	err = cred_install((struct cred *)(uintptr_t)cred);
	if (!err)
		err = signal_exec(t);
	t->robust_list = 0;
	rseq_forget(t);
	WRITE_ONCE(t->process->barriers, 0);
	fpu_reset(thread_current()->user.fpu);
	debug_clear();
	thread_set_fs_base(0);
	thread_set_gs_base(0);
	return err;
}

static void start_over(struct pt_regs *regs, const struct pt_regs *fresh)
{
	const uint64_t vector = regs->vector;

	*regs = *fresh;
	regs->vector = vector;
	regs->orig_rax = UINT64_MAX; /* nothing to restart */
}

static int exec_now(struct exec_image *img, struct pt_regs *regs)
{
	struct task *t = task_current();
	const uint32_t tid = t->tid;
	int err = exec_image_load(img, t->fs);

	if (!err)
		err = expand_check_program(img->as);
	if (err)
		return err;
	if (files_shared(t->files)) {
		struct files *own = files_copy(t->files);

		if (IS_ERR(own))
			return PTR_ERR(own);
		img->files = own;
	}
	err = end_other_tasks(t);
	if (err)
		return err;
	err = commit(t, img);
	if (READ_ONCE(t->process->as->failed))
		process_kill_failed();
	else if (err)
		process_lost(t->process, "%s (pid %u) cannot be run: error %d", t->comm,
			     t->process->pid, err);
	start_over(regs, &img->regs);
	counter_inc(&exec_execs);
	if (unlikely(task_is_traced(t)) && !err)
		trace_exec_done(t, tid);
	return 0;
}

/*
 * --- the calls ----------------------------------------------------------------------------------
 */

/* setuid() went over the user's RLIMIT_NPROC: it shows here, unless others have ended meanwhile. */
static int check_nproc(struct task *t)
{
	const uint64_t limit = process_rlimit(RLIMIT_NPROC);
	struct vnode *v = t->process->vnode;

	if (!t->nproc_exceeded)
		return 0;
	spin_lock(&v->lock);
	t->nproc_exceeded = user_tasks_locked(v, t->user) > limit;
	spin_unlock(&v->lock);
	return t->nproc_exceeded ? -EAGAIN : 0;
}

/* The name of the program, as it was given, and where that begins if a descriptor says. */
static int take_name(struct exec_image *img, int dfd, uint64_t upath, uint32_t flags)
{
	char *name = kmalloc(FS_PATH_MAX);
	ssize_t len = -ENOMEM;

	if (name)
		len = strncpy_from_user(name, (const char __user *)upath, FS_PATH_MAX);
	if (!len && !(flags & AT_EMPTY_PATH))
		len = -ENOENT;
	if (len < 0) {
		kfree(name);
		return (int)len;
	}
	if (len && (name[0] == '/' || dfd == AT_FDCWD)) {
		img->path = name;
		return 0;
	}
	img->rel = name;
	return path_at_fd(dfd, name, &img->from, &img->path);
}

static long do_exec(int dfd, uint64_t upath, uint64_t uargv, uint64_t uenvp, uint32_t flags,
		    struct pt_regs *regs)
{
	struct task *t = task_current();
	struct exec_image *img;
	uint64_t budget;
	long err = check_nproc(t);

	if (err)
		return err;
	img = kzalloc(sizeof(*img));
	if (!img)
		return -ENOMEM;
	img->kmem = kmem_current();
	img->stack_limit = process_rlimit(RLIMIT_STACK);
	budget = exec_arg_limit(img->stack_limit);
	img->cred = cred_exec(t->cred);
	img->look_ns = user_ns_get(user_ns_current());
	err = img->cred ? take_name(img, dfd, upath, flags) : -ENOMEM;
	if (!err)
		err = add_user_array(&img->argv, uargv, &budget);
	if (!err)
		err = add_user_array(&img->envp, uenvp, &budget);
	img->nofollow = flags & AT_SYMLINK_NOFOLLOW;
	img->fixed = READ_ONCE(t->process->personality) & ADDR_NO_RANDOMIZE;
	if (!err)
		err = exec_now(img, regs);
	exec_image_free(img);
	kfree(img);
	return err;
}

/* execve(path, argv, envp) */
long sys_execve(const struct syscall_args *args)
{
	return do_exec(AT_FDCWD, args->a[0], args->a[1], args->a[2], 0, syscall_regs(args));
}

/* execveat(dfd, path, argv, envp, flags) */
long sys_execveat(const struct syscall_args *args)
{
	const uint32_t flags = (uint32_t)args->a[4];

	if (flags & ~(AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW))
		return -EINVAL;
	return do_exec((int)args->a[0], args->a[1], args->a[2], args->a[3], flags,
		       syscall_regs(args));
}
