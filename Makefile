# Each target works alone on a machine with Python 3.11 or newer, pip, venv and make.
PYTHON ?= python3
BIN := .venv/bin
# Pins hold for everything pip installs here, build tools included.
export PIP_CONSTRAINT := $(CURDIR)/constraints.txt
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: help demo test lint format bench bench-quality bench-index clean

help:  ## list the targets
	@grep -E '^[a-z-]+:.*##' Makefile | sed 's/:.*##/\t/'

.venv/ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable . --group dev
	touch $@

demo: .venv/ready  ## compare the methods on LIDC-IDRI, search by a distance, write demo/report.html
	$(BIN)/nearkin demo

test: .venv/ready  ## run all tests, documentation included
	$(BIN)/python -m pytest -n auto

lint: .venv/ready  ## check style and types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: .venv/ready  ## put the code into house style
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

.peers/ready: benchmarks/peers.txt
	$(PYTHON) -m venv .peers
	PIP_CONSTRAINT= .peers/bin/python -m pip install --quiet -r benchmarks/peers.txt
	touch $@

bench: .venv/ready .peers/ready  ## time nearkin against its peers on the same data
	.peers/bin/python -m pip install --quiet --no-deps --editable .
	.peers/bin/python benchmarks/run.py

bench-quality: .peers/ready  ## score nearkin and its peers on the same data; DATA=folder, OPTIONS="..."
	.peers/bin/python -m pip install --quiet --no-deps --editable .
	.peers/bin/python benchmarks/quality.py $(if $(DATA),--data $(DATA)) $(OPTIONS)

bench-index: .venv/ready  ## time the indexes against faiss, exact search and PostgreSQL
	$(BIN)/python benchmarks/index.py

clean:  ## remove both environments
	rm -rf .venv .peers
