SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:

# Tools and Python packages are kept outside the checkout, keyed by what they are made from.
CACHE := $(or $(XDG_CACHE_HOME),$(shell cd ~ && pwd)/.cache)/rocm-build-box
VENV := $(CACHE)/python-$(shell sha256sum <requirements.txt | cut -c1-12)
PYTHON := $(VENV)/bin/python
SHELL_SCRIPTS = $(shell git ls-files -- '*.sh' .ci/run buildspec/box/bin rehearsal/tools/rootfs/usr/local/sbin)

.PHONY: help rehearse test check docs lock
help: ## show this
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST)

rehearse: $(VENV)/.complete ## the whole job on this machine, without an AWS account (KEEP=1 leaves everything up)
	$(PYTHON) -m rehearsal $(if $(KEEP),--keep)

test: $(VENV)/.complete ## all tests, the booted box included (ARGS="-k name" for some)
	$(PYTHON) -m pytest $(ARGS)

check: $(VENV)/.complete ## lint, types, generated files up to date
	$(PYTHON) -m ruff check .
	$(PYTHON) -m ruff format --check .
	$(PYTHON) -m mypy .
	$(VENV)/bin/shellcheck $(SHELL_SCRIPTS)
	$(VENV)/bin/shfmt --diff $(SHELL_SCRIPTS)
	$(PYTHON) -m infra.iam_page --check
	$(PYTHON) -m rehearsal.rules_page --check

docs: $(VENV)/.complete ## write the generated pages again
	$(PYTHON) -m infra.iam_page
	$(PYTHON) -m rehearsal.rules_page

lock: $(VENV)/.complete ## pin the versions of pyproject.toml's dependencies in requirements.txt again
	$(VENV)/bin/uv pip compile --quiet pyproject.toml --group rehearsal --group check \
		--generate-hashes --no-emit-index-url --python-version 3.11 --output-file requirements.txt

$(VENV)/.complete: requirements.txt
	python3 scripts/bootstrap.py $(@D)
