/* SPDX-License-Identifier: MIT */
/*
 * tessera-hca: a ConnectX-3 for each VM, and the InfiniBand subnet between them.
 *
 * The process needs no privilege: it drops its capabilities, cannot gain new
 * ones, and dies with its parent.
 * See:	docs/tools/hca.md
 */
#include "loop.h"

#include <getopt.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PCAP_DEFAULT_MIB 64u
#define PCAP_MAX_MIB     (1u << 20)

static const char usage[] =
	"usage: tessera-hca --vm fd=N,qtest=PATH|fd:N[,lid=L][,guid=G][,name=S] [--vm ...]\n"
	"                   [--vfio-user PATH[,lid=L][,guid=G][,name=S] ...]\n"
	"                   [--control PATH] [--scenario FILE] [--log FILE] [--spin US]\n"
	"                   [--pcap FILE[,max=MIB]] [--blueflame] [--stay]\n"
	"                   [--no-die-with-parent]\n";

struct signals {
	struct watch w;
	struct loop *loop;
};

static void signal_ready(struct watch *w, uint32_t events)
{
	(void)events;
	container_of(w, struct signals, w)->loop->quit = true;
}

static void signal_release(struct watch *w)
{
	(void)w;
}

static bool watch_signals(struct loop *l, struct signals *s)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	sigprocmask(SIG_BLOCK, &set, NULL);
	signal(SIGPIPE, SIG_IGN);
	s->loop = l;
	s->w = (struct watch){ .fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK),
			       .ready = signal_ready,
			       .release = signal_release };
	return s->w.fd >= 0 && loop_add(l, &s->w, EPOLLIN);
}

static struct fabric *guarded;

/* Is @addr in the memory of some guest? */
static bool is_guest_memory(const uint8_t *addr)
{
	for (unsigned i = 0; i < guarded->nr_hcas; i++) {
		const struct guest_mem *m = guarded->hcas[i] ? &guarded->hcas[i]->mem : NULL;

		for (unsigned k = 0; m && k < m->nr; k++) {
			const uint8_t *map = m->r[k].map;

			if (map && addr >= map && addr < map + m->r[k].map_len)
				return true;
		}
	}
	return false;
}

/*
 * A page whose file was shortened by the VM that shared it: put a page of zeroes in
 * its place, which nobody else sees, and go on.  Anything else ends the process.
 */
static void bus_error(int sig, siginfo_t *info, void *context)
{
	void *page = (void *)((uintptr_t)info->si_addr & ~(uintptr_t)4095);

	(void)context;
	if (info->si_code == BUS_ADRERR && is_guest_memory(info->si_addr) &&
	    mmap(page, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
		 0) == page)
		return;
	signal(sig, SIG_DFL);
	raise(sig);
}

static void guard_guest_memory(struct fabric *f)
{
	struct sigaction sa = { .sa_sigaction = bus_error, .sa_flags = SA_SIGINFO };

	guarded = f;
	sigemptyset(&sa.sa_mask);
	sigaction(SIGBUS, &sa, NULL);
}

static void drop_privileges(void)
{
	struct __user_cap_header_struct hdr = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct none[2] = { 0 };
	struct rlimit rl;

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		model_log("no_new_privs: %m");
	if (syscall(SYS_capset, &hdr, none))
		model_log("cannot drop capabilities: %m");
	if (getrlimit(RLIMIT_NOFILE, &rl) == 0) {
		rl.rlim_cur = rl.rlim_max; /* a few descriptors for each VM */
		(void)setrlimit(RLIMIT_NOFILE, &rl);
	}
}

/* False: the parent is gone already. */
static bool die_with_parent(pid_t parent)
{
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	return getppid() == parent;
}

enum {
	OPT_VM = 256,
	OPT_VFIO,
	OPT_CONTROL,
	OPT_SCENARIO,
	OPT_LOG,
	OPT_PCAP,
	OPT_FLAME,
	OPT_SPIN,
	OPT_STAY,
	OPT_ORPHAN,
	OPT_HELP,
};

static const struct option options[] = {
	{ "vm", required_argument, NULL, OPT_VM },
	{ "vfio-user", required_argument, NULL, OPT_VFIO },
	{ "control", required_argument, NULL, OPT_CONTROL },
	{ "scenario", required_argument, NULL, OPT_SCENARIO },
	{ "log", required_argument, NULL, OPT_LOG },
	{ "pcap", required_argument, NULL, OPT_PCAP },
	{ "blueflame", no_argument, NULL, OPT_FLAME },
	{ "spin", required_argument, NULL, OPT_SPIN },
	{ "stay", no_argument, NULL, OPT_STAY },
	{ "no-die-with-parent", no_argument, NULL, OPT_ORPHAN },
	{ "help", no_argument, NULL, OPT_HELP },
	{ NULL, 0, NULL, 0 },
};

