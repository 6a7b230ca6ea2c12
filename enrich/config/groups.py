"""The consumer groups of a pipeline's programs. Administrators give rights by these names, and audits ask for them."""


def stage_group(pipeline: str, stage: str) -> str:
    return f"enrich.{pipeline}.{stage}"


def writeback_group(pipeline: str, route: str) -> str:
    return f"enrich.sync.{pipeline}.{route}"


def source_group(pipeline: str, source: str) -> str:
    """By which the instances of the sync service take turns; also what a source's transactions are named by."""
    return f"enrich.source.{pipeline}.{source}"


def expel_group(pipeline: str, route: str) -> str:
    return f"enrich.expel.{pipeline}.{route}"


def retrier_group(pipeline: str, route: str) -> str:
    """Of the retry topics of a route of expel."""
    return f"enrich.retrier.{pipeline}.{route}"
