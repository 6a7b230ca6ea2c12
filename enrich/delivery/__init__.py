"""Reads topics, hands the records to a sink, and commits the offsets of what the sink has settled.

`flow` is the loop. Its parts: `reading` polls records; `writing` hands them to the sink in batches, `sending` as a
stream with a `window` for each partition; `committing` commits what is settled or goes back; `assigning` begins and
gives up partitions. What is known of each stands in `partitions`; `refused` is for records that are not delivered.

May import `kafka` and below. Callers supply the sink. Used by write-back in the sync service, and by expel.
"""
