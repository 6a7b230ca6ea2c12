"""The schemas of Avro: from where they come, which types they have, and whether one can be read as another.

It may use nothing of the decoder.
"""
