"""Choice between native modules and their Python references, for every package that has both."""

import os
import subprocess
import sys

from moldau.records import reference
from moldau.records.native_modules import native_or_reference

EVERY_CHOICE = """
from moldau.client.consumer import decode
from moldau.client.producer import engine as producer
from moldau.log.clean import engine as clean
from moldau.records import arrow_engine as arrow, engine as records

chosen = records.walk, arrow.BatchCursor, arrow.RowEncoder, clean.OffsetMap, producer.Accumulator, decode.Record
print(*(one.__module__.rpartition(".")[2].startswith("_") for one in chosen))
"""


def test_a_native_module_that_was_not_built_is_replaced_by_its_reference():
    assert native_or_reference("moldau.records._not_built", "moldau.records.reference") is reference


def test_every_engine_is_plain_python_if_the_environment_asks_for_it():
    environment = {**os.environ, "MOLDAU_PURE": "1"}
    answer = subprocess.run(
        [sys.executable, "-c", EVERY_CHOICE], env=environment, check=True, capture_output=True, text=True
    )
    assert set(answer.stdout.split()) == {"False"}
