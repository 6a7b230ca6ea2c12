"""`python -m enrich` is the command `enrich`."""

from enrich.cli.main import main

main()
