/* SPDX-License-Identifier: MIT */
/* RPC: counters and histograms. */
#include "dgram.h"

COUNTER_GLOBAL(rpc_c_req_sent, "rpc.requests", "requests sent, repetitions included");
COUNTER_GLOBAL(rpc_c_req_received, "rpc.requests_received", "requests received");
COUNTER_GLOBAL(rpc_c_rep_sent, "rpc.replies", "replies sent");
COUNTER_GLOBAL(rpc_c_rep_received, "rpc.replies_received", "replies received");
COUNTER_GLOBAL(rpc_c_bytes_sent, "rpc.bytes", "bytes of headers and bodies sent");
COUNTER_GLOBAL(rpc_c_bulk_sent, "rpc.bulk_bytes",
	       "bytes of bulk and of reply data sent straight from where they lie");
COUNTER_GLOBAL(rpc_c_bytes_copied, "rpc.copied_bytes", "bytes of bodies copied by the CPU");
COUNTER_GLOBAL(rpc_c_doorbells, "rpc.doorbells",
	       "doorbells: one a message, or one for all that a poll sends on a connection");
COUNTER_GLOBAL(rpc_c_work_requests, "rpc.work_requests", "work requests posted");
COUNTER_GLOBAL(rpc_c_merged, "rpc.merged",
	       "pieces of data, of a request or a reply, that were joined with their neighbour");
COUNTER_GLOBAL(rpc_c_interrupts, "rpc.interrupts", "completion events");
COUNTER_GLOBAL(rpc_c_arms, "rpc.arms", "times that the completion queue was armed");
COUNTER_GLOBAL(rpc_c_polls, "rpc.polls", "times that the completion queue was looked at");
COUNTER_GLOBAL(rpc_c_spins_won, "rpc.spins_won", "waits that ended while the caller was polling");
COUNTER_GLOBAL(rpc_c_spins_lost, "rpc.spins_lost", "waits in which polling was given up");
COUNTER_GLOBAL(rpc_c_rests, "rpc.rests",
	       "times that a CPU with nothing else to do rested until the device had something");
COUNTER_GLOBAL(rpc_c_sleeps, "rpc.sleeps", "waits that went to sleep");
COUNTER_GLOBAL(rpc_c_serve_spins_won, "rpc.serve_spins_won",
	       "next request came while the server was polling");
COUNTER_GLOBAL(rpc_c_late_rings, "rpc.late_rings",
	       "doorbells for replies that waited in vain for a message to go with");
COUNTER_GLOBAL(rpc_c_serve_spins_lost, "rpc.serve_spins_lost", "the server polled in vain");
COUNTER_GLOBAL(rpc_c_lazy_sleeps, "rpc.lazy_sleeps", "times that re-arming was put off");
COUNTER_GLOBAL(rpc_c_inline, "rpc.inline", "requests answered in polling context");
COUNTER_GLOBAL(rpc_c_dispatched, "rpc.dispatched", "requests handed to a worker thread");
COUNTER_GLOBAL(rpc_c_worker_threads, "rpc.worker_threads", "worker threads made");
COUNTER_GLOBAL(rpc_c_resent, "rpc.retries", "requests sent again on a new connection");
COUNTER_GLOBAL(rpc_c_dup_busy, "rpc.dup_busy",
	       "repeated requests whose first copy was being served");
COUNTER_GLOBAL(rpc_c_dup_answered, "rpc.dup_answered",
	       "repeated requests answered from the remembered reply");
COUNTER_GLOBAL(rpc_c_dup_rerun, "rpc.dup_rerun",
	       "repeated requests of idempotent handlers that were run again");
COUNTER_GLOBAL(rpc_c_dup_old, "rpc.dup_old", "repeated requests that nobody waits for any more");
COUNTER_GLOBAL(rpc_c_late_replies, "rpc.late_replies",
	       "replies that came after their call had been given up");
COUNTER_GLOBAL(rpc_c_orphans, "rpc.orphans",
	       "replies not sent because nobody waits for them any more");
COUNTER_GLOBAL(rpc_c_refused, "rpc.refused",
	       "requests not run, as too many of their sender are being served");
COUNTER_GLOBAL(rpc_c_behind, "rpc.behind",
	       "requests refused because their sender has an older view than this node");
COUNTER_GLOBAL(rpc_c_refusals, "rpc.refusals", "requests of ours that a peer did not run yet");
COUNTER_GLOBAL(rpc_c_timeouts, "rpc.timeouts", "calls that passed their deadline");
COUNTER_GLOBAL(rpc_c_cancels, "rpc.cancels", "calls that were cancelled");
COUNTER_GLOBAL(rpc_c_quarantined, "rpc.quarantined", "slots put into quarantine");
COUNTER_GLOBAL(rpc_c_quarantine_resets, "rpc.quarantine_resets",
	       "connections reset to free slots in quarantine");
COUNTER_GLOBAL(rpc_c_released, "rpc.released", "slots that left quarantine");
COUNTER_GLOBAL(rpc_c_no_slot, "rpc.no_slot", "submits refused because no slot or window was free");
COUNTER_GLOBAL(rpc_c_sq_full, "rpc.sq_full", "posts put off because the send queue was full");
COUNTER_GLOBAL(rpc_c_connects, "rpc.connects", "connections established");
COUNTER_GLOBAL(rpc_c_reconnects, "rpc.reconnects", "connections established again after a break");
COUNTER_GLOBAL(rpc_c_breaks, "rpc.breaks", "connections that broke");
COUNTER_GLOBAL(rpc_c_crossed, "rpc.crossed",
	       "set-ups given up because both sides connected at once");
