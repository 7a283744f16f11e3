# SPDX-License-Identifier: MIT
# Fuzzers of the HCA model (tools/hca).
hca-fuzz-core := $(patsubst %,tools/hca/%.o,bar blueflame cmd cmd_sys cq eq fabric fault icm \
	inject log mcg mem mpt pcap pci port qp qp_cmd rc sa sm sma srq stats stream ud wait wqe)

hca_cmd_fuzz-objs := tools/hca/fixture.o $(hca-fuzz-core)
hca_mad_fuzz-objs := tools/hca/fixture.o $(hca-fuzz-core)
hca_wqe_fuzz-objs := tools/hca/fixture.o $(hca-fuzz-core)
hca_mpqemu_fuzz-objs := $(hca-fuzz-core) $(patsubst %,tools/hca/%.o,control loop mpqemu qtest)
hca_vfio_fuzz-objs := $(hca-fuzz-core) $(patsubst %,tools/hca/%.o,loop vfio)
