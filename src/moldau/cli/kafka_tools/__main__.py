"""Entry point of the scripts: `python -m moldau.cli.kafka_tools TOOL ...`."""

import sys

from moldau.cli.kafka_tools.scripts import run


def main() -> None:
    try:
        code = run(sys.argv[1:])
        sys.stdout.flush()
    except BrokenPipeError:  # the reader of our output has exited
        sys.stderr.close()
        code = 0
    sys.exit(code)


main()
