"""A checkpoint is one stage's, of one pipeline; one of an earlier release becomes that of the next who begins."""

import pytest

from enrich.base.errors import WouldLoseData
from enrich.stage.progress.owner import NAME, claim, require_own


class Texts(dict[str, str]):
    def read(self, name: str) -> str | None:
        return self.get(name)

    def create(self, name: str, text: str) -> bool:
        return self.setdefault(name, text) is text


def test_it_is_of_who_has_claimed_it_first() -> None:
    checkpoint = Texts()
    require_own(checkpoint, "plays", "enrich")
    assert checkpoint == {}
    claim(checkpoint, "plays", "enrich")
    claim(checkpoint, "plays", "enrich")
    require_own(checkpoint, "plays", "enrich")
    for pipeline, stage in (("plays", "other"), ("other", "enrich")):
        for check in (require_own, claim):
            with pytest.raises(WouldLoseData, match=r"of the stage enrich of the pipeline plays: ") as raised:
                check(checkpoint, pipeline, stage)
            assert raised.value.where == f"stages.{stage}.checkpoint"
            assert str(raised.value.next_step).endswith("--from group:enrich.plays.enrich")


def test_of_two_that_begin_at_once_one_is_refused() -> None:
    class Late(Texts):
        """Where another one claims it between the question and the answer."""

        def create(self, name: str, text: str) -> bool:
            self[name] = text.replace("plays", "other")
            return False

    checkpoint = Late()
    with pytest.raises(WouldLoseData, match="pipeline other"):
        claim(checkpoint, "plays", "enrich")
    assert set(checkpoint) == {NAME}
