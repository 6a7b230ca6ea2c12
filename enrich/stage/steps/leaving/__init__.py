"""What becomes of a batch's events at the end: on which routes they go, as whole events or parts of them, with which
headers; and the records that leave, for stages whose workers write them.

It may use the other steps. Of those only the one that counts what became of events may use it.
"""
