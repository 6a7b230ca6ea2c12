"""`python -m stores.segments`: compiles the loops now, for an image or a host that must start fast."""

from stores.segments.warm import compile_loops

if __name__ == "__main__":
    compile_loops()
