"""The manifests of deploy/kubernetes agree with each other, with the image and with the command line."""

import re

import kubernetes_validate
import pytest
from ruamel.yaml import YAML

from enrich.config import load_text
from enrich.stage.run import draining
from tests.unit.deploy.commands import command_problems
from tests.unit.deploy.compose_checks import STOP_S
from tests.unit.deploy.installed import locked, project, pyspark_folder, read


def documents_of(name):
    return list(YAML(typ="safe", pure=True).load_all(read(f"deploy/kubernetes/{name}.yaml")))


DOCUMENTS = {one["kind"]: one for one in documents_of("stage")}
POD = DOCUMENTS["Deployment"]["spec"]["template"]
(DRIVER,) = POD["spec"]["containers"]
SETTINGS = dict(argument.removeprefix("--conf=").split("=", 1) for argument in DRIVER["args"] if "--conf=" in argument)
IMAGE = read("deploy/kubernetes/Dockerfile")


def manifests(*kinds):
    return [
        pytest.param(document, id=f"{name}-{document['kind']}-{document['metadata']['name']}")
        for name in ("stage", "sync", "edges")
        for document in documents_of(name)
        if not kinds or document["kind"] in kinds
    ]


@pytest.mark.parametrize("document", manifests())
def test_kubernetes_knows_each_field_of_a_manifest(document):
    newest = kubernetes_validate.latest_version()
    kubernetes_validate.validate(document, newest, strict=True)
    with pytest.raises(kubernetes_validate.ValidationError, match="immutabel"):
        kubernetes_validate.validate({**document, "immutabel": True}, newest, strict=True)


@pytest.mark.parametrize("document", manifests("Deployment"))
def test_a_namespace_that_is_restricted_takes_our_containers(document):
    for container in document["spec"]["template"]["spec"]["containers"]:
        assert container["securityContext"] == {
            "runAsNonRoot": True,
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "seccompProfile": {"type": "RuntimeDefault"},
        }


@pytest.mark.parametrize("document", manifests("Deployment"))
def test_no_program_is_the_first_process_of_its_namespace(document):
    """The kernel drops signals to that one for which it has no handler, as while it starts."""
    assert document["spec"]["template"]["spec"]["shareProcessNamespace"] is True


def test_the_parts_find_each_other():
    labels = POD["metadata"]["labels"]
    assert DOCUMENTS["Deployment"]["spec"]["selector"]["matchLabels"] == labels
    assert DOCUMENTS["Service"]["spec"]["selector"] == labels
    service = DOCUMENTS["Service"]["metadata"]["name"]
    assert SETTINGS["spark.driver.host"] == f"{service}.{SETTINGS['spark.kubernetes.namespace']}.svc"
    account = DOCUMENTS["ServiceAccount"]["metadata"]["name"]
    assert POD["spec"]["serviceAccountName"] == account
    assert SETTINGS["spark.kubernetes.authenticate.serviceAccountName"] == account
    assert [subject["name"] for subject in DOCUMENTS["RoleBinding"]["subjects"]] == [account]
    assert DOCUMENTS["RoleBinding"]["roleRef"]["name"] == DOCUMENTS["Role"]["metadata"]["name"]
    (volume,) = POD["spec"]["volumes"]
    (mount,) = DRIVER["volumeMounts"]
    assert volume["name"] == mount["name"]
    assert volume["configMap"]["name"] == DOCUMENTS["ConfigMap"]["metadata"]["name"]
    (file,) = DOCUMENTS["ConfigMap"]["data"]
    assert f"{mount['mountPath']}/{file}" in DRIVER["command"]


def test_a_driver_that_drains_is_still_found():
    # A pod that was told to end is ready no more, and a headless Service names only what is ready.
    assert DOCUMENTS["Service"]["spec"]["publishNotReadyAddresses"] is True


@pytest.mark.parametrize("name", ["sync", "edges"])
def test_no_two_pods_write_to_the_same_volume(name):
    deployments = [one["spec"] for one in documents_of(name) if one["kind"] == "Deployment"]
    assert deployments
    for spec in deployments:
        volumes = {volume["name"]: volume for volume in spec["template"]["spec"]["volumes"]}
        (container,) = spec["template"]["spec"]["containers"]
        written = [mount["name"] for mount in container["volumeMounts"] if not mount.get("readOnly")]
        assert [volumes[one] for one in written] == [{"name": "state", "emptyDir": {}}]


