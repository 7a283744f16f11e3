/* SPDX-License-Identifier: MIT */
/*
 * Slab allocator: objects of one size cut from blocks of frames.
 *
 * Flow:	Layout: a slab is 2^order pages: struct slab, then objects at a fixed stride.  The
 *		frame of each of its pages points back to it (private) and is tagged.
 *		A free object holds the next free one in its first word.
 * kmalloc:	a table of size classes; larger requests are blocks of frames with the
 *		size in the frame.
 * Locking:	cache->lock; slabs come and go with it dropped.
 * Failure:	with CONFIG_DEBUG an object is followed by a guard word that says live or
 *		free; freed bytes are filled with POISON and checked when handed out
 *		again (the first DEBUG_SPAN bytes).
 */
#define PR_FMT "slab: "

#include <mm/slab.h>

#include <kernel/counter.h>
#include <kernel/panic.h>
#include <kernel/printk.h>
#include <kernel/spinlock.h>
#include <lib/alloc.h>
#include <lib/string.h>
#include <mm/frame.h>

#define TAG_SLAB  0x51abu
#define TAG_LARGE 0x1a46u

#define MAX_SLAB_ORDER 3u
#define MIN_OBJECTS    8u
#define KMALLOC_MAX    2048u

#define POISON     0x6b
#define DEBUG_SPAN 128u
#define GUARD_LIVE 0x11fe0b1ec7a11ce5ull
#define GUARD_FREE 0xdeadf4ee0b1ec7edull

struct kmem_cache {
	struct spinlock lock; /* RANK_SLAB */
	struct list_head partial __guarded_by(&lock);
	uint32_t nr_empty __guarded_by(&lock);
	size_t in_use __guarded_by(&lock);
	size_t nr_slabs __guarded_by(&lock);
	size_t size;   /* const: what the caller asked for */
	size_t stride; /* const */
	size_t first;  /* const: offset of the first object in a slab */
	uint32_t per_slab;
	uint32_t order;
	const char *name;
};

struct slab {
	struct list_head link;    /* cache->partial, or on its own when full */
	struct kmem_cache *cache; /* const */
	void *free;               /* cache->lock */
	uint32_t in_use;          /* cache->lock */
};

static const uint16_t class_sizes[] = { 16,  32,  64,  96,   128,  192, 256,
					384, 512, 768, 1024, 1536, 2048 };
static struct kmem_cache classes[ARRAY_SIZE(class_sizes)];
static uint8_t class_of[KMALLOC_MAX / 16 + 1]; /* by size rounded up to 16 */
static struct kmem_cache cache_cache;
static size_t large_bytes; /* atomic */

static const char *const class_names[] = { "kmalloc-16",  "kmalloc-32",   "kmalloc-64",
					   "kmalloc-96",  "kmalloc-128",  "kmalloc-192",
					   "kmalloc-256", "kmalloc-384",  "kmalloc-512",
					   "kmalloc-768", "kmalloc-1024", "kmalloc-1536",
					   "kmalloc-2048" };

static size_t stride_of(size_t size, size_t align)
{
	size = MAX(size, sizeof(void *));
	if (IS_ENABLED(CONFIG_DEBUG))
		size = ALIGN_UP(size, sizeof(uint64_t)) + sizeof(uint64_t);
	return ALIGN_UP(size, align);
}

static void cache_setup(struct kmem_cache *c, const char *name, size_t size, size_t align)
{
	*c = (struct kmem_cache){ .name = name, .size = size };
	spin_lock_init(&c->lock, name, RANK_SLAB);
	list_init(&c->partial);
	c->stride = stride_of(size, align);
	c->first = ALIGN_UP(sizeof(struct slab), align);
	while (c->order < MAX_SLAB_ORDER &&
	       ((PAGE_SIZE << c->order) - c->first) / c->stride < MIN_OBJECTS)
		c->order++;
	while ((PAGE_SIZE << c->order) < c->first + c->stride)
		c->order++; /* an object larger than a slab of the usual orders */
	c->per_slab = (uint32_t)(((PAGE_SIZE << c->order) - c->first) / c->stride);
}

#ifdef CONFIG_DEBUG
static uint64_t *guard_of(const struct kmem_cache *c, void *obj)
{
	return (uint64_t *)((uintptr_t)obj + ALIGN_UP(MAX(c->size, sizeof(void *)), 8));
}

static void debug_set_free(const struct kmem_cache *c, void *obj)
{
	memset(obj, POISON, MIN(c->size, (size_t)DEBUG_SPAN));
	*guard_of(c, obj) = GUARD_FREE;
}

