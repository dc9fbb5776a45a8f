# Two commands do everything on a fresh machine: `make train` and `make test`.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.ready
BENCH  := .venv-bench
PEERS  := benchmarks/peers/requirements.txt
FIRE   := .venv-fire
AUDIT  := .venv-audit
BROUGHT := .venv-packages
RAY    := .venv-ray
# Two processes share the tests, a file at a time. More of them would only wait for each other where kernels compile.
WORKERS := -n 2 --dist loadfile
INSTALL := $(BIN)/pip install --quiet --disable-pip-version-check
# A torch in a folder of pip's find-links, such as one for the CPU alone, goes before the one of the index. With hashes
# pip would prefer the index, so it is installed first, by its part of the lock.
TORCH   := sed -n '/^torch==/,/[^\\]$$/p' requirements.lock
# `make train TORCH_INDEX=ADDRESS`: the index to take torch from, such as the one for the CPU alone (README, Install). What
# the user names is trusted: the lock knows the hashes of the default index.
TORCH_INDEX ?=
# Whether pip would now fetch the torch for CUDA, on a machine without an NVIDIA GPU.
TOO_LARGE := test "$$(uname -sm)" = "Linux x86_64" -a ! -e /proc/driver/nvidia/version && \
	! $(BIN)/python -c 'import importlib.metadata as m; m.version("torch")' 2>/dev/null
# Whether the torch that pip chose is the one for CUDA, which needs more packages.
IS_CUDA := 'import importlib.metadata as m; raise SystemExit("nvidia" not in str(m.requires("torch")))'
# `$(call SHOWN,what it does) COMMAND` counts the seconds on a terminal, while a quiet command works.
SHOWN   = tick() { n=0; while sleep 1 && kill -0 $$$$ 2>/dev/null; do n=$$((n + 1)); printf '\r  %s, %d s ' "$(1)" $$n; done; }; \
	if [ -t 1 ]; then tick & trap "kill $$! 2>/dev/null; printf '\r\033[K'" EXIT; trap 'exit 130' INT TERM; fi;
MKDOCS  = NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs

.PHONY: help setup lock audit browser train test test-fast test-cuda check unit ray packages bench-setup fire-reference doctor docs docs-serve clean

help:            ## Say what can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(STAMP)  ## Set up .venv (does nothing when nothing changed)

# Every file that pip downloads is compared with its hash in requirements.lock; nothing is built from foreign sources.
$(STAMP): pyproject.toml requirements.lock requirements-cuda.lock
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "flashdqn needs Python 3.11 or newer, and $(PYTHON) is " + sys.version.split()[0])'
	@echo "Setting up $(VENV): about a minute the first time"
	@test -x $(BIN)/python || { $(call SHOWN,making it) $(PYTHON) -m venv $(VENV); }
	@test -z "$(TORCH_INDEX)" || { $(call SHOWN,installing PyTorch) $(INSTALL) --no-deps --index-url "$(TORCH_INDEX)" --constraint constraints.txt torch; }
	@! $(INSTALL) --dry-run --no-index --no-deps --constraint constraints.txt torch >/dev/null 2>&1 || \
		{ $(call SHOWN,installing PyTorch) $(TORCH) | $(INSTALL) --no-index --no-deps --require-hashes --requirement /dev/stdin; }
	@! { $(TOO_LARGE); } || echo "There is no NVIDIA GPU here, and PyTorch for CUDA takes 5 GB. For the small build:" \
		"make TORCH_INDEX=ADDRESS train (README, Install)"
	@$(call SHOWN,installing packages) $(INSTALL) --no-deps --requirement requirements.lock
	@! $(BIN)/python -c $(IS_CUDA) || { $(call SHOWN,installing CUDA) $(INSTALL) --no-deps --requirement requirements-cuda.lock; }
	@$(call SHOWN,installing flashdqn) $(INSTALL) --no-deps --no-build-isolation --editable .
	@touch $@

lock: setup      ## Write requirements.lock anew, from constraints.txt and the package index
	@$(BIN)/python tools/lock.py

train: setup     ## Train Snake with flood-fill features: about a minute on two cores
	@$(BIN)/flashdqn train snake-flood

check: setup     ## Lint and types
	@$(BIN)/ruff check src tests benchmarks docs examples tools
	@$(BIN)/ruff format --check src tests benchmarks docs examples tools
	@$(BIN)/mypy

browser:         # Chromium for the tests of the web player, where it is missing and we may install it
	@command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null || \
		{ test "$$(id -u)" = 0 && command -v apt-get >/dev/null && echo "Installing Chromium" && \
		  apt-get update -qq && apt-get install -qq -y --no-install-recommends chromium >/dev/null; } || \
		echo "There is no Chromium here, and it cannot be installed: the browser tests will not run"

