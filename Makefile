# SPDX-License-Identifier: MIT
#
# Tessera: what people type. `make help` lists it.
#
# One kernel image is built by scripts/build.mk, once per role; this file calls it, and the
# scripts behind the other targets. Everything that is built lands under $(O).

SHELL := /bin/bash
.SUFFIXES:
MAKEFLAGS += --no-print-directory
.DEFAULT_GOAL := all

srctree := $(patsubst %/,%,$(dir $(abspath $(lastword $(MAKEFILE_LIST)))))
ROLES := processor memory storage

O ?= build
override O := $(abspath $(O))
V ?= 0
JOBS ?= $(shell nproc)
T ?= *
SECONDS ?= 10
Q := $(if $(filter 1,$(V)),,@)

ifneq ($(ROLE),)
ifeq ($(filter $(ROLE),$(ROLES)),)
$(error ROLE=$(ROLE) is not one of: $(ROLES))
endif
endif
roles := $(or $(ROLE),$(ROLES))

# Variables of the user's that the inner makes read (from the command line they travel anyway).
export V CROSS_COMPILE LLVM WERROR UBSAN KTEST DEBUG
# Shell variables of the same name must not leak in as SECONDS does in bash.
unexport SECONDS

# Sub-makes share this make's job slots; without any (-j not given) they get one per CPU.
jobs = $(if $(findstring jobserver,$(MAKEFLAGS)),,-j$(JOBS))
build = $(MAKE) $(jobs) -f $(srctree)/scripts/build.mk srctree=$(srctree) ROLE=$(1) O=$(O)/$(1)

VENV := $(srctree)/build/venv
PYTHON := $(VENV)/bin/python3
venv_stamp := $(VENV)/.stamp

# --- build

# The builds of the roles share objects: one after the other, each with all the jobs, and behind
# those of another make.
.NOTPARALLEL:

PHONY += all images tools $(ROLES)
all: images tools
images: $(roles)

$(ROLES): $(venv_stamp)
	$(Q)+mkdir -p $(O) && flock $(O)/.lock $(call build,$@) all

tools: $(venv_stamp)
	$(Q)+$(MAKE) $(jobs) -f $(srctree)/scripts/tools.mk srctree=$(srctree) O=$(O)

# The project's own Python packages, pinned by requirements.txt.
$(venv_stamp): $(srctree)/requirements.txt
	$(Q)$(srctree)/scripts/make-venv.sh $(VENV) $<

PHONY += venv
venv: $(venv_stamp)

# --- configuration

PHONY += defconfig menuconfig savedefconfig olddefconfig
defconfig olddefconfig savedefconfig: $(venv_stamp)
	$(Q)+for role in $(roles); do $(call build,$$role) $@ || exit; done

menuconfig: $(venv_stamp)
	$(if $(ROLE),,$(error menuconfig wants one role: make menuconfig ROLE=processor))
	$(Q)+$(call build,$(ROLE)) menuconfig

# --- run

PHONY += run
run: all
	$(Q)O=$(O) $(srctree)/scripts/demo.sh

PHONY += gdb
gdb: all
	$(Q)$(srctree)/scripts/gdb/connect.sh $(O) $(or $(NODE),p0)

# --- test

# Install the packages that the machine lacks; less than a second when it lacks none.
install_deps = $(srctree)/scripts/install-deps.sh

run_tests = O=$(O) MAKE="$(MAKE)" $(PYTHON) $(srctree)/scripts/run-tests.py

pytest = cd $(srctree) && O=$(O) $(PYTHON) -m pytest -q -p no:cacheprovider --durations=20 \
	$(if $(filter-out *,$(T)),-k '$(T)')
two_at_a_time = $(if $(filter-out *,$(T)),,-n 2)

PHONY += test test-long test-host test-kernel test-boot test-fs test-launcher test-scripts
PHONY += fuzz bench
test: $(venv_stamp)
	$(Q)$(if $(PARTS),,$(install_deps))
	$(Q)$(run_tests) test

test-long: $(venv_stamp)
	$(Q)$(if $(PARTS),,$(install_deps))
	$(Q)$(run_tests) long

