import pytest

from enrich.base.errors import ConfigError
from enrich.cli.services.statuses import loaded_with


@pytest.mark.parametrize("section", ["ingest", "expel", "sync"])
def test_of_a_section_that_is_not_there_nobody_is_asked(tmp_path, section):
    file = tmp_path / "pipeline.yaml"
    file.write_text("name: plays\nkafka: {bootstrap_servers: 'localhost:1'}\n")
    with pytest.raises(ConfigError, match=f"has no section `{section}`") as caught:
        loaded_with(section, file)
    assert caught.value.where == str(file)