def test_the_ports_are_the_same_everywhere():
    ports = {one["name"]: one["port"] for one in DOCUMENTS["Service"]["spec"]["ports"]}
    assert {one["name"]: one["containerPort"] for one in DRIVER["ports"]} == ports
    assert SETTINGS["spark.driver.port"] == str(ports["driver"])
    assert SETTINGS["spark.driver.blockManager.port"] == str(ports["blocks"])
    assert POD["metadata"]["annotations"]["prometheus.io/port"] == str(ports["metrics"])
    assert _pipeline().stages["enrich"].metrics_port == ports["metrics"]


def test_the_pipeline_is_one_and_has_the_stage_that_is_run():
    assert DRIVER["command"][DRIVER["command"].index("run") + 1] in _pipeline().stages
    state = SETTINGS["spark.kubernetes.executor.volumes.emptyDir.state.mount.path"]
    assert str(_pipeline().state_dir) == state
    assert command_problems([*DRIVER["command"], *DRIVER["args"]]) == []


def test_a_stage_may_drain_for_as_long_as_it_takes():
    least_s = draining.DEADLINE_S + 2 * draining._STOP_S
    assert POD["spec"]["terminationGracePeriodSeconds"] > 1.5 * least_s  # what follows the last batch takes time, too


@pytest.mark.parametrize("name", ["stage", "sync", "edges"])
def test_a_manifest_names_the_image_by_its_version(name):
    pods = [one["spec"]["template"]["spec"] for one in documents_of(name) if one["kind"] == "Deployment"]
    versions = {container["image"].rpartition(":")[2] for pod in pods for container in pod["containers"]}
    assert versions == {project()["version"]}
    assert f"FROM enrich:{project()['version']}\n" in IMAGE


def test_the_image_has_the_spark_that_is_locked_and_its_home():
    version = locked(read("requirements.lock"))["pyspark"]
    assert f"FROM apache/spark:{version} AS" in IMAGE
    (home,) = re.findall(r"SPARK_HOME=(\S+)", IMAGE)
    assert home.endswith("/".join(pyspark_folder().parts[-3:]))
    assert SETTINGS["spark.kubernetes.container.image"] == DRIVER["image"]
    assert f"docker build -t {DRIVER['image']} deploy/kubernetes" in read("docs/clusters.md")


@pytest.mark.parametrize("name", sorted(SETTINGS))
def test_every_setting_is_one_of_sparks(name):
    assert re.fullmatch(r"spark\.(kubernetes|driver|executor)\.[\w.]+", name)


SYNC = {one["kind"]: one for one in documents_of("sync")}


@pytest.mark.parametrize("name", ["stage", "sync", "edges"])
def test_no_mount_hides_what_the_image_has(name):
    image = read("Dockerfile")
    (spark,) = re.findall(r"SPARK_CONF_DIR=(\S+)", image)
    deployments = [one for one in documents_of(name) if one["kind"] == "Deployment"]
    assert deployments
    for deployment in deployments:
        (container,) = deployment["spec"]["template"]["spec"]["containers"]
        mounted = [mount["mountPath"] for mount in container["volumeMounts"]]
        assert [path for path in mounted if f"{spark}/".startswith(f"{path}/")] == []


def test_the_sync_service_reads_its_file_and_answers_where_it_is_asked():
    pod = SYNC["Deployment"]["spec"]["template"]
    (container,) = pod["spec"]["containers"]
    assert SYNC["Deployment"]["spec"]["selector"]["matchLabels"] == pod["metadata"]["labels"]
    assert SYNC["Service"]["spec"]["selector"] == pod["metadata"]["labels"]
    assert command_problems(container["command"]) == []
    (file,) = SYNC["ConfigMap"]["data"]
    config_mount, state_mount = container["volumeMounts"]
    assert f"{config_mount['mountPath']}/{file}" in container["command"]
    volumes = {volume["name"]: volume for volume in pod["spec"]["volumes"]}
    assert volumes[config_mount["name"]]["configMap"]["name"] == SYNC["ConfigMap"]["metadata"]["name"]
    pipeline = load_text(SYNC["ConfigMap"]["data"][file], {"REDIS_PASSWORD": "x"})
    assert pipeline.sync is not None and pipeline.state_dir == state_mount["mountPath"]
    port = int(pipeline.sync.listen.rpartition(":")[2])
    assert [one["port"] for one in SYNC["Service"]["spec"]["ports"]] == [port]
    assert [one["containerPort"] for one in container["ports"]] == [port]
    assert {container[probe]["httpGet"]["path"] for probe in ("livenessProbe", "readinessProbe")} == {
        "/healthz",
        "/readyz",
    }
    assert pod["spec"]["terminationGracePeriodSeconds"] > STOP_S
    assert container["resources"]["limits"]["memory"]


EDGES = documents_of("edges")
ROLES = ("ingest", "expel", "retrier", "observe")
SECRETS = {"PLAYS_TOKEN": "x", "ACME_SECRET": "whsec_" + "A" * 32, "OBSERVER_TOKEN": "x"}


def of_edges(kind, name):
    (found,) = (one for one in EDGES if one["kind"] == kind and one["metadata"]["name"] == name)
    return found


def test_the_edges_are_deployments_with_a_service_each_and_one_file():
    assert sorted((one["kind"], one["metadata"]["name"]) for one in EDGES) == sorted(
        [
            ("ConfigMap", "enrich-edges"),
            *((kind, f"enrich-{role}") for kind in ("Service", "Deployment") for role in ROLES),
        ]
    )


@pytest.mark.parametrize("role", ROLES)
def test_each_edge_reads_the_file_and_answers_where_it_is_asked(role):
    deployment, service = of_edges("Deployment", f"enrich-{role}"), of_edges("Service", f"enrich-{role}")
    pod = deployment["spec"]["template"]
    (container,) = pod["spec"]["containers"]
    assert deployment["spec"]["selector"]["matchLabels"] == pod["metadata"]["labels"] == service["spec"]["selector"]
    assert command_problems(container["command"]) == []
    assert container["command"][3:5] == [role, "run"]
    config = of_edges("ConfigMap", "enrich-edges")
    (file,) = config["data"]
    config_mount, state_mount = container["volumeMounts"]
    assert container["command"][-1] == f"{config_mount['mountPath']}/{file}"
    volumes = {volume["name"]: volume for volume in pod["spec"]["volumes"]}
    assert volumes[config_mount["name"]]["configMap"]["name"] == config["metadata"]["name"]
    assert volumes.keys() == {config_mount["name"], state_mount["name"]}
    pipeline = load_text(config["data"][file], SECRETS)
    assert pipeline.state_dir == state_mount["mountPath"]
    ports = {one["name"]: one["containerPort"] for one in container["ports"]}
    observe = pipeline.observe
    page = observe.listen if observe is not None and role == "observe" else getattr(pipeline.pages, role)
    assert ports.pop("status") == int(page.rpartition(":")[2])
    entries = pipeline.ingest.values() if role == "ingest" else ()
    assert list(ports.values()) == [int(entry.listen.rpartition(":")[2]) for entry in entries]
    offered = {one["name"]: one.get("targetPort", one["port"]) for one in service["spec"]["ports"]}
    assert offered.pop("status") == int(pod["metadata"]["annotations"]["prometheus.io/port"])
    assert list(offered.values()) == list(ports)
    probes = [container[probe]["httpGet"] for probe in ("livenessProbe", "readinessProbe")]
    assert probes == [{"path": "/healthz", "port": "status"}, {"path": "/readyz", "port": "status"}]
    pause_s = int(container["lifecycle"]["preStop"]["exec"]["command"][-1]) if "lifecycle" in container else 0
    assert pod["spec"]["terminationGracePeriodSeconds"] > pause_s + STOP_S
    assert container["resources"]["limits"]["memory"] and container["resources"]["requests"]["cpu"]


def test_the_secrets_of_the_edges_come_from_the_secret_that_the_page_says_how_to_make():
    text = read("deploy/kubernetes/edges.yaml")
    assert set(re.findall(r"\$\{(\w+)", text)) == SECRETS.keys()
    assert all(f"--from-literal={name}=" in read("docs/deployment.md") for name in SECRETS)
    for role in ROLES:
        (container,) = of_edges("Deployment", f"enrich-{role}")["spec"]["template"]["spec"]["containers"]
        assert container["envFrom"] == [{"secretRef": {"name": "enrich-edges"}}]


def _pipeline():
    return load_text(DOCUMENTS["ConfigMap"]["data"]["pipeline.yaml"])
