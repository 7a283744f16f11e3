# SPDX-License-Identifier: MIT
# lwIP's own unit tests, and the stack and the port once more with the options of lwip/. Headers of
# lwIP count as the system's, and include these options: -MMD would not tell of them.
prog-y += lwip
lwip_unit := $(addprefix core/test_,def netif pbuf timers) dhcp/test_dhcp \
	etharp/test_etharp ip4/test_ip4 ip6/test_ip6 tcp/tcp_helper tcp/test_tcp tcp/test_tcp_oos \
	udp/test_udp
lwip-objs := lwip_unit/stack.o lwip_unit/lwip_unit_test.o lwip_unit/lwip_window_test.o \
	$(addprefix lwip_unit/src/,$(lwip_objects)) \
	$(patsubst %,lwip_unit/test/%.o,$(lwip_unit))
lwip-libs := -Wl,--wrap=sys_now

lwip_unit_includes := -I$(srctree)/test/host/lwip -I$(lwip)/test/unit $(lwip_includes)
lwip_unit_cc = $(HOSTCC) -MD -MP -MT $@ $(lwip_unit_includes) $(HOST_CPPFLAGS)
lwip_unit_theirs = $(lwip_unit_cc) -w \
	$(filter-out $(warnings) $(werror) -fsanitize=%,$(HOST_CFLAGS)) \
	-fsanitize=address -c -o $@ $<

$(O)/obj/lwip_unit/stack.o: $(srctree)/net/lwip/stack.c $(flags_stamp) $(autoconf)
	@mkdir -p $(@D)
	$(call cmd,HOSTCC,lwip_unit/$(@F),$(lwip_unit_cc) $(HOST_CFLAGS) -c -o $@ $<)
$(O)/obj/lwip_unit/%_test.o: $(srctree)/test/host/%_test.c $(flags_stamp) $(autoconf)
	@mkdir -p $(@D)
	$(call cmd,HOSTCC,lwip_unit/$(@F),$(lwip_unit_cc) $(HOST_CFLAGS) -c -o $@ $<)
$(O)/obj/lwip_unit/src/%.o: $(lwip)/src/%.c $(flags_stamp) $(autoconf)
	@mkdir -p $(@D)
	$(call cmd,HOSTCC,lwip_unit/$*.o,$(lwip_unit_theirs))
$(O)/obj/lwip_unit/test/%.o: $(lwip)/test/unit/%.c $(flags_stamp) $(autoconf)
	@mkdir -p $(@D)
	$(call cmd,HOSTCC,lwip_unit/$*.o,$(lwip_unit_theirs))
