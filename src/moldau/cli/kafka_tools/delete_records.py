"""Tool kafka-delete-records: deletes the records before the offsets in a JSON file."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from moldau.cli.kafka_tools.tool import EXIT_ERROR, EXIT_OK, ToolError, ToolParser, client, java_text
from moldau.client.admin import SomeFailed
from moldau.client.data_types import TopicPartition
from moldau.client.errors import BrokerError, MoldauError


def parser() -> ToolParser:
    parser = ToolParser("kafka-delete-records", "Delete the records of partitions before given offsets.")
    parser.add_connection()
    parser.add_argument(
        "--offset-json-file",
        metavar="FILE",
        help='{"partitions": [{"topic": "orders", "partition": 0, "offset": 5}], "version": 1}',
    )
    return parser


def main(arguments: Sequence[str]) -> int:
    options_parser = parser()
    options = options_parser.parse(arguments)
    for name in ("bootstrap_server", "offset_json_file"):
        if getattr(options, name) is None:
            options_parser.error(f'Missing required argument "[{name.replace("_", "-")}]"')
    try:
        offsets = parse_offsets(read(options.offset_json_file))
        with client(options) as admin:
            print("Executing records delete operation")
            print("Records delete operation completed:")
            results: dict[TopicPartition, int | MoldauError]
            try:
                results = dict(admin.delete_records(offsets))
            except SomeFailed as some:
                results = {**some.results, **some.errors}
            except BrokerError as error:
                results = dict.fromkeys(offsets, error)
            for one in sorted(results):
                result = results[one]
                if isinstance(result, MoldauError):
                    print(f"partition: {one}\terror: {java_text(result)}")
                else:
                    print(f"partition: {one}\tlow_watermark: {result}")
    except (ToolError, MoldauError) as error:
        print(error, file=sys.stderr)
        return EXIT_ERROR
    return EXIT_OK


def read(file: str) -> str:
    try:
        return Path(file).read_text()
    except OSError:
        raise ToolError(f"Unable to read file {file}") from None


def parse_offsets(text: str) -> dict[TopicPartition, int]:
    try:
        content = json.loads(text)
    except ValueError:
        raise ToolError("The input string is not a valid JSON") from None
    try:
        if content.get("version", 1) != 1:
            raise ToolError(f"Not supported version field value {content['version']}")
        pairs = [
            (TopicPartition(str(one["topic"]), int(one["partition"])), int(one["offset"]))
            for one in content["partitions"]
        ]
    except (KeyError, TypeError, ValueError, AttributeError):
        raise ToolError(
            'The JSON must be {"partitions": [{"topic": …, "partition": …, "offset": …}], "version": 1}'
        ) from None
    twice = [str(one) for one, number in Counter(one for one, _ in pairs).items() if number > 1]
    if twice:
        raise ToolError(f"Offset json file contains duplicate topic partitions: {','.join(twice)}")
    return dict(pairs)