static bool add_vm(struct loop *l, const char *arg)
{
	struct vm_options o;
	char *copy = strdup(arg);
	const char *why = "no memory";
	bool good = copy && vm_options_parse(copy, &o, &why);

	if (!good)
		fprintf(stderr, "tessera-hca: --vm %s: bad or missing %s\n", arg, why);
	else if (!(good = vm_attach(l, &o, &why)))
		fprintf(stderr, "tessera-hca: --vm %s: %s\n", arg, why);
	free(copy);
	return good;
}

/* PATH[,lid=L][,guid=G][,name=S] */
static bool add_vfio(struct loop *l, char *path)
{
	char *opts = strchr(path, ',');
	const char *why = path;
	struct vm_options o = { .fd = -1 };
	struct vfio_dev *d;
	bool fd = false;

	if (opts) {
		*opts++ = '\0';
		fd = !strncmp(opts, "fd", 2) || strstr(opts, ",fd");
		(void)vm_options_parse(opts, &o, &why); /* all but the descriptor */
		if (strcmp(why, "fd") || fd || o.qtest[0]) {
			fprintf(stderr, "tessera-hca: --vfio-user %s: bad option %s\n", path, why);
			return false;
		}
	}
	d = vfio_create(l, &o, &why);
	if (d && vfio_listen(d, path))
		return true;
	if (d)
		fprintf(stderr, "tessera-hca: --vfio-user %s: %m\n", path);
	else
		fprintf(stderr, "tessera-hca: --vfio-user %s: %s\n", path, why);
	return false;
}

/* FILE[,max=MIB] */
static bool start_capture(struct fabric *f, char *arg)
{
	char *max = strstr(arg, ",max="), *end;
	unsigned long long mib = PCAP_DEFAULT_MIB;

	if (max) {
		mib = strtoull(max + 5, &end, 10);
		if (*end || end == max + 5 || mib == 0 || mib > PCAP_MAX_MIB) {
			fprintf(stderr, "tessera-hca: --pcap: max= is 1 to %u MiB\n", PCAP_MAX_MIB);
			return false;
		}
		*max = '\0';
	}
	if (pcap_open(f, arg, mib << 20))
		return true;
	fprintf(stderr, "tessera-hca: --pcap %s: %m\n", arg);
	return false;
}

static bool parse_options(struct loop *l, int argc, char **argv, bool *orphan)
{
	int opt;

	while ((opt = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (opt) {
		case OPT_VM:
			if (!add_vm(l, optarg))
				return false;
			break;
		case OPT_VFIO:
			if (!add_vfio(l, optarg))
				return false;
			break;
		case OPT_CONTROL:
			if (!control_listen(l, optarg)) {
				fprintf(stderr, "tessera-hca: --control %s: %m\n", optarg);
				return false;
			}
			break;
		case OPT_SCENARIO:
			if (!scenario_start(l, optarg))
				return false;
			break;
		case OPT_LOG:
			log_open(optarg);
			break;
		case OPT_PCAP:
			if (!start_capture(l->fabric, optarg))
				return false;
			break;
		case OPT_FLAME:
			l->fabric->blueflame = true;
			break;
		case OPT_SPIN:
			l->spin_ns = strtoull(optarg, NULL, 10) * NSEC_PER_USEC;
			break;
		case OPT_STAY:
			l->stay = true;
			break;
		case OPT_ORPHAN:
			*orphan = true;
			break;
		default:
			fputs(usage, stderr);
			return false;
		}
	}
	if (optind != argc || (l->nr_vms == 0 && !l->stay)) {
		fputs(usage, stderr);
		return false;
	}
	return true;
}

int main(int argc, char **argv)
{
	const pid_t parent = getppid();
	struct fabric *f = fabric_create();
	struct signals signals;
	bool orphan = false;
	struct loop l;

	if (!f || !loop_init(&l, f) || !watch_signals(&l, &signals)) {
		fprintf(stderr, "tessera-hca: %m\n");
		return 1;
	}
	if (!parse_options(&l, argc, argv, &orphan)) {
		control_close();
		vfio_close_all();
		return 2;
	}
	guard_guest_memory(f);
	drop_privileges();
	if (orphan || die_with_parent(parent))
		loop_run(&l);
	control_close();
	vfio_close_all();
	fabric_destroy(f);
	return 0;
}
