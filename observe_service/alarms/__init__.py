"""What people are woken for: which causes there are now, each said once with its end, and how they hear of it.

May use `observe_service.verdicts` and `enrich.endpoints`. Nothing here decides what is lost.
"""
