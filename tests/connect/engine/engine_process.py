"""Engine in its own process: runs the connectors of a JSON file until its standard input ends.

python engine_process.py BOOTSTRAP GROUP CONNECTORS.json
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parents[2]), str(HERE / "plugins")]
os.environ["PYTHONPATH"] = str(HERE / "plugins")
os.environ["PYSPARK_PYTHON"] = sys.executable


def main() -> None:
    from tests.connect.engine.conftest import Worker

    bootstrap, group, connectors = sys.argv[1:]
    worker = Worker(bootstrap, group)
    for name, config in json.loads(Path(connectors).read_text()).items():
        worker.engine.start(name, config)
    print("started", flush=True)
    sys.stdin.read()
    worker.close()


if __name__ == "__main__":
    main()
