# SPDX-License-Identifier: MIT
# Linux's numbers and structures in <abi/...>, against the installed headers.
prog-y   += abi
abi-objs := test/host/abi_test.o test/host/abi_uapi.o test/host/abi_libc.o

abi_headers := $(wildcard $(srctree)/lib/include/abi/*.h)
abi_numbers := $(O)/include/generated/abi_numbers.h

abi_undef := $(O)/include/generated/abi_undef.h
$(abi_numbers) $(abi_undef): $(srctree)/test/host/gen-abi-numbers.sh $(abi_headers)
	@mkdir -p $(@D)
	$(call cmd,GEN,$(@F),$< $(basename $(@F)) $(abi_headers) > $@)

$(addprefix $(O)/obj/,$(abi-objs)): | $(abi_numbers) $(abi_undef)
