"""`enrich doctor`: checks everything that a newcomer gets wrong, changes nothing, and says what to do."""

from enrich.admin.doctor.verdict import Level, Verdict

__all__ = ["Level", "Verdict"]
