/* SPDX-License-Identifier: MIT */
/*
 * Our patches of lwIP's TCP, by the helpers of lwIP's unit tests: lwip_unit_test.c runs these.
 */
#include <lwip_check.h>
#include <string.h>
#include <tcp/tcp_helper.h>

#include <lwip/netif.h>
#include <lwip/priv/tcp_priv.h>
#include <lwip/stats.h>

Suite *window_suite(void);

/* A window that closes without new bytes or confirmations is heard of; one that shrinks is not. */
START_TEST(a_window_closes)
{
	struct test_tcp_txcounters sent = { 0 };
	struct test_tcp_counters counters = { 0 };
	static const char bytes[100];
	struct netif netif;
	struct tcp_pcb *pcb;
	tcpwnd_size_t window;

	test_tcp_init_netif(&netif, &sent, &test_local_ip, &test_netmask);
	pcb = test_tcp_new_counters_pcb(&counters);
	EXPECT_RET(pcb != NULL);
	tcp_set_state(pcb, ESTABLISHED, &test_local_ip, &test_remote_ip, TEST_LOCAL_PORT,
		      TEST_REMOTE_PORT);
	pcb->cwnd = pcb->snd_wnd;
	pcb->snd_wl1 = pcb->rcv_nxt;
	pcb->snd_wl2 = pcb->lastack;
	window = pcb->snd_wnd;
	EXPECT_RET(window > 1000);
	test_tcp_input(tcp_create_rx_segment_wnd(pcb, NULL, 0, 0, 0, TCP_ACK, 1000), &netif);
	EXPECT(pcb->snd_wnd == window);
	test_tcp_input(tcp_create_rx_segment_wnd(pcb, NULL, 0, 0, 0, TCP_ACK, 0), &netif);
	EXPECT(pcb->snd_wnd == 0);
	EXPECT(tcp_write(pcb, bytes, sizeof(bytes), TCP_WRITE_FLAG_COPY) == ERR_OK);
	EXPECT(tcp_output(pcb) == ERR_OK);
	EXPECT(sent.num_tx_calls == 0);
	test_tcp_input(tcp_create_rx_segment_wnd(pcb, NULL, 0, 0, 0, TCP_ACK, 1000), &netif);
	EXPECT(pcb->snd_wnd == 1000);
	EXPECT(sent.num_tx_calls == 1);
	tcp_abort(pcb);
}
END_TEST

Suite *window_suite(void)
{
	testfunc tests[] = { TESTFUNC(a_window_closes) };

	return create_suite("WINDOW", tests, 1, NULL, NULL);
}
