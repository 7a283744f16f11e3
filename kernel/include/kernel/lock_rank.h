/* SPDX-License-Identifier: MIT */
/*
 * The order of all locks, outermost (smallest number) first.
 *
 * Invariants:	a thread takes locks of rising rank; two locks of one rank are taken in
 *		rising address order, by one helper.  Checked at run time in debug builds
 *		(CONFIG_DEBUG).  The table with meanings is docs/locking.md: a new rank
 *		is added in both.
 *		Ranks below RANK_SPIN_FIRST are for sleeping locks only, the others for
 *		spinlocks only, so that a sleeping lock never nests inside a spinlock.
 */
#pragma once

enum lock_rank {
	/* Sleeping locks: monitors and managers. */
	RANK_MANAGER = 10,     /* tables of a global manager */
	RANK_PSEUDO_FILE = 16, /* an open file of /proc or /sys, while its text is made */
	RANK_PROCESS = 24,     /* one process's Linux state */
	RANK_PROCESS_FS = 26,  /* working directory and umask that tasks share */
	RANK_SYSV_NAMES = 28,  /* one kind of System V IPC: a key gets an object */
	RANK_SYSV = 30,        /* one set of semaphores or message queue */
	RANK_SPLICE = 31,      /* one pipe: a splice of its bytes into a file */
	RANK_FILE = 32,        /* one open file: offset */
	RANK_FILE_DATA = 34,   /* contents of one tmpfs file; held over copies from user memory */
	RANK_RELAY = 35,       /* one relay of the gateway; held over calls of its two sockets */
	RANK_PIPE = 36,        /* one pipe's ring, a socket's ends; held over copies */
	RANK_ASPACE = 44,      /* vmas and page table of one address space */
	RANK_FILE_FLUSH = 48,  /* one file's dirty pages going to storage, at a memory node */
	RANK_FILE_CHANGE = 50, /* the claim, the size and the contents of that file there */
	RANK_MONITOR = 52,     /* other sleeping locks of a monitor */
	RANK_FILE_LOCKS = 54,  /* a storage node's advisory locks */
	RANK_RECLAIM = 56,     /* page table entries that reclaim has changed and not flushed yet */
	/* Sleeping locks: file systems and network. */
	RANK_FS = 60,         /* one mounted file system */
	RANK_FS_INODE = 62,   /* one inode of a file system on a disk */
	RANK_FS_ORPHAN = 64,  /* ext4: the list of orphans */
	RANK_FS_GROUP = 66,   /* ext4: bitmaps and descriptor of a block group */
	RANK_FS_RAW = 67,     /* ext4: the bytes of an inode in its table */
	RANK_FS_SUPER = 68,   /* ext4: the superblock */
	RANK_FS_JOURNAL = 70, /* the tail of a journal: checkpoints */
	RANK_FS_MMP = 71,     /* ext4: the mark that a disk is in use */
	RANK_NET = 72,        /* connection tables, set-up and tear-down */
	RANK_NET_STACK = 74,  /* the TCP/IP stack to the outside */
	RANK_NET_PEER = 76,   /* one peer or session */
	RANK_NET_SETUP = 80,  /* connection set-up of the RPC layer */
	RANK_CM = 81,         /* connection manager: one port's connections */
	RANK_MAD = 82,        /* ports open for management datagrams */
	RANK_CTL = 82,        /* control channel: whole frames on the wire */
	/* Sleeping locks: drivers and below. */
	RANK_RDMA = 84,        /* verbs objects: create, destroy */
	RANK_RDMA_DEVICE = 85, /* an RDMA device, against its recovery */
	RANK_RDMA_ICM = 86,    /* an RDMA device's context memory */
	RANK_DRIVER = 88,      /* one device: slow path, command queue */

	RANK_SPIN_FIRST = 100,
	/* Spinlocks: monitors. */
	RANK_SOCKET_TABLE = 104,   /* ports and names of sockets */
	RANK_SPIN_SOCKET = 106,    /* state and queue of one socket; descriptors on their way */
	RANK_SPIN_MONITOR = 110,   /* short tables of a monitor */
	RANK_SPIN_TREE = 112,      /* pid table, process tree, groups, sessions of a vNode */
	RANK_SPIN_TASK = 114,      /* signal queues, per-task state */
	RANK_SPIN_SIGHAND = 116,   /* signal dispositions; counts of queued signals */
	RANK_INHERIT = 117,        /* who waits for whose mutex, and lends priority */
	RANK_EXCACHE_WB = 118,     /* write-back queue */
	RANK_EXCACHE_SET = 120,    /* ways, tags and mappings of the lines of one excache set */
	RANK_EXCACHE_OBJECT = 124, /* lines of one object */
	RANK_SPIN_ASPACE = 128,    /* page table, vma and vRegion copies of one address space */
	RANK_EXCACHE_FREE = 130,   /* free lines, credits */
	RANK_SPIN_CACHE = 134,     /* page cache of files; an owner's page table */
	RANK_MEM_POOL = 138,       /* free frames and accounts of a memory monitor */
	/* Spinlocks: file systems, network, drivers. */
	RANK_SPIN_JOURNAL = 148, /* transactions of a journal */
	RANK_SPIN_FS = 150,
	RANK_SPIN_NET = 160,  /* peer tables */
	RANK_SPIN_RPC = 164,  /* slots of one session */
	RANK_NET_QP = 168,    /* send queue of one connection */
	RANK_SPIN_RDMA = 172, /* verbs tables of a provider */
	RANK_RDMA_QP = 174,   /* one QP's work queues */
	RANK_RDMA_CQ = 176,   /* one CQ's consumer index */
	RANK_SPIN_DRIVER = 180,
	RANK_SPIN_QUEUE = 184, /* one device queue */
	/* Spinlocks: kernel and mm. */
	RANK_WORK = 200,      /* one work queue */
	RANK_SLEEPER = 204,   /* inside a mutex, rwsem or completion */
	RANK_WAITQUEUE = 208, /* one wait queue */
	RANK_EPOLL = 210, /* one epoll instance; inside the wait queue of a file that it watches */
	RANK_VMALLOC = 212,    /* kernel address ranges and tables */
	RANK_SLAB = 216,       /* one slab cache */
	RANK_FRAME_POOL = 220, /* free lists of the frame allocator */
	RANK_THREADS = 226,    /* list of all threads */
	RANK_RUNQUEUE = 228,   /* one CPU's run queue */
	RANK_IRQ = 232,        /* vector table */
	RANK_TIMER = 240,      /* one CPU's timer tree */
	RANK_RANDOM = 244,
	RANK_CONSOLE = 250, /* leaf: printk may run under any lock above */
	RANK_LEAF = 254,    /* guards a few lines that call nothing but device registers */
	RANK_MMIO = 255,    /* inside the mmio_ accessors, when that quirk is on */
};