test-host: $(venv_stamp)
	$(Q)+$(MAKE) $(jobs) -f $(srctree)/test/host/build.mk srctree=$(srctree) O=$(O)/host \
		T='$(T)' CASES='$(CASES)' run

test-kernel: images tools
	$(Q)O=$(O) $(PYTHON) $(srctree)/test/boot/run-ktest.py --roles '$(roles)' --filter '$(T)' \
		$(if $(CPUS),--cpus $(CPUS))

test-boot: all
	$(Q)$(pytest) \
		$(if $(LONG),--long,$(if $(CASES),,$(two_at_a_time) --dist loadfile)) \
		$(if $(CASES),@$(CASES),test/boot)

test-fs: tools
	$(Q)$(pytest) $(two_at_a_time) test/fs

test-launcher: $(venv_stamp)
	$(Q)$(pytest) test/launcher

test-scripts: $(venv_stamp)
	$(Q)$(pytest) test/scripts

fuzz: $(venv_stamp)
	$(Q)+$(MAKE) $(jobs) -f $(srctree)/test/fuzz/build.mk srctree=$(srctree) O=$(O)/fuzz \
		T='$(T)' FUZZ_SECONDS=$(SECONDS) run

# Measure the release build: without the run-time checks of our own rules.
bench: $(venv_stamp)
	$(Q)$(install_deps)
	$(Q)+$(MAKE) O=$(O)/release DEBUG=n KTEST=n all
	$(Q)O=$(O)/release $(PYTHON) $(srctree)/test/bench/run.py

# --- checks

checks := format layers headers docs spdx signposts assertions voice locks sparse
PHONY += check $(addprefix check-,$(checks)) format tidy
check: $(addprefix check-,$(checks))

check-format: $(venv_stamp)
	$(Q)$(PYTHON) $(srctree)/scripts/check-format.py --root $(srctree) \
		--tool $(VENV)/bin/clang-format

format: $(venv_stamp)
	$(Q)$(PYTHON) $(srctree)/scripts/check-format.py --root $(srctree) \
		--tool $(VENV)/bin/clang-format --fix

# These need nothing but the sources.
check-layers check-docs check-spdx check-signposts check-assertions check-voice:
	$(Q)python3 $(srctree)/scripts/$@.py --root $(srctree)

# T=FOLDER: that folder only.
check-locks: $(venv_stamp)
	$(Q)+for role in $(ROLES); do $(call build,$$role) commands || exit; done
	$(Q)$(PYTHON) $(srctree)/scripts/check-locks.py --root $(srctree) \
		--build $(O) $(filter-out *,$(T))

check-sparse: $(venv_stamp)
	$(Q)$(install_deps) test
	$(Q)+for role in $(ROLES); do $(call build,$$role) commands || exit; done
	$(Q)$(PYTHON) $(srctree)/scripts/check-sparse.py --root $(srctree) --build $(O)

check-headers: $(venv_stamp)
	$(Q)+for role in $(ROLES); do $(call build,$$role) generated || exit; done
	$(Q)$(PYTHON) $(srctree)/scripts/check-headers.py --root $(srctree) --build $(O)

tidy: compile_commands.json
	$(Q)$(srctree)/scripts/run-tidy.sh $(O)

PHONY += compile_commands.json
compile_commands.json: $(venv_stamp)
	$(Q)+for role in $(roles); do $(call build,$$role) commands || exit; done
	$(Q)+$(MAKE) -f $(srctree)/test/host/build.mk srctree=$(srctree) O=$(O)/host \
		$(O)/host/.commands
	$(Q)python3 $(srctree)/scripts/gen-compile-commands.py $(addprefix $(O)/,$(roles)) \
		$(O)/host > $(srctree)/$@.tmp
	$(Q)mv $(srctree)/$@.tmp $(srctree)/$@
	@echo '  GEN     $@'

# --- clean

PHONY += clean distclean
clean:
	$(Q)rm -rf $(addprefix $(O)/,$(ROLES) shared host fuzz tools)

distclean: clean
	$(Q)rm -rf $(srctree)/build $(srctree)/compile_commands.json

PHONY += help
help:
	@cat $(srctree)/scripts/help.txt

.PHONY: $(PHONY)
