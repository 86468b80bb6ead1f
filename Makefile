# Every target works on a fresh machine with Python >= 3.11 and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

# Real clients before the real proxy (docs/conformance.md): each in its own environment, beside the project's.
CLIENTS := .venv-clients
CLIENTS_STAMP := $(CLIENTS)/.installed
NODE := tests/clients/node
NODE_STAMP := $(NODE)/node_modules/.installed

# The site of the documentation (docs/conf.py), likewise: nothing that the product or its tests need.
SITE := .venv-docs
SITE_STAMP := $(SITE)/.installed

# The lowest versions that pyproject.toml allows, likewise, and the tests that meet most of what is not ours: servers,
# clients, compression, tokens, JSON. Few examples of each property do: these look for what is not there or otherwise.
LOWEST := .venv-lowest
LOWEST_TESTS := tests/auth tests/wire tests/relay tests/core/test_vectors.py tests/stores/test_redis.py tests/e2e/test_traces.py

# The tests start some hundred servers: without compiled files each compiles all its modules anew, which takes longer
# than the rest of a start.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test test-clients test-browser test-page test-alerts test-services test-lowest check lint types docs site bench eval serve lock clean

demo: $(STAMP)
	$(BIN)/memproxy demo

# A file's tests run in one worker: what they share (a server, an engine, a model) is started once. tests/conftest.py says
# in which order. Half of the time is spent waiting for processes that start or are broken: twice as many as there are cores.
WORKERS ?= 4
PYTEST := -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder --maxfail 30

# Every test but those of `make test-services`; CI runs both.
test: $(STAMP)
	$(BIN)/python $(PYTEST) -m "not services"

# Without Node.js its clients are skipped, and say so.
test-clients: $(STAMP) $(CLIENTS_STAMP) $(if $(shell command -v npm),$(NODE_STAMP))
	MEMPROXY_TEST_CLIENTS=1 $(BIN)/python -m pytest tests/clients -v --no-header

# Web pages of other places in a real browser (docs/isolation.md); without one `make test` skips these, and says so.
test-browser: $(STAMP)
	@command -v chromium-headless-shell >/dev/null || command -v chromium >/dev/null || \
		command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null || \
		{ echo "No Chromium is here. Debian: apt-get install --no-install-recommends chromium-headless-shell"; exit 1; }
	$(BIN)/python -m pytest tests/isolation/test_browser.py -v --no-header

# The memory page in a real browser: every view in every state, width and colour; pictures below build/page. `make test`
# does the most of it with three memories, where a browser is.
test-page: $(STAMP)
	@command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null || \
		{ echo "No Chromium is here. Debian: apt-get install --no-install-recommends chromium"; exit 1; }
	MEMPROXY_TEST_PAGE=1 $(BIN)/python -m pytest tests/page -v --no-header

# Servers that are stopped, broken and replaced beneath us: PostgreSQL (its programs come with the package pgserver), Redis,
# Qdrant and Prometheus where they are, skipped else; then two whole installations for two minutes, killed and cut off
# (docs/cluster.md). What a store promises on each of them, `make test` checks. Two workers: some of these promise a second.
test-services: $(STAMP)
	$(BIN)/python $(PYTEST) -n 2 tests/stores tests/e2e tests/house -m services -rs
	$(BIN)/python -m tests.e2e.cluster_soak --minutes 2 --replicas 2 --users 16

# Alerts on made-up series, each of them broken, and a real Prometheus before a real server (docs/operating.md); without
# promtool and prometheus `make test` skips these, and says so.
test-alerts: $(STAMP)
	@command -v promtool >/dev/null || \
		{ echo "No promtool is here. Debian: apt-get install --no-install-recommends prometheus"; exit 1; }
	$(BIN)/python -m pytest tests/house/test_alerts.py tests/house/test_prometheus.py -v --no-header

# Lower bounds that nobody tries are wrong. Wheels only: nothing is compiled. MEMPROXY_SKIP_LOWEST=1 leaves it out.
test-lowest: $(if $(MEMPROXY_SKIP_LOWEST),,$(STAMP))
ifdef MEMPROXY_SKIP_LOWEST
	@echo "The lowest versions are not tried: MEMPROXY_SKIP_LOWEST is set."
