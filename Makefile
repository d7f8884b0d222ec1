# Every Byte. `make lab` opens the book, `make test` checks all of it; both set up .venv on the first run.
#
#   make lab                      JupyterLab on the first chapter, on this machine only
#   make lab PORT=9999            on another port
#   make lab ARGS=--no-browser    more options for JupyterLab
#   make test                     lint, unit, notebooks and a smoke in a browser: all four run, then it fails if any did
#   make test-long                tests that take seconds each
#   make test-browser             all other tests in a browser, with the whole site
#   make test JOBS=4              with so many processes (as many as there are cores by default)
#   make nightly                  what takes long and seldom finds anything: tests marked so, and every chapter once more
#   make chapters                 run every chapter anew and store its outputs; CHAPTERS="chapters/02_x.ipynb" for one
#   make site                     the book as web pages, and a PDF of each chapter, in build/site/html; needs npm
#   make screenshots              pictures of all its pages, light and dark, wide and narrow, in build/screenshots
#   make release VERSION=0.2.0    write a version where it stands; without VERSION, build and try its sdist and wheel
#   make lock                     write locks/ anew, the hashes of what the lab installs, after a change of constraints.txt
#   make audit                    ask whether a known vulnerability is in what constraints.txt, locks/ and npm's locks name
#   make benchmark                print how fast the simulation, the sliders and the imports are here
#   make format                   let ruff format the Python code, notebooks too
#   make clean                    remove .venv and everything else that make built
#
# On Linux, PyPI's torch is the CUDA build: several GB. For the CPU build, the first time, on either command:
#
#   make lab TORCH_INDEX=https://download.pytorch.org/whl/cpu      or a folder of wheels

PYTHON ?= python3
TORCH_INDEX ?=
PORT ?=
VERSION ?=
ARGS ?=
JOBS ?= $(shell getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2)

