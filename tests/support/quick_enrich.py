"""`python -m tests.support.quick_enrich ...` is `enrich ...`, but brokers start as those of tests do."""

from enrich.cli.main import main
from tests.support.kafka.quick_broker import make_brokers_quick

if __name__ == "__main__":
    make_brokers_quick()
    main()
