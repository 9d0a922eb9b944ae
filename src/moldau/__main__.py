"""`python -m moldau` is the `moldau` command."""

from moldau.cli.main import main

main()
