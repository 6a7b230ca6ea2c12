"""Which of Spark's expressions become which calls, by class: the table of what workers evaluate.

What is here has passed `tests/property/stage/test_compute.py`: its answers are Spark's for odd values too. What cannot
be made equal is left out, or restricted to the types and constants for which it is.
"""

from collections.abc import Mapping

from enrich.stage.compute.rules.lists import LIST_RULES
from enrich.stage.compute.rules.logic import LOGIC_RULES
from enrich.stage.compute.rules.numbers import NUMBER_RULES
from enrich.stage.compute.rules.reader import Reader, Rule
from enrich.stage.compute.rules.structure import STRUCTURE
from enrich.stage.compute.rules.text import TEXT_RULES
from enrich.stage.compute.rules.times import TIME_RULES

RULES: Mapping[str, Rule] = {**STRUCTURE, **LOGIC_RULES, **TEXT_RULES, **NUMBER_RULES, **TIME_RULES, **LIST_RULES}

__all__ = ["RULES", "Reader"]