else
	$(PYTHON) -m venv --clear --without-pip $(LOWEST)
	$(BIN)/uv pip install --quiet --python $(LOWEST)/bin/python --resolution lowest-direct --only-binary :all: -r pyproject.toml --extra fastembed --extra qdrant --extra postgres --extra redis --extra mcp --extra otel --extra dev
	PYTHONPATH=$(CURDIR) MEMPROXY_TEST_EXAMPLES=5 $(LOWEST)/bin/python $(PYTEST) $(LOWEST_TESTS)
endif

# ruff, mypy, the documentation against the code, then the tests (the architecture check is one of them).
check: lint types docs test

lint: $(STAMP)
	$(BIN)/ruff check memproxy tests
	$(BIN)/ruff format --check memproxy tests

types: $(STAMP)
	$(BIN)/mypy

docs: $(STAMP)
	$(BIN)/python -m tests.docs_check

# The pages of docs/ as a site in build/site, to be served by anything or opened as files. A link that leads nowhere, a page
# that docs/index.md does not list, and anything that a page would load from another host fail.
site: $(SITE_STAMP)
	$(SITE)/bin/python -m sphinx --fresh-env --builder html --fail-on-warning --keep-going --quiet -d build/site-doctrees docs build/site
	@echo "build/site/index.html"

# Quality on public development data, our own chats and lives: a quarter of an hour. EVAL=--quick asks a few questions of
# the large sets. A local model: MEMPROXY_EVAL_MODEL.
eval: $(STAMP)
	$(BIN)/python -m tests.evals.overview --data $(or $(MEMPROXY_EVAL_DATA),../shared/eval) \
		$(if $(or $(MEMPROXY_EVAL_MODEL),$(wildcard ../shared/models/all-MiniLM-L6-v2)),--model-path \
		$(or $(MEMPROXY_EVAL_MODEL),../shared/models/all-MiniLM-L6-v2)) $(EVAL)

bench: $(STAMP)
	$(BIN)/python -m tests.bench

serve: $(STAMP)
	$(BIN)/memproxy serve --config config.example.yaml

# With the local model and the clients of Qdrant, PostgreSQL and Redis: the image, `make demo` and the tests have it. Versions and hashes only: the lock names no index, so it
# installs from whichever one pip is set up for. Extras stay (`coverage[toml]`): for one that the lock does not name, older pips
# look at the newest version there is, and refuse it for want of a hash.
lock: $(STAMP)
	$(BIN)/uv pip compile pyproject.toml --extra fastembed --extra qdrant --extra postgres --extra redis --extra mcp --extra otel --universal --generate-hashes --no-emit-index-url --no-strip-extras --no-header --no-annotate --python-version 3.11 -o requirements.lock
	$(BIN)/uv pip compile pyproject.toml --extra fastembed --extra qdrant --extra postgres --extra redis --extra mcp --extra otel --extra dev --universal --generate-hashes --no-emit-index-url --no-strip-extras --no-header --no-annotate --python-version 3.11 -c requirements.lock -o requirements-dev.lock
	$(BIN)/uv pip compile docs/requirements.in --universal --generate-hashes --no-emit-index-url --no-strip-extras --no-header --no-annotate --python-version 3.11 -o requirements-docs.lock
	$(BIN)/uv pip compile tests/clients/requirements.in --universal --generate-hashes --no-emit-index-url --no-strip-extras --no-header --no-annotate --python-version 3.11 -o requirements-clients.lock

$(STAMP): requirements-dev.lock pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-dev.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	touch $(STAMP)

$(CLIENTS_STAMP): requirements-clients.lock
	$(PYTHON) -m venv $(CLIENTS)
	$(CLIENTS)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-clients.lock
	touch $(CLIENTS_STAMP)

$(SITE_STAMP): requirements-docs.lock
	$(PYTHON) -m venv $(SITE)
	$(SITE)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-docs.lock
	touch $(SITE_STAMP)

$(NODE_STAMP): $(NODE)/package.json $(NODE)/package-lock.json
	npm ci --prefix $(NODE) --no-audit --no-fund --ignore-scripts
	touch $(NODE_STAMP)

clean:
	rm -rf $(VENV) $(CLIENTS) $(SITE) $(LOWEST) $(NODE)/node_modules build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache
