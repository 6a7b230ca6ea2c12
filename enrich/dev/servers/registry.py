"""A real schema registry: Apicurio, with the API of Confluent's registry."""

import http.client
from dataclasses import dataclass

from enrich.base.errors import ConfigError
from enrich.dev.servers import java
from enrich.dev.servers.server import HOST, Command, Home, Prepare, RunStep, Server
from enrich.jars import Report, unpacked

_API = "/apis/ccompat/v7"
_HEAP = "512m"


@dataclass(frozen=True)
class Registry(Server):
    name: str = "registry"
    port_names: tuple[str, ...] = ("http",)
    patience: float = 120.0

    def equip(self, report: Report | None) -> Prepare:
        program = java.find_java()
        folder = unpacked("registry", report)
        runners = sorted(folder.glob("*-runner.jar"))
        if not runners:
            raise ConfigError("the archive of the schema registry holds no runner", where=str(folder))

        def prepare(home: Home, run: RunStep) -> Command:  # noqa: ARG001 - the registry makes its own files
            environment = {
                "QUARKUS_HTTP_HOST": HOST,
                "QUARKUS_HTTP_PORT": str(home.port),
                "QUARKUS_HTTP_ACCESS_LOG_ENABLED": "false",
                # By default it stores in memory. WRITE_DELAY=0: each commit is handed to the kernel before it is
                # acknowledged (H2 would wait half a second), so that schemas survive a kill.
                "APICURIO_STORAGE_KIND": "sql",
                "APICURIO_STORAGE_SQL_KIND": "h2",
                "APICURIO_DATASOURCE_URL": "jdbc:h2:file:./data/registry;WRITE_DELAY=0",
            }
            # Ready in 2.3 s instead of 3.3 s with the simple collector and compiler (measured).
            flags = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
            argv = (str(program), *java.arguments(home.folder, _HEAP), *flags, "-jar", str(runners[0]))
            return Command(argv, environment)

        return prepare

    def answers(self, home: Home) -> bool:
        # http.client, not urllib: that would send a request to the loopback interface through HTTP_PROXY.
        connection = http.client.HTTPConnection(HOST, home.port, timeout=2.0)
        try:
            connection.request("GET", f"{_API}/subjects")
            return connection.getresponse().status == http.HTTPStatus.OK
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    def address(self, home: Home) -> str:
        return f"http://{HOST}:{home.port}{_API}"