unit: setup browser  ## The tests alone
	@$(BIN)/pytest $(WORKERS) --durations=20

test: check unit ray  ## Lint, types and tests: what CI runs

test-fast: setup ## The tests for daily work: nothing slow, no other processes, no browser
	@$(BIN)/pytest $(WORKERS) -m "not slow and not process and not browser"

test-cuda: setup ## The tests that need a GPU
	@$(BIN)/pytest -m cuda --durations=20

packages: setup $(BROUGHT)/.ready  ## Test environments of other packages, in .venv-packages (docs/environments.md)
	@FLASHDQN_PACKAGES=1 $(BROUGHT)/bin/python -m pytest tests/envs/test_gym_packages.py

# It sees what .venv has, and adds the packages.
$(BROUGHT)/.ready: benchmarks/peers/packages.txt
	@test -x $(BROUGHT)/bin/python || $(BIN)/python -m venv $(BROUGHT)
	@echo "Setting up $(BROUGHT): about two minutes and 2 GB the first time"
	@$(BROUGHT)/bin/pip install --quiet --disable-pip-version-check --no-deps --requirement $<
	@$(BIN)/python -c 'import sysconfig; print("import site; site.addsitedir(" + repr(sysconfig.get_path("purelib")) + ")")' \
		> "$$($(BROUGHT)/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/zz_main.pth"
	@touch $@

ray: setup $(RAY)/.ready  ## The tests with a real Ray, in .venv-ray (docs/ray.md)
	@FLASHDQN_RAY=1 $(RAY)/bin/python -m pytest --durations=5 tests/cluster

# It sees what .venv has, and adds Ray: the environment of everybody else stays small.
$(RAY)/.ready: requirements-ray.lock
	@test -x $(RAY)/bin/python || $(BIN)/python -m venv $(RAY)
	@echo "Setting up $(RAY): about half a minute and 400 MB the first time"
	@$(call SHOWN,installing Ray) $(RAY)/bin/pip install --quiet --disable-pip-version-check --no-deps --requirement $<
	@$(BIN)/python -c 'import sysconfig; print("import site; site.addsitedir(" + repr(sysconfig.get_path("purelib")) + ")")' \
		> "$$($(RAY)/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/zz_main.pth"
	@touch $@

bench-setup: $(BENCH)/.ready  ## Set up .venv-bench with the libraries that benchmarks/throughput.py compares with

$(BENCH)/.ready: pyproject.toml constraints.txt $(PEERS)
	@test -x $(BENCH)/bin/python || $(PYTHON) -m venv $(BENCH)
	@echo "Setting up $(BENCH): about two minutes and 2 GB the first time"
	@$(BENCH)/bin/python -c 'import torch; assert torch.__version__.startswith("2.13.0")' 2>/dev/null || \
		$(BENCH)/bin/pip install --quiet --disable-pip-version-check --constraint constraints.txt torch==2.13.0
	@$(BENCH)/bin/pip install --quiet --disable-pip-version-check --requirement $(PEERS) --editable .
	@touch $@

fire-reference: setup $(FIRE)/.ready  ## Make the fire's reference data by pyretechnics, in .venv-fire
	@$(BIN)/python benchmarks/fire_data.py

$(FIRE)/.ready: benchmarks/peers/fire.txt
	@test -x $(FIRE)/bin/python || $(PYTHON) -m venv $(FIRE)
	@echo "Setting up $(FIRE): pyretechnics is compiled, which takes a minute or two"
	@$(FIRE)/bin/pip install --quiet --disable-pip-version-check --requirement benchmarks/peers/fire.txt
	@touch $@

audit: $(AUDIT)/.ready  ## Ask the public database of vulnerabilities about every package in the lock
	@$(AUDIT)/bin/python tools/audit.py

$(AUDIT)/.ready: tools/audit.txt
	@test -x $(AUDIT)/bin/python || $(PYTHON) -m venv $(AUDIT)
	@$(AUDIT)/bin/pip install --quiet --disable-pip-version-check --requirement tools/audit.txt
	@touch $@

doctor: setup    ## Build flashdqn-doctor, the doctor alone, into dist/ (it needs neither torch nor numba)
	@$(BIN)/python tools/build_doctor.py

docs: setup      ## Build the docs as a site into site/
	@$(MKDOCS) build --strict --quiet
	@echo "site/index.html"

docs-serve: setup  ## Show the site while you write: http://127.0.0.1:8000
	@$(MKDOCS) serve --watch src/flashdqn --watch mkdocs.yml

clean:           ## Remove all .venv* and caches; runs/ stays
	rm -rf $(VENV) $(BENCH) $(FIRE) $(AUDIT) $(BROUGHT) $(RAY) build site *.egg-info src/*.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