static void debug_on_free(const struct kmem_cache *c, void *obj)
{
	const uint64_t guard = *guard_of(c, obj);

	if (guard == GUARD_FREE)
		panic("%s object %p freed twice", c->name, obj);
	if (guard != GUARD_LIVE)
		panic("%s object %p written past its end (guard %#lx)", c->name, obj, guard);
	debug_set_free(c, obj);
}

static void debug_on_alloc(const struct kmem_cache *c, void *obj)
{
	const uint8_t *p = obj;
	const size_t span = MIN(c->size, (size_t)DEBUG_SPAN);

	if (*guard_of(c, obj) != GUARD_FREE)
		panic("%s free object %p: guard overwritten", c->name, obj);
	for (size_t i = sizeof(void *); i < span; i++) {
		if (p[i] != POISON)
			panic("%s object %p written after it was freed (byte %zu is %#x)", c->name,
			      obj, i, p[i]);
	}
	*guard_of(c, obj) = GUARD_LIVE;
}
#else
static void debug_set_free(const struct kmem_cache *c, void *obj)
{
}
static void debug_on_free(const struct kmem_cache *c, void *obj)
{
}
static void debug_on_alloc(const struct kmem_cache *c, void *obj)
{
}
#endif

static struct slab *slab_create(struct kmem_cache *c)
{
	struct frame *f = frame_alloc(c->order, 0);
	struct slab *s;
	uintptr_t at;

	if (!f)
		return NULL;
	s = frame_to_virt(f);
	*s = (struct slab){ .cache = c };
	list_init(&s->link);
	for (uint32_t i = 0; i < 1u << c->order; i++) {
		f[i].private = (uint64_t)s;
		f[i].tag = TAG_SLAB;
	}
	at = (uintptr_t)s + c->first + c->per_slab * c->stride;
	for (uint32_t i = 0; i < c->per_slab; i++) {
		void *obj = (void *)(at -= c->stride);

		debug_set_free(c, obj);
		*(void **)obj = s->free;
		s->free = obj;
	}
	return s;
}

static void slab_release(struct slab *s)
{
	const uint32_t order = s->cache->order;
	struct frame *f = virt_to_frame(s);

	for (uint32_t i = 0; i < 1u << order; i++) {
		f[i].private = 0;
		f[i].tag = 0;
	}
	frame_free(f, order);
}

static void *take_locked(struct kmem_cache *c) __must_hold(&c->lock)
{
	struct slab *s;
	void *obj;

	assert_spin_held(&c->lock);
	s = list_first_entry_or_null(&c->partial, struct slab, link);
	if (!s)
		return NULL;
	ASSERT(s->cache == c && s->in_use < c->per_slab);
	obj = s->free;
	s->free = *(void **)obj;
	if (s->in_use++ == 0)
		c->nr_empty--;
	if (!s->free)
		list_del(&s->link);
	c->in_use++;
	return obj;
}

void *kmem_cache_alloc(struct kmem_cache *c)
{
	unsigned long flags = spin_lock_irqsave(&c->lock);
	void *obj = take_locked(c);

	if (!obj) {
		struct slab *s;

		spin_unlock_irqrestore(&c->lock, flags);
		s = slab_create(c);
		if (!s)
			return NULL;
		flags = spin_lock_irqsave(&c->lock);
		list_add(&s->link, &c->partial);
		c->nr_empty++;
		c->nr_slabs++;
		obj = take_locked(c);
	}
	spin_unlock_irqrestore(&c->lock, flags);
	debug_on_alloc(c, obj);
	return obj;
}

void kmem_cache_free(struct kmem_cache *c, void *obj)
{
	const struct frame *f;
	struct slab *s;
	struct slab *release = NULL;
	unsigned long flags;

	if (!obj)
		return;
	f = virt_to_frame(obj);
	s = (struct slab *)f->private;
	BUG_ON(f->tag != TAG_SLAB || s->cache != c);
	debug_on_free(c, obj);
	flags = spin_lock_irqsave(&c->lock);
	ASSERT(s->in_use > 0 && c->in_use > 0 && (s->free || s->in_use == c->per_slab));
	if (!s->free)
		list_add(&s->link, &c->partial);
	*(void **)obj = s->free;
	s->free = obj;
	c->in_use--;
	if (--s->in_use == 0) {
		if (c->nr_empty) { /* one empty slab is kept */
			list_del(&s->link);
			c->nr_slabs--;
			release = s;
		} else {
			c->nr_empty++;
		}
	}
	spin_unlock_irqrestore(&c->lock, flags);
	if (release)
		slab_release(release);
}

size_t kmem_cache_in_use(const struct kmem_cache *c)
{
	return READ_ONCE(c->in_use);
}

