#!/bin/sh
# Makes an archive of Spark's classes, unless there is one. A stage starts in half the processor time with it; without it
# everything works, too. An archive is of one Java and one Spark.
set -eu
cd "$(dirname "$0")/.."
java=${JAVA_HOME:+$JAVA_HOME/bin/java}
java=$(ls -lL "${java:-$(command -v java)}" 2>/dev/null || true)
made_for="$java $(cat .venv/.complete)"
archives=.venv/share/enrich
if [ "$(cat $archives/made_for 2>/dev/null)" != "$made_for" ]; then
    echo "setup: making an archive of Spark's classes, for quick starts (a quarter of a minute)" >&2
    rm -f $archives/spark-*.jsa
    if .venv/bin/python -m enrich.stage.spark.jvm_start >/dev/null 2>&1; then
        mkdir -p $archives && echo "$made_for" >$archives/made_for
    else
        echo "setup: there is no archive" >&2
    fi
fi
