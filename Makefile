# Every target sets itself up on a fresh Debian or Ubuntu machine (tools/setup.sh), so that any of them can be the first.

.PHONY: demo test test-slow test-all bench lint format clean setup setup-trainer
.DEFAULT_GOAL := demo

# What is in .venv comes first: trnctl, pcluster and, where the system has none, node.
export PATH := $(CURDIR)/.venv/bin:$(PATH)
shell_scripts := .ci/run $(wildcard tools/*.sh examples/*.sh)

demo: setup # sandbox up, cluster create, submit, status, results, teardown
	bash examples/demo.sh

test: setup-trainer # all tests but the slow ones
	pytest -n 2

test-slow: setup-trainer # only the slow ones, which mostly wait
	pytest -n 3 -m slow

test-all: setup-trainer # all tests
	pytest -n 2 -m ""

bench: setup-trainer # the speed limits, as ratios measured in one run
	python bench/bench.py
	python bench/scale.py 2000

lint: setup
	ruff check .
	ruff format --check .
	mypy
	shellcheck $(shell_scripts)

format: setup
	ruff check --fix .
	ruff format .

clean:
	rm -rf .venv build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

setup:
	@bash tools/setup.sh

setup-trainer: # the same with PyTorch, which the tests of the reference trainer need
	@bash tools/setup.sh trainer
