from pathlib import Path

import pytest


@pytest.fixture
def write_config(stack, tmp_path):
    """Writes a pipeline's file of these sections, in YAML."""

    def write(sections: str, *, servers: str | None = None, name: str = "pipeline.yaml") -> Path:
        path: Path = tmp_path / name
        path.write_text(
            f"name: test\nkafka: {{bootstrap_servers: '{servers or stack.bootstrap_servers}'}}\n"
            f"state_dir: {tmp_path}/state\n{sections}"
        )
        return path

    return write
