SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:

# Tools and Python packages are kept outside the checkout, keyed by what they are made from. The key is computed
# when requirements.txt changes, and not each time make starts.
CACHE := $(or $(XDG_CACHE_HOME),$(or $(HOME),$(shell cd ~ && pwd))/.cache)/rocm-build-box
VENV = $(CACHE)/python-$(VENV_KEY)
PYTHON = $(VENV)/bin/python
include .build/venv.mk
SHELL_SCRIPTS = $(shell git ls-files -- '*.sh' .ci/run buildspec/box/bin rehearsal/tools/rootfs/usr/local/sbin rehearsal/miniature/rocm/bin)
DOCKERFILES = $(shell git ls-files -- 'docker/Dockerfile.*' '*/Dockerfile')

.PHONY: help list-vars rehearse test check version-check version-scrub version-scrub-check docs bench lock
help: ## show this
	@sed -n 's/^\([a-z%-]*\):.*## \(.*\)/\1:\2/p' Makefile | while IFS=: read -r name text; do \
		printf '  make %-20s %s\n' "$$name" "$$text"; done

list-vars: | $(VENV)/.complete ## every bake variable in effect, and where its value comes from
	@$(PYTHON) -m scripts.list_vars

build-%: ## a target or group of rocm-bake.hcl, by Bake (BAKE_EXTRA="..." has more of its arguments)
	@echo "$@: rocm-bake.hcl has no target or group $*; it has: $(BAKE_TARGETS)" >&2; exit 2

rehearse: $(VENV)/.complete ## the whole job on this machine, without an AWS account (KEEP=1, TARGETS="vllm")
	$(PYTHON) -m rehearsal $(if $(KEEP),--keep) $(if $(TARGETS),--targets "$(TARGETS)")

test: $(VENV)/.complete ## all tests, the booted box included (ARGS="-k name" for some)
	@# First, and not by a test: building the tools once takes longer than a test may.
	$(PYTHON) -m rehearsal.setup
	$(PYTHON) -m pytest $(ARGS)

check: version-scrub-check ## lint, types, generated files up to date
	$(PYTHON) -m ruff check .
	$(PYTHON) -m ruff format --check .
	$(PYTHON) -m mypy .
	$(VENV)/bin/shellcheck $(SHELL_SCRIPTS)
	$(VENV)/bin/shfmt --diff $(SHELL_SCRIPTS)
	$(VENV)/bin/hadolint $(DOCKERFILES)
	$(PYTHON) -m infra.iam_page --check
	$(PYTHON) scripts/check-defaults.py
	$(PYTHON) -m rehearsal.rules_page --check

version-check: $(VENV)/.complete ## each version against its upstream's newest release and the registry's wheels
	$(PYTHON) -m scripts.version_check

version-scrub: $(VENV)/.complete ## write the versions and defaults in the documentation again
	$(PYTHON) -m scripts.version_scrub

version-scrub-check: $(VENV)/.complete ## see that the documentation has the versions and defaults of rocm-bake.hcl
	$(PYTHON) -m scripts.version_scrub --check

docs: version-scrub ## write the generated pages again
	$(PYTHON) -m infra.iam_page
	$(PYTHON) -m rehearsal.rules_page

bench: $(VENV)/.complete ## what the tools cost, as ratios to what they are measured against
	$(PYTHON) -m bench

LOCK = $(VENV)/bin/uv pip compile --quiet --generate-hashes --no-emit-index-url
lock: $(VENV)/.complete ## pin the versions of pyproject.toml's dependencies and of the images' build tools again
	$(LOCK) pyproject.toml --group rehearsal --group check --python-version 3.11 --output-file requirements.txt
	@# For any Python that PYTHON_VERSION may name.
	$(LOCK) --universal --python-version 3.11 docker/uv.in --output-file docker/uv.txt
	$(LOCK) --universal --python-version 3.11 docker/build-tools.in --output-file docker/build-tools.txt
	$(LOCK) --universal --python-version 3.11 --constraint docker/build-tools.txt docker/build-constraints.in \
		--output-file docker/build-constraints.txt

# By its name it belongs to one requirements.txt, so that file's time says nothing.
$(VENV)/.complete:
	python3 scripts/bootstrap.py $(@D)

.build/venv.mk: requirements.txt
	@mkdir -p $(@D)
	@printf 'VENV_KEY := %.12s\n' "$$(sha256sum <$<)" >$@

# --- What rocm-bake.hcl says ----------------------------------------------------------------------------------------

# Make reads a fragment that Python writes when the file's content is not what the fragment was written from. Not when
# its time is newer: a file that is moved back into place has its old time.
ifneq (,$(and $(VENV_KEY),$(filter build-% list-vars,$(MAKECMDGOALS))))
include .build/bake.mk
ifneq ($(file <rocm-bake.hcl),$(file <.build/rocm-bake.hcl))
.build/bake.mk: differs
.PHONY: differs
endif
.build/bake.mk: scripts/bake_fragment.py buildspec/bakefile.py | $(VENV)/.complete
	@$(PYTHON) -m scripts.bake_fragment rocm-bake.hcl $(@D)

# BAKE_SOURCES says of each variable whether it is the file's default or set, and where.
export $(BAKE_VARIABLES) BAKE_VARIABLES BAKE_EXTRA
export BAKE_SOURCES = $(foreach name,$(BAKE_VARIABLES),$(name)=$(firstword $(origin $(name))))

.PHONY: $(BAKE_TARGETS:%=build-%)
$(BAKE_TARGETS:%=build-%): build-%: | $(VENV)/.complete
	@$(PYTHON) -m scripts.bake $*
endif
