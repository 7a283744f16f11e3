# SPDX-License-Identifier: MIT
# The HCA model's core, driven by two guests without a machine (tools/hca/fixture.c).
prog-y += hca
hca-objs := $(patsubst %,tools/hca/%.o,bar blueflame cmd cmd_sys cq eq fabric fault icm inject log \
	mcg mem mpt pcap pci port qp qp_cmd rc sa sm sma srq stats stream ud wait wqe \
	fixture bf_test cmd_test fault_test rc_test cq_test mad_test)