struct kmem_cache *kmem_cache_create(const char *name, size_t size, size_t align)
{
	struct kmem_cache *c;

	if (size == 0 || size > (PAGE_SIZE << FRAME_LAZY_ORDER) / 2 ||
	    (align && !IS_POWER_OF_2(align)) || align > PAGE_SIZE)
		return NULL;
	c = kmem_cache_alloc(&cache_cache);
	if (c)
		cache_setup(c, name, size, MAX(align, 16ul));
	return c;
}

void kmem_cache_destroy(struct kmem_cache *c)
{
	struct slab *s;
	struct slab *next;

	lock_not_needed(&c->lock, "the owner gives it up");
	if (c->in_use)
		panic("slab cache %s destroyed with %zu objects in use", c->name, c->in_use);
	list_for_each_entry_safe(s, next, &c->partial, link) {
		list_del(&s->link);
		slab_release(s);
	}
	kmem_cache_free(&cache_cache, c);
}

static unsigned int order_of(size_t size)
{
	unsigned int order = 0;

	while ((PAGE_SIZE << order) < size)
		order++;
	return order;
}

static void *large_alloc(size_t size)
{
	struct frame *f;

	if (size > PAGE_SIZE << FRAME_MAX_ORDER)
		return NULL;
	f = frame_alloc(order_of(size), 0);
	if (!f)
		return NULL;
	f->tag = TAG_LARGE;
	f->private = size;
	__atomic_add_fetch(&large_bytes, PAGE_SIZE << f->order, __ATOMIC_RELAXED);
	return frame_to_virt(f);
}

void *kmalloc(size_t size)
{
	if (size > KMALLOC_MAX)
		return large_alloc(size);
	return kmem_cache_alloc(&classes[class_of[(size + 15) / 16]]);
}

void *kzalloc(size_t size)
{
	void *p = kmalloc(size);

	if (p)
		memset(p, 0, size);
	return p;
}

void *kcalloc(size_t n, size_t size)
{
	size_t total;

	if (__builtin_mul_overflow(n, size, &total))
		return NULL;
	return kzalloc(total);
}

void kfree(const void *p)
{
	struct frame *f;

	if (!p)
		return;
	f = virt_to_frame(p);
	if (f->tag == TAG_SLAB) {
		kmem_cache_free(((struct slab *)f->private)->cache, (void *)(uintptr_t)p);
		return;
	}
	BUG_ON(f->tag != TAG_LARGE || ((uintptr_t)p & PAGE_MASK_LOW));
	__atomic_sub_fetch(&large_bytes, PAGE_SIZE << f->order, __ATOMIC_RELAXED);
	f->tag = 0;
	frame_free(f, f->order);
}

size_t ksize(const void *p)
{
	const struct frame *f = virt_to_frame(p);

	if (f->tag == TAG_SLAB)
		return ((const struct slab *)f->private)->cache->size;
	return PAGE_SIZE << f->order;
}

void *krealloc(void *p, size_t size)
{
	void *q;

	if (!p)
		return kmalloc(size);
	if (size <= ksize(p) && size > ksize(p) / 4)
		return p;
	q = kmalloc(size);
	if (!q)
		return NULL;
	memcpy(q, p, MIN(size, ksize(p)));
	kfree(p);
	return q;
}

char *kstrdup(const char *s)
{
	const size_t len = strlen(s) + 1;
	char *d = kmalloc(len);

	if (d)
		memcpy(d, s, len);
	return d;
}

size_t slab_bytes_in_use(void)
{
	size_t sum = __atomic_load_n(&large_bytes, __ATOMIC_RELAXED);

	for (size_t i = 0; i < ARRAY_SIZE(classes); i++)
		sum += READ_ONCE(classes[i].in_use) * classes[i].size;
	return sum;
}

static uint64_t gauge_bytes(void)
{
	return slab_bytes_in_use();
}
GAUGE(slab_gauge, "slab.kmalloc_bytes", "bytes handed out by kmalloc", gauge_bytes);

static const struct lib_alloc_ops lib_ops = {
	.alloc = kmalloc,
	.free = (void (*)(void *))kfree,
};

void slab_init(void)
{
	size_t c = 0;

	for (size_t i = 0; i < ARRAY_SIZE(classes); i++)
		cache_setup(&classes[i], class_names[i], class_sizes[i],
			    class_sizes[i] >= 64 ? 64 : 16);
	for (size_t i = 0; i < ARRAY_SIZE(class_of); i++) {
		while (class_sizes[c] < i * 16)
			c++;
		class_of[i] = (uint8_t)c;
	}
	cache_setup(&cache_cache, "kmem_cache", sizeof(struct kmem_cache), 64);
	lib_alloc_set_ops(&lib_ops);
}
