# Plain GNU make and Python 3.11 or newer are enough. No virtual environment has to be active: everything happens in
# .venv, which `make clean` removes.

VENV   ?= .venv
# Where the environment's own Python is: Scripts on Windows.
BIN    := $(VENV)/$(if $(filter Windows_NT,$(OS)),Scripts,bin)
# The Python to make the environment with: the first of these that is 3.11 or newer.
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11 python; do \
            $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
pip_of = $(1)/$(notdir $(BIN))/python -m pip --disable-pip-version-check --quiet --quiet
PIP    := $(call pip_of,$(VENV))
UV     := $(shell command -v uv 2>/dev/null)

# The test command, here and nowhere else: .ci/run calls `make test` too. One process for each core, whole files in one
# process, so that what a file sets up is set up once, in the order that tests/conftest.py gives. ARGS adds to it:
# make test ARGS="-k pooling"
TEST := -n auto --maxprocesses 8 --dist loadfile --no-loadscope-reorder
# The processes share the cores: each is not to start a thread for every core besides.
test long wheels older oldest newest: export OMP_NUM_THREADS := $(or $(OMP_NUM_THREADS),1)
# Of every kind of trial, such as a training killed at a random moment.
long: export NACRE_TRIALS := $(or $(NACRE_TRIALS),1000)
test long wheels older oldest newest: export OPENBLAS_NUM_THREADS := $(or $(OPENBLAS_NUM_THREADS),1)

.PHONY: help demo test long wheels older oldest newest bench docs lint format clean dev torch nvrtc python
.DEFAULT_GOAL := help

help:
	@echo 'make demo    train a convolutional net on handwritten digits'
	@echo 'make test    run the tests           (make test ARGS="-k pooling" runs some of them)'
	@echo 'make long    run the tests that are too slow for every commit, after these three:'
	@echo 'make oldest  run the tests with the oldest dependencies that pyproject.toml admits'
	@echo 'make newest  run them with the newest'
	@echo 'make older   run the tests of the onednn backend as on processors without AVX-512'
	@echo 'make wheels  run only those slow tests that try a wheel in an environment of its own'
	@echo 'make bench   compare with PyTorch on the CPU'
	@echo 'make docs    build the site, build/docs/index.html'
	@echo 'make lint    ruff, pyright and mypy'
	@echo 'make format  let ruff put the code in order'
	@echo 'make clean   remove everything that these made'

demo: $(VENV)/demo.stamp
	@$(BIN)/nacre demo $(ARGS)

test: $(VENV)/dev.stamp
	$(BIN)/python -m pytest $(TEST) $(ARGS)

long: $(VENV)/long.stamp older oldest newest
	$(BIN)/python -m pytest $(TEST) -m long $(ARGS)

# Wheels, nacre's own and those of the example plugins, in an environment of their own.
wheels: $(VENV)/dev.stamp
	$(BIN)/python -m pytest $(TEST) -m long tests/test_packaging.py tests/test_third_party.py $(ARGS)

