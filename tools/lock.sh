#!/bin/sh
# Locks the newest versions that pyproject.toml allows, with hashes and without the address of any registry.
set -eu
cd "$(dirname "$0")/.."
tools=$(mktemp -d)
trap 'rm -rf "$tools"' EXIT
.venv/bin/python -m venv "$tools"
"$tools/bin/pip" install --quiet uv
compile() {
    "$tools/bin/uv" pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes --no-header "$@"
}
compile pyproject.toml -o requirements.lock
compile pyproject.toml --extra dev-stack --group test --group bench -c requirements.lock -o requirements-dev.lock
.venv/bin/python -m enrich.jars --lock
