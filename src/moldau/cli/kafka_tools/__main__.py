"""`python -m moldau.cli.kafka_tools TOOL ...`: what the scripts call."""

import sys

from moldau.cli.kafka_tools.scripts import run


def main() -> None:
    try:
        code = run(sys.argv[1:])
        sys.stdout.flush()
    except BrokenPipeError:  # the reader of our output has had enough
        sys.stderr.close()
        code = 0
    sys.exit(code)


main()
