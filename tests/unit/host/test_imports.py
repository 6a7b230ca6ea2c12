"""Outcomes of imports, which their commands fetch at any moment."""

from enrich.host.ipc.imports import Imports


def test_an_agent_starts_also_if_an_outcome_is_fetched_at_that_moment(tmp_path):
    (tmp_path / f"{'0' * 32}.outcome").symlink_to("nowhere")  # it is listed, and not there when it is looked at
    Imports(tmp_path)