VENV := .venv
PY := $(VENV)/bin/python
CHAPTERS ?= $(sort $(wildcard chapters/*.ipynb))
FIRST := $(firstword $(sort $(wildcard chapters/*.ipynb)))
REPORTS := build/reports
PYTEST := $(PY) -m pytest
PARTS := lint unit notebooks smoke
# a file's tests share a process, and what they have made in it; conftest.py puts the files that take longest first
spread = -n $(1) --dist loadscope --no-loadscope-reorder
SPREAD = $(call spread,$(JOBS))
NBVAL = --nbval --nbval-current-env --nbval-cell-timeout=300 $(SPREAD) $(shell printf "%s\n" $(CHAPTERS) | sort -r) $(QUIZ)
# not where some chapters are named
QUIZ := $(if $(filter file,$(origin CHAPTERS)),book/quiz.ipynb)

# JupyterLab refuses to run as root, which is who one is in many containers.
ROOT_OK := $(if $(filter 0,$(shell id -u)),--allow-root)

export PIP_DISABLE_PIP_VERSION_CHECK := 1
# compiled once, not in each of the tests' hundreds of processes
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help lab test $(PARTS) test-long test-browser nightly chapters npm site screenshots release lock audit benchmark format clean

help:
	@sed -n '/^#/!q; s/^# \{0,1\}//p' Makefile

# --------------------------------------------------------------------------------------------------------------- set up

# The stamps are newer than what they were installed from, so that a second start installs nothing and needs no network.
LAB_STAMP := $(VENV)/.installed-lab
SITE_STAMP := $(VENV)/.installed-site
TEST_STAMP := $(VENV)/.installed-test
ZOO_STAMP := $(VENV)/.installed-zoo
TOOLS_STAMP := build/tools/.installed

# An environment that was left half-made, as by Ctrl-C, has no pip, or one without the list of its files, which comes last: it
# is made whole, or anew where that fails. One that is whole stays, whoever made it.
HAS_PIP = $(PY) -c 'import importlib.metadata as m; all(f.locate().exists() for f in m.files("pip") if f.suffix == ".py") or 1/0'
$(VENV)/.made:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo 'Every Byte needs Python 3.11 or newer; PYTHON=$(PYTHON) is older or missing. Try: make lab PYTHON=python3.12'; exit 1; }
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || \
	  { echo '$(PYTHON) cannot make a virtual environment. On Debian or Ubuntu: apt-get install python3-venv'; exit 1; }
	@echo '1 of 3: a virtual environment in $(VENV), a few seconds'
	@$(HAS_PIP) 2>/dev/null || { $(PYTHON) -m venv $(VENV) && $(HAS_PIP) 2>/dev/null; } || $(PYTHON) -m venv --clear $(VENV)
	@touch $@

# torch alone is taken from TORCH_INDEX, and alone (--no-deps): that index holds other, older packages too. `torch==2.13.0`
# in constraints.txt admits 2.13.0+cpu, and where pip also sees PyPI's 2.13.0 it prefers 2.13.0+cpu, which sorts above it.
# The last step finds torch there and leaves it as it is. After Ctrl-C pip installs anew what was not there as a whole.
TORCH_SIZE = $(if $(TORCH_INDEX),190 MB for the CPU build,$(if $(filter Linux,$(shell uname -s)),several GB for the CUDA \
  build; README.md has the CPU build,some 100 MB))
TORCH_SOURCE = $(if $(wildcard $(TORCH_INDEX)/.),--no-index --find-links,--index-url)
torch_from_index = $(if $(TORCH_INDEX),$(PY) -m pip install --no-deps $(TORCH_SOURCE) "$(TORCH_INDEX)" -c constraints.txt torch)
say_torch = @echo '2 of 3: PyTorch: $(strip $(TORCH_SIZE))'
say_others = @echo '3 of 3: the other packages, 110 to 180 of them: 150 to 250 MB, some minutes'
no_announcements = @$(PY) -m jupyter labextension disable "@jupyterlab/apputils-extension:announcements" >/dev/null 2>&1 || true
define install
$(say_torch)
$(or $(torch_from_index),$(PY) -m pip install -c constraints.txt torch)
$(say_others)
$(PY) -m pip install -c constraints.txt -e ".[$(1)]"
$(no_announcements)
endef

# The lab's packages are those of locks/, by their hashes; pip takes no other file. torch too, if it is PyPI's: from TORCH_INDEX, or
# from a folder of wheels that pip is set up with, it comes without. The right torch that is there stays, of whatever build. Last the
# clone itself, by the setuptools of locks/lab.txt, not one that pip fetches for it; and what another build of torch asks for.
TORCH_IS_THERE = from importlib.metadata import version; \
  assert "torch==" + version("torch").split("+")[0] in open("constraints.txt").read().split()
define install_lab
$(say_torch)
$(torch_from_index)
@$(PY) -c '$(TORCH_IS_THERE)' 2>/dev/null || $(PY) -m pip install --no-deps --no-index -c constraints.txt torch >/dev/null 2>&1 || \
  $(PY) -m pip install --require-hashes -r locks/lab.txt -r locks/torch.txt
$(say_others)
$(PY) -m pip install --require-hashes -r locks/lab.txt
$(PY) -m pip install --no-build-isolation -c constraints.txt -e .
$(no_announcements)
endef

$(LAB_STAMP): pyproject.toml constraints.txt locks/lab.txt locks/torch.txt | $(VENV)/.made
	$(install_lab)
	@touch $@

$(SITE_STAMP): pyproject.toml constraints.txt | npm $(VENV)/.made
	$(call install,site)
	@touch $(LAB_STAMP) $@

$(TEST_STAMP): pyproject.toml constraints.txt | $(VENV)/.made
	$(call install,test)
	@touch $(LAB_STAMP) $(SITE_STAMP) $@

$(ZOO_STAMP): pyproject.toml constraints.txt | $(VENV)/.made
	$(call install,zoo)
	@touch $(LAB_STAMP) $(SITE_STAMP) $(TEST_STAMP) $@

# What the maintainers' two programs need stands apart, in no reader's environment.
$(TOOLS_STAMP): locks/tools.txt
	$(PYTHON) -m venv build/tools
	build/tools/bin/python -m pip install --require-hashes -r locks/tools.txt
	@touch $@

# ----------------------------------------------------------------------------------------------------------------- read

lab: $(LAB_STAMP)
	@$(if $(FIRST),,echo 'There is no chapter in chapters/.'; exit 1)
	$(PY) -m jupyterlab --ServerApp.ip=127.0.0.1 --ServerApp.root_dir=. --LabApp.default_url=/lab/tree/$(FIRST) \
	  --ServerApp.contents_manager_class=tools.lab_contents.Chapters \
	  --ServerApp.kernel_websocket_connection_class=tools.lab_channels.AtOnce \
	  --LabApp.extra_labextensions_path=$$($(PY) -m tools.lab_extension) \
	  $(if $(PORT),--ServerApp.port=$(PORT)) $(ROOT_OK) $(ARGS)

# ----------------------------------------------------------------------------------------------------------------- test

# Every part runs, even after one failed; the last lines say which did what.
test: $(TEST_STAMP)
	@failed=; \
	for part in $(PARTS); do \
	  echo; echo "==> make $$part"; \
	  $(MAKE) --no-print-directory $$part || failed="$$failed $$part"; \
	done; \
	echo; \
	if [ -n "$$failed" ]; then echo "make test: failed:$$failed (of: $(PARTS))"; exit 1; fi; \
	echo "make test: passed: $(PARTS)"

# code style, notebooks too, and types
lint: $(TEST_STAMP)
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy

# one file per module, and the hygiene of notebooks, imports and the repository
unit: $(TEST_STAMP)
	$(PYTEST) tests -m "not (browser or long or nightly)" $(SPREAD) --junitxml=$(REPORTS)/unit.xml

# every chapter runs again, top to bottom, and shows what it showed; the later ones, which take longer, first; then the quiz
notebooks: $(TEST_STAMP)
	$(PYTEST) $(NBVAL) --junitxml=$(REPORTS)/notebooks.xml

# each explorer and the front page, in a real Chromium; skipped, with the reason, where there is none
smoke: $(TEST_STAMP)
	$(PYTEST) tests/browser -m smoke -n $(JOBS) --dist worksteal --junitxml=$(REPORTS)/smoke.xml

test-long: $(TEST_STAMP)
	$(PYTEST) tests -m "long and not (browser or nightly)" $(SPREAD) --junitxml=$(REPORTS)/long.xml

# a reader's path in JupyterLab and in the site; they wait for pages much of the time: one process more than there are cores
test-browser: $(TEST_STAMP)
	$(PYTEST) tests/browser -m "not (smoke or nightly)" $(call spread,$$(($(JOBS) + 1))) --junitxml=$(REPORTS)/browser.xml

# what these leave out, as models of public libraries, and every chapter with each cell run twice, as a reader may
nightly: $(ZOO_STAMP)
	$(PYTEST) tests -m nightly $(SPREAD) --junitxml=$(REPORTS)/nightly.xml
	$(PYTEST) $(NBVAL) -p run_twice --junitxml=$(REPORTS)/notebooks_twice.xml

# ---------------------------------------------------------------------------------------------------------------- write

chapters: $(TEST_STAMP)
	@$(PY) -m tools.first_cell
	$(PY) tools/notebooks.py $(or $(CHAPTERS),$(error There is no chapter in chapters/))

# npm is missed before minutes are spent on packages
npm:
	@command -v npm >/dev/null || \
	  { echo 'The site needs Node.js with npm for mathematics and type. On Debian: apt-get install npm'; exit 1; }

site: npm $(SITE_STAMP)
	@echo 'Some ten minutes the first time, most of them for the stored accounts of the explorers.'
	$(PY) -m tools.site

screenshots: npm $(SITE_STAMP)
	$(PY) -m tools.site --no-pdfs
	$(PY) -m tools.screenshots

release: $(TEST_STAMP)
	@TORCH_INDEX=$(TORCH_INDEX) $(PY) -m tools.release $(or $(VERSION),--build)

lock: $(TOOLS_STAMP)
	build/tools/bin/python -m tools.lock build/tools/bin/uv

audit: $(TOOLS_STAMP)
	build/tools/bin/python -m tools.audit

benchmark: $(TEST_STAMP)
	$(PY) benchmarks/imports.py
	$(PY) -W ignore benchmarks/allocator.py
	$(PY) -W ignore benchmarks/training_step.py
	$(PY) -W ignore benchmarks/transformer_step.py
	$(PY) -W ignore benchmarks/gpt_step.py
	$(PY) -W ignore benchmarks/as_cuda.py
	$(PY) benchmarks/page.py
	$(PY) benchmarks/slider.py

format: $(TEST_STAMP)
	$(PY) -m ruff check --fix .
	$(PY) -m ruff format .

clean:
	rm -rf $(VENV) build *.egg-info .pytest_cache .ruff_cache .hypothesis
