# Short names for what newcomers need; Meson and Ninja do the work. `make help` lists them.
BUILD ?= build
JOBS ?= $(shell nproc)
MESON = meson
CLANG = clang-14
FUZZ_SECONDS ?= 10
PREFIX ?= /usr/local

.DEFAULT_GOAL := all
.PHONY: all help setup deps demo test unit e2e bench asan tsan fuzz nightly format lint install clean

all: deps $(BUILD)/build.ninja ## build build/millrace
	@ninja -C $(BUILD) -j$(JOBS) millrace

help: ## this list
	@awk -F':.*## ' '/^[a-z]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## install every package that building, testing and measuring need (Debian 12; root or sudo)
	@tools/setup

# Says what is missing and how to get it, instead of a page of Meson output.
deps:
	@tools/setup --build-only --check

$(BUILD)/build.ninja:
	$(MESON) setup $(BUILD) --prefix=$(PREFIX)

demo: ## set up, build, and watch a device's message reach Kafka and a subscriber
	@tools/setup --demo
	@$(MAKE) --no-print-directory all
	@tools/demo $(BUILD)/millrace

test: setup ## set up, build, run every unit, integration and end-to-end test
	@$(MAKE) --no-print-directory all
	@tools/run-tests --build $(BUILD)

unit: all ## unit and integration tests only (no Kafka)
	@tools/run-tests --build $(BUILD) --only unit

e2e: all ## end-to-end tests only; ARGS="-k name" goes to pytest
	@tools/run-tests --build $(BUILD) --only e2e -- $(ARGS)

bench: setup ## measure against raw librdkafka, mosquitto and nginx (and vert.x when MILLRACE_PEERS names its folder)
	@$(MAKE) --no-print-directory all
	@bench/run --build $(BUILD) $(ARGS)

asan: ## unit and integration tests with AddressSanitizer and UBSan
	@tools/run-tests --sanitize address,undefined --only unit

tsan: ## unit and integration tests with ThreadSanitizer
	@tools/run-tests --sanitize thread --only unit

fuzz: ## each fuzz target for FUZZ_SECONDS (10) from its corpus
	@tools/run-fuzz $(FUZZ_SECONDS)

nightly: setup ## long fuzzing, long end-to-end tests, coverage, valgrind
	@tools/nightly

format: ## rewrite every C file with clang-format
	@tools/check-style --fix

lint: ## format, layers, names, sizes, headers, spelling; LINT=full adds clang-tidy and cppcheck
	@tools/check-style $(if $(filter full,$(LINT)),--full)

install: all ## install build/millrace below PREFIX (/usr/local); DESTDIR is honoured
	@$(MESON) install -C $(BUILD) --no-rebuild

clean: ## remove every build folder (downloads in .cache stay)
	rm -rf build build-*
