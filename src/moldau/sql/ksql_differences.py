"""Differences from ksqlDB: its words that mean nothing or something else here, and what to write instead."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

STATEMENTS: Final[Mapping[tuple[str, ...], str]] = {
    ("CREATE", "CONNECTOR"): "connectors are configured with moldau connect create",
    ("CREATE", "SOURCE", "CONNECTOR"): "connectors are configured with moldau connect create",
    ("CREATE", "SINK", "CONNECTOR"): "connectors are configured with moldau connect create",
    ("DROP", "CONNECTOR"): "connectors are removed with moldau connect delete",
    ("SHOW", "CONNECTORS"): "connectors are listed with moldau connect list",
    ("DESCRIBE", "CONNECTOR"): "connectors are described with moldau connect status",
    ("CREATE", "SOURCE"): "every declared relation may be queried: write CREATE STREAM or CREATE TABLE without SOURCE",
    ("CREATE", "TYPE"): "write the type in the column: address STRUCT<street: STRING, city: STRING>",
    ("DROP", "TYPE"): "there are no named types: the type is written in each column",
    ("SHOW", "TYPES"): "there are no named types: the type is written in each column",
    ("CREATE", "FUNCTION"): "there are no user-defined functions: use Spark's (SHOW FUNCTIONS lists them)",
    ("DROP", "FUNCTION"): "there are no user-defined functions: use Spark's (SHOW FUNCTIONS lists them)",
    ("DROP", "TOPIC"): "write DROP STREAM name DELETE TOPIC, or run moldau topics delete",
    (
        "CREATE",
        "TOPIC",
    ): "write CREATE STREAM name (columns) WITH (topic='name', partitions=3), or run moldau topics create",
    ("CREATE", "VIEW"): "write the query in WITH name AS (SELECT …) SELECT …, or CREATE STREAM name AS SELECT …",
    ("CREATE", "TEMPORARY"): "write the query in WITH name AS (SELECT …) SELECT …, or CREATE STREAM name AS SELECT …",
    ("ALTER",): "write CREATE OR REPLACE STREAM or CREATE OR REPLACE TABLE with all columns",
    ("ASSERT",): "SHOW TOPICS lists the topics; a statement that names a missing topic fails",
    ("SPOOL",): "send the output of moldau sql -f FILE to a file of your shell",
    ("RESET",): "write UNSET name",
    ("DELETE",): "records are not deleted: insert a record with the key and a null value to delete a row of a TABLE",
    ("UPDATE",): "insert a record with the same key to change a row of a TABLE: INSERT INTO name VALUES (…)",
    ("MERGE",): "insert a record with the same key to change a row of a TABLE: INSERT INTO name VALUES (…)",
    ("TRUNCATE",): "run moldau topics delete, or set the topic's retention.ms",
    ("USE",): "there is one name space: the topics of the cluster",
    ("SHOW", "ALL"): "write SHOW TOPICS",
    ("SHOW", "COLUMNS"): "write DESCRIBE name",
    ("SHOW", "CREATE"): "write DESCRIBE name EXTENDED",
    ("SHOW", "DATABASES"): "there is one name space: the topics of the cluster",
    ("SHOW", "SCHEMAS"): "there is one name space: the topics of the cluster",
}
"""Statements by their first words, LIST as SHOW, with the statement to write instead. The longest match counts."""

FUNCTIONS: Final[Mapping[str, str]] = {
    "LATEST_BY_OFFSET": "max_by(column, offset)",
    "EARLIEST_BY_OFFSET": "min_by(column, offset)",
    "TOPK": "slice(sort_array(collect_list(column), false), 1, k)",
    "TOPKDISTINCT": "slice(sort_array(collect_set(column), false), 1, k)",
    "COUNT_DISTINCT": "approx_count_distinct(column)",
    "HISTOGRAM": "a count for each value: SELECT column, count(*) … GROUP BY column",
    "ATTR": "any_value(column)",
    "AS_VALUE": "the column itself: column AS name",
    "STRINGTOTIMESTAMP": "unix_millis(to_timestamp(text, pattern))",
    "TIMESTAMPTOSTRING": "date_format(timestamp_millis(number), pattern)",
    "STRINGTODATE": "to_date(text, pattern)",
    "DATETOSTRING": "date_format(date, pattern)",
    "PARSE_TIMESTAMP": "to_timestamp(text, pattern)",
    "FORMAT_TIMESTAMP": "date_format(timestamp, pattern)",
    "PARSE_DATE": "to_date(text, pattern)",
    "FORMAT_DATE": "date_format(date, pattern)",
    "CONVERT_TZ": "convert_timezone(from, to, timestamp)",
    "EXTRACTJSONFIELD": "get_json_object(text, '$.field')",
    "JSON_RECORDS": "from_json(text, 'MAP<STRING, STRING>')",
    "JSON_KEYS": "json_object_keys(text)",
    "IS_JSON_STRING": "get_json_object(text, '$') IS NOT NULL",
    "ARRAY_LENGTH": "array_size(array)",
    "GENERATE_SERIES": "sequence(from, to)",
    "MASK_LEFT": "mask(left(text, n)) || substring(text, n + 1)",
    "MASK_RIGHT": "left(text, length(text) - n) || mask(right(text, n))",
    "URL_ENCODE_PARAM": "url_encode(text)",
    "URL_DECODE_PARAM": "url_decode(text)",
    "URL_EXTRACT_HOST": "parse_url(text, 'HOST')",
    "URL_EXTRACT_PATH": "parse_url(text, 'PATH')",
    "URL_EXTRACT_QUERY": "parse_url(text, 'QUERY')",
    "URL_EXTRACT_PROTOCOL": "parse_url(text, 'PROTOCOL')",
    "URL_EXTRACT_PARAMETER": "parse_url(text, 'QUERY', name)",
    "GEO_DISTANCE": "the formula with acos, sin, cos and radians",
}
"""Functions that Spark does not have."""

COLUMNS: Final[Mapping[str, str]] = {
    "ROWTIME": "timestamp (or unix_millis(timestamp) for milliseconds)",
    "ROWKEY": "key",
    "ROWOFFSET": "offset",
    "ROWPARTITION": "partition",
    "WINDOWSTART": "window.start (or unix_millis(window.start) for milliseconds)",
    "WINDOWEND": "window.end (or unix_millis(window.end) for milliseconds)",
}
"""Columns that every ksqlDB relation has. A topic may have a field of that name, therefore only the error for a column
that does not exist names these."""

SETTINGS: Final[Mapping[str, str]] = {
    "window_type": "select the window's start and end as columns",
    "window_size": "select the window's start and end as columns",
    "wrap_single_value": "a value is always an object; value_format='string' has one column without a name",
    "key_schema_id": "declare the columns",
    "value_schema_id": "declare the columns",
    "key_schema_full_name": "declare the columns",
    "value_schema_full_name": "declare the columns",
    "key_protobuf_nullable_representation": "leave it out",
    "value_protobuf_nullable_representation": "leave it out",
    "source": "leave it out",
}
"""Settings of the WITH clause that have no meaning here."""