# The onednn backend's tests on fewer instructions than this processor has: oneDNN and nacre's own C code obey one variable.
KERNELS := activation batch_norm concat convolution dropout element_wise inner_product lrn pooling softmax softmax_loss split
older: $(VENV)/dev.stamp
	@for most in $$(grep -qs avx512 /proc/cpuinfo && echo AVX2) SSE41; do \
	  echo "with no more than $$most:"; \
	  ONEDNN_MAX_CPU_ISA=$$most $(BIN)/python -m pytest $(TEST) -k "onednn and not narrow" tests/backends \
	    $(KERNELS:%=tests/layers/*/test_%.py) $(ARGS) || exit 1; \
	done

# The suite in environments of their own, remade each time: exactly the lower bounds of pyproject.toml, or the newest of
# everything.
oldest newest: | python
	$(PYTHON) -m venv --clear $(VENV)-$@
	$(PYTHON) tests/bounds.py >$(VENV)-$@/oldest.txt
	$(call pip_of,$(VENV)-$@) install $(if $(filter oldest,$@),--constraint $(VENV)-$@/oldest.txt) --editable '.[dev]'
	$(VENV)-$@/$(notdir $(BIN))/python -m pytest $(TEST) $(ARGS)

bench: $(VENV)/dev.stamp $(VENV)/torch.stamp
	$(BIN)/python -m benchmarks $(ARGS)

# The site. Warnings are errors, such as a link inside that leads nowhere.
docs: $(VENV)/dev.stamp
	$(BIN)/python -m sphinx --quiet --fail-on-warning --keep-going docs build/docs $(ARGS)
	@echo 'the site is build/docs/index.html'

# The example plugins are other people's code, with their own settings: mypy reads a layer as its author's editor would.
AUTHORS := $(wildcard examples/plugins/*/*/*.py)
lint: $(VENV)/dev.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright --pythonpath $(BIN)/python
	$(if $(AUTHORS),$(BIN)/mypy $(AUTHORS),@echo 'mypy: no example plugins yet')

dev: $(VENV)/dev.stamp
torch: $(VENV)/torch.stamp
nvrtc: $(VENV)/nvrtc.stamp

format: $(VENV)/dev.stamp
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) $(VENV)-oldest $(VENV)-newest .ci-venv dist build .pytest_cache .ruff_cache .mypy_cache .hypothesis nacre-demo
	find . -name __pycache__ -not -path './.git/*' -prune -exec rm -rf {} +

# --- the environment -------------------------------------------------------------------------------------------------
# A stamp says what the environment holds; it is older than pyproject.toml when that has changed since. Installs are
# editable, so a change of the Python code needs no new one.
BUILT := pyproject.toml hatch_build.py core/nacre/_version.py $(wildcard plugins/backends/nacre_onednn/helper/*.[ch])

$(VENV)/demo.stamp: $(BUILT) | $(VENV)/made.stamp
	@echo "installing nacre and what the demo needs into $(VENV) ..."
	@$(call install,--editable '.[plots]')
	@touch $@

$(VENV)/dev.stamp: $(BUILT) | $(VENV)/made.stamp
	@echo "installing nacre and its development tools into $(VENV) ..."
	@$(call install,--editable '.[dev]')
	@touch $@ $(VENV)/demo.stamp

# An imitation of S3, beside the client whose botocore it needs, and cuDNN, which chooses plans without a GPU: both are
# large. A comma would part the arguments of a call.
MOTO := moto[s3,server]>=5
$(VENV)/long.stamp: $(VENV)/dev.stamp
	@echo "installing what only the long tests need into $(VENV) ..."
	@$(call install,'$(MOTO)' s3fs)
	@$(call install,nvidia-cudnn-cu13==9.28.1.4 nvidia-cudnn-frontend==1.28.0) || \
	  echo 'cuDNN cannot be installed here: its plans are not compared'
	@touch $@

# What tests and benchmarks compare with, in one exact version. By itself, since it is large: nothing fails without it.
$(VENV)/torch.stamp: | $(VENV)/made.stamp
	@echo "installing PyTorch, to compare with, into $(VENV) ..."
	@$(call install,--no-compile torch==2.13.0)
	@touch $@

# NVIDIA's compiler of CUDA C++, which needs no GPU, and the oldest one of CUDA 12; by itself for the same reason.
$(VENV)/nvrtc.stamp: | $(VENV)/made.stamp
	@echo "installing NVIDIA's compiler of CUDA C++ into $(VENV) ..."
	@$(call install,nvidia-cuda-nvrtc==13.0.88 nvidia-cuda-nvrtc-cu12==12.0.140)
	@touch $@

ifeq ($(UV),)
install = $(PIP) install $(1)
else
install = $(UV) pip install --quiet --python $(BIN)/python $(1)
endif

$(VENV)/made.stamp: | python
	@$(if $(UV),$(UV) venv --quiet --allow-existing --python '$(PYTHON)' $(VENV),\
	  $(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); \
	    echo "make: $(PYTHON) could not make a virtual environment. On Debian and Ubuntu this mends it:" >&2; \
	    echo "    apt-get install python3-venv" >&2; exit 1; })
	@touch $@

python:
	@test -n '$(PYTHON)' || { \
	  echo "make: nacre needs Python 3.11 or newer; found: `python3 --version 2>&1 || echo none`." >&2; \
	  echo "    Install one, or name it: make PYTHON=/path/to/python3.12 demo" >&2; exit 1; }
