"""What must hold of the files that Prometheus, Grafana and Spark are given."""

from tests.unit.deploy.compose import Compose, Service, parse_yaml
from tests.unit.deploy.installed import spark_has_class
from tests.unit.deploy.ports import address_problems

_PROMETHEUS_KEYS = {"global", "rule_files", "scrape_configs"}
_SCRAPE_KEYS = {"job_name", "metrics_path", "static_configs"}
_DATA_SOURCE_KEYS = {"access", "isDefault", "jsonData", "name", "type", "uid", "url"}


def parse_properties(text: str) -> dict[str, str]:
    lines = (line for line in text.splitlines() if line.strip() and not line.startswith("#"))
    return {name.strip(): value.strip() for name, _, value in (line.partition("=") for line in lines)}


def prometheus_problems(compose: Compose, text: str, spark_metrics: str) -> list[str]:
    """Targets that nobody answers at, and pages of Spark that hold no metrics."""
    raw = parse_yaml(text)
    problems = [f"no such setting: {key}" for key in raw.keys() - _PROMETHEUS_KEYS]
    paths = {
        value for name, value in parse_properties(spark_metrics).items() if name.endswith(".prometheusServlet.path")
    }
    for job in raw["scrape_configs"]:
        where = f"job {job['job_name']}"
        problems += [f"{where}: no such setting: {key}" for key in job.keys() - _SCRAPE_KEYS]
        for target in (one for group in job["static_configs"] for one in group["targets"]):
            problems += address_problems(compose, target, where)
            service = compose.services.get(target.partition(":")[0])
            path = job.get("metrics_path", "/metrics")
            if service is not None and {"sync_service", "edge_service", "observe_service"} & {*service.command}:
                continue  # they answer at Prometheus' own path
            if service is not None and service.is_ours and path not in {f"{one}/" for one in paths}:
                problems.append(f"{where}: Spark has no metrics at {path}")
    mounted = {mount.target for mount in compose.services["prometheus"].mounts}
    problems += [f"{file} is not there" for file in raw["rule_files"] if f"/etc/prometheus/{file}" not in mounted]
    names = [job["job_name"] for job in raw["scrape_configs"]]
    return problems + [f"two jobs are called {name}" for name in sorted({n for n in names if names.count(n) > 1})]


def data_source_problems(compose: Compose, text: str, prometheus: str) -> list[str]:
    raw = parse_yaml(text)
    problems = []
    for source in raw["datasources"]:
        problems += [f"no such setting: {key}" for key in source.keys() - _DATA_SOURCE_KEYS]
        problems += address_problems(compose, source["url"], "data source")
        service: Service | None = next((one for one in compose.services.values() if one.name in source["url"]), None)
        if service is None or service.image_name != "prom/prometheus":
            problems.append(f"not the address of Prometheus: {source['url']}")
        interval = parse_yaml(prometheus)["global"]["scrape_interval"]
        if source["jsonData"]["timeInterval"] != interval:
            problems.append(f"the data source takes another interval for that of the scrapes, {interval}")
    if [source.get("isDefault") for source in raw["datasources"]].count(True) != 1:
        problems.append("there must be one default data source")
    return problems


def spark_metrics_problems(text: str) -> list[str]:
    return [
        f"no such class in Spark's jars: {value}"
        for name, value in parse_properties(text).items()
        if name.endswith(".class") and not spark_has_class(value)
    ]