COUNTER_GLOBAL(rpc_c_rejected, "rpc.rejected", "connection requests refused");
COUNTER_GLOBAL(rpc_c_malformed, "rpc.malformed", "messages and private data refused as malformed");
COUNTER_GLOBAL(rpc_c_stale, "rpc.stale", "messages and connections of another incarnation");
COUNTER_GLOBAL(rpc_c_probes, "rpc.probes", "connections probed while a call waited on them");
COUNTER_GLOBAL(rpc_c_flush_writes, "rpc.flush_writes",
	       "empty WRITEs sent to learn that earlier replies were delivered");

COUNTER_GLOBAL(rpc_c_access_refused, "rpc.access_refused",
	       "accesses of peers to memory that they were not given");
COUNTER_GLOBAL(rpc_c_auth_refused, "rpc.auth_refused",
	       "connections refused because the other side has no key of the cluster");
COUNTER_GLOBAL(rpc_c_wrong_role, "rpc.wrong_role",
	       "requests refused because nodes in the sender's role may not make them");
COUNTER_GLOBAL(rpc_c_expired, "rpc.expired",
	       "requests not executed: their sender had stopped to wait, or had been fenced");
COUNTER_GLOBAL(rpc_c_access_errors, "rpc.access_errors",
	       "accesses of this node that a peer has refused");

COUNTER_GLOBAL(rpc_c_dgram_sent, "rpc.datagram.sent", "requests sent by datagram, first attempts");
COUNTER_GLOBAL(rpc_c_dgram_resent, "rpc.datagram.resent", "the same, repetitions");
COUNTER_GLOBAL(rpc_c_dgram_received, "rpc.datagram.received",
	       "requests received by datagram from those whom they name, repetitions included");
COUNTER_GLOBAL(rpc_c_dgram_answered, "rpc.datagram.answered", "replies sent by datagram");
COUNTER_GLOBAL(rpc_c_dgram_replies, "rpc.datagram.replies", "replies that ended a call");
COUNTER_GLOBAL(rpc_c_dgram_late, "rpc.datagram.late",
	       "replies that nobody waits for: the second one, or after the deadline");
COUNTER_GLOBAL(rpc_c_dgram_timeouts, "rpc.datagram.timeouts", "calls that passed their deadline");
COUNTER_GLOBAL(rpc_c_dgram_dropped, "rpc.datagram.dropped",
	       "datagrams that found no buffer to be served in or to be sent from");
COUNTER_GLOBAL(rpc_c_dgram_stale, "rpc.datagram.stale", "datagrams of or for another incarnation");
COUNTER_GLOBAL(rpc_c_dgram_forged, "rpc.datagram.forged",
	       "datagrams that did not come from where the node that they name sends them");
COUNTER_GLOBAL(rpc_c_dgram_renewed, "rpc.datagram.renewed",
	       "new queue pairs for datagrams, after an error or a reset of the device");
COUNTER_GLOBAL(rpc_c_dgram_malformed, "rpc.datagram.malformed", "datagrams that make no sense");

HISTOGRAM_GLOBAL(rpc_h_handler, "rpc.handler_ns", "time from a request's arrival to its reply");

HISTOGRAM_GLOBAL(rpc_h_dgram_latency, "rpc.latency_ns.datagram",
		 "time from an attempt to its reply, calls by datagram");

HISTOGRAM(lat_control, "rpc.latency_ns.control", "round trip of a control call");
HISTOGRAM(lat_demand, "rpc.latency_ns.demand", "round trip of a demand call");
HISTOGRAM(lat_prefetch, "rpc.latency_ns.prefetch", "round trip of a prefetch call");
HISTOGRAM(lat_writeback, "rpc.latency_ns.writeback", "round trip of a write-back call");

HISTOGRAM(lat_read, "rpc.latency_ns.read", "time of a one-sided read");
HISTOGRAM(lat_ahead, "rpc.latency_ns.ahead", "time of a one-sided read ahead");
COUNTER_GLOBAL(rpc_c_reads, "rpc.reads", "one-sided reads posted");
COUNTER_GLOBAL(rpc_c_read_refused, "rpc.reads_refused",
	       "one-sided reads that the peer's device refused");

HISTOGRAM_GLOBAL(rpc_h_wake_demand, "rpc.wake_ns.demand",
		 "from the reply of a demand call to its sleeping caller running");

const struct histogram *const rpc_h_latency[RPC_NR_CLASSES] = {
	[RPC_CLASS_CONTROL] = &lat_control,   [RPC_CLASS_DEMAND] = &lat_demand,
	[RPC_CLASS_PREFETCH] = &lat_prefetch, [RPC_CLASS_WRITEBACK] = &lat_writeback,
	[RPC_CLASS_READ] = &lat_read,         [RPC_CLASS_READ_AHEAD] = &lat_ahead,
};

static uint64_t outstanding(void)
{
	return (uint64_t)atomic_read(&rpc_net.nr_outstanding);
}
GAUGE(outstanding_gauge, "rpc.outstanding", "calls that wait for their replies, or for a slot",
      outstanding);
