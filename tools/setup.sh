#!/bin/sh
# Makes .venv and fetches the jars, doing only what is missing. Needs Python >= 3.11 and Java >= 17, writes nothing
# outside the checkout and the user's cache folder, asks for no rights.
set -eu
cd "$(dirname "$0")/.."

fail() {
    echo "setup: $1" >&2
    exit 2
}

is_new_enough() {
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null
}

find_python() {
    # The first one that is new enough: `python3` may be an old one beside a newer python3.x.
    for name in ${PYTHON:-python3 python3.13 python3.12 python3.11 python}; do
        if command -v "$name" >/dev/null 2>&1 && is_new_enough "$name"; then
            echo "$name"
            return
        fi
    done
    fail "no Python >= 3.11 found: install python3 (3.11 or newer), or set PYTHON to one"
}

check_java() {
    java="${JAVA_HOME:+$JAVA_HOME/bin/}java"
    if ! command -v "$java" >/dev/null 2>&1; then
        fail "no Java found: install a JRE or JDK >= 17 (Debian: openjdk-17-jre-headless), or set JAVA_HOME to one"
    fi
    # Prints the likes of: openjdk version "17.0.15" 2025-04-15
    major=$("$java" -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -n 1)
    if [ "${major:-0}" -lt 17 ]; then
        fail "Java ${major:-of an unknown version} is too old: install a JRE or JDK >= 17, or set JAVA_HOME to one"
    fi
}

fingerprint() {
    cat requirements-dev.lock pyproject.toml "$0" | cksum
}

check_java
stamp=.venv/.complete
if [ ! -x .venv/bin/python ] || [ "$(cat $stamp 2>/dev/null || true)" != "$(fingerprint)" ]; then
    python=$(find_python)
    # The stamp is written last: whatever was interrupted is done again.
    rm -f $stamp
    if ! is_new_enough .venv/bin/python; then
        echo "setup: making .venv with $("$python" --version)" >&2
        rm -rf .venv
        "$python" -m venv .venv >&2 ||
            fail "$python cannot make a virtual environment: install its venv module (Debian: python3-venv)"
    fi
    echo "setup: installing the locked packages (about 800 MB the first time, a minute or two)" >&2
    PIP_USE_PEP517=1 .venv/bin/python -m pip --disable-pip-version-check install --quiet --require-hashes -r requirements-dev.lock ||
        fail "the packages could not be installed; if the network or the disk was the reason, run it again"
    .venv/bin/python -m pip --disable-pip-version-check install --quiet --no-deps --no-build-isolation -e . ||
        fail "the project could not be installed into .venv"
    fingerprint >$stamp
fi
.venv/bin/python -m enrich.jars
