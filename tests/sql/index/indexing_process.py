"""A process that keeps an index until it is killed: `python indexing_process.py BOOTSTRAP TOPIC DIRECTORY`.

It writes a line to standard error whenever its index has grown.
"""

from __future__ import annotations

import sys

from moldau.sql.declarations import ColumnDeclaration, Declaration, RelationKind
from moldau.sql.index.key_index import KeyIndex


def main(bootstrap: str, topic: str, directory: str) -> None:
    columns = (ColumnDeclaration("customer", "STRING", is_key=True), ColumnDeclaration("total", "DOUBLE"))
    declaration = Declaration("totals", RelationKind.TABLE, topic, columns)
    index = KeyIndex(declaration, {"bootstrap.servers": bootstrap}, directory)
    known = -1
    while True:
        if (count := index.count()) != known:
            known = count
            print("rows:", known, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
