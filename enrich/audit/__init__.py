"""The exact audit of a day: what was lost by the topics of events themselves, and whether the verdicts say the same.

May use `stage`, `admin`, `verdict`, `tally`, `kafka` and below. Nothing imports it but the job and its command.
"""
