"""Settings of the file sinks, under their own names and under those of Confluent's S3 and HDFS sinks."""

from __future__ import annotations

import json
import zoneinfo
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from moldau.connect.config_def import (
    ConfigDef,
    ConfigError,
    ConfigKey,
    ConfigType,
    Importance,
    between,
    not_empty,
    one_of,
)
from moldau.connect.connectors.file_formats import FORMATS
from moldau.connect.connectors.file_store import UnknownStoreError, open_store
from moldau.connect.connectors.path_format import PathFormat
from moldau.connect.connectors.sink_partitioners import ByField, ByKafkaPartition, ByTime, DirectoryChoice, TopicOnly

HOURLY: Final = "'year'=YYYY/'month'=MM/'day'=dd/'hour'=HH"
DAILY: Final = "'year'=YYYY/'month'=MM/'day'=dd"

FORMAT_CLASSES: Final[Mapping[str, str]] = {
    "ParquetFormat": "parquet",
    "AvroFormat": "avro",
    "JsonFormat": "json",
    "StringFormat": "text",
    "ByteArrayFormat": "bytes",
}
PARTITIONER_CLASSES: Final[Mapping[str, str]] = {
    "DefaultPartitioner": "partition",
    "FieldPartitioner": "field",
    "TimeBasedPartitioner": "time",
    "DailyPartitioner": "daily",
    "HourlyPartitioner": "hourly",
}
PARTITIONERS: Final = ("partition", "none", "field", "time", "daily", "hourly")
EXTRACTORS: Final = ("wallclock", "record", "recordfield")


@dataclass(frozen=True)
class FileSinkPlan:
    """What the settings of all file sinks come down to."""

    url: str
    format: str
    codec: str
    partitioner: DirectoryChoice
    flush_size: int
    rotate_ms: int
    schedule_ms: int
    null_values: str
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    separator: bytes = b"\n"
    offset_width: int = 10
    delimiter: str = "+"
    end_offset_in_name: bool = False


def _short(classes: Mapping[str, str], names: tuple[str, ...]) -> Any:
    """A validator for a class name or a short name."""

    def check(name: str, value: Any) -> str | None:
        if value in names or short_name(classes, value) in names:
            return None
        return f"Invalid value {value} for configuration {name}: must be one of: {', '.join((*names, *classes))}"

    return check


def short_name(classes: Mapping[str, str], value: str) -> str:
    return classes.get(value.rpartition(".")[2], value)


def _check_path_format(name: str, value: Any) -> str | None:
    try:
        if value:
            PathFormat(value)
    except ValueError as error:
        return f"Invalid value {value} for configuration {name}: {error}"
    return None


def _check_timezone(name: str, value: Any) -> str | None:
    try:
        if value:
            zoneinfo.ZoneInfo(value)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        return f"Invalid value {value} for configuration {name}: no such time zone"
    return None


def _check_json(name: str, value: Any) -> str | None:
    if not value or isinstance(value, dict):
        return None
    try:
        if isinstance(json.loads(value), dict):
            return None
    except ValueError:
        pass
    return f"Invalid value for configuration {name}: it must be a JSON object"


def _check_extractor(name: str, value: Any) -> str | None:
    if _extractor(value) in EXTRACTORS:
        return None
    return f"Invalid value {value} for configuration {name}: must be one of: Wallclock, Record, RecordField"


def _extractor(value: str) -> str:
    """`Record`, or the class name `…TimeBasedPartitioner$RecordTimestampExtractor`."""
    return value.rpartition("$")[2].removesuffix("TimestampExtractor").lower()


def _common(flush_size: ConfigKey, schedule_ms: int) -> list[ConfigKey]:
    """The settings that all file sinks have, with Confluent's names and defaults."""
    text, long = ConfigType.STRING, ConfigType.LONG
    return [
        flush_size,
        ConfigKey(
            "rotate.interval.ms",
            long,
            "A record that is younger by this than the first of its file begins a new one.",
            -1,
        ),
        ConfigKey(
            "rotate.schedule.interval.ms", long, "How long records wait for flush.size; -1: without limit.", schedule_ms
        ),
        ConfigKey("partition.field.name", ConfigType.LIST, "Fields of the partitioner field.", ()),
        ConfigKey("partition.duration.ms", long, "The time that one directory of the partitioner time covers.", -1),
        ConfigKey(
            "path.format",
            text,
            f"Directories of the partitioner time, such as {HOURLY}",
            "",
            validator=_check_path_format,
        ),
        ConfigKey("locale", text, "Without effect: directories have numbers only.", ""),
        ConfigKey("timezone", text, "Time zone of the directories.", "", validator=_check_timezone),
        ConfigKey(
            "timestamp.extractor", text, "Wallclock, Record or RecordField.", "Wallclock", validator=_check_extractor
        ),
        ConfigKey("timestamp.field", text, "The field of the extractor RecordField.", "timestamp"),
        ConfigKey(
            "behavior.on.null.values",
            text,
            "Records without a value: fail or ignore.",
            "fail",
            validator=one_of("fail", "ignore"),
        ),
        ConfigKey(
            "parquet.codec", text, "Compression of Parquet.", "snappy", validator=one_of(*FORMATS["parquet"].codecs)
        ),
        ConfigKey("avro.codec", text, "Compression of Avro.", "null", validator=one_of(*FORMATS["avro"].codecs)),
        ConfigKey(
            "filename.offset.zero.pad.width",
            ConfigType.INT,
            "Digits of offsets in names.",
            10,
            validator=between(0, 20),
        ),
        ConfigKey("file.delim", text, "Between the parts of a file's name.", "+", validator=one_of("+", "-", "_", ".")),
        ConfigKey("format.bytearray.separator", text, "After each record of the format bytes.", None),
        ConfigKey(
            "schema.compatibility",
            text,
            "Only NONE: a new schema begins a new file.",
            "NONE",
            validator=one_of("NONE", "none"),
        ),
    ]


_OWN_FLUSH: Final = ConfigKey(
    "flush.size", ConfigType.INT, "Records of a file at most.", 100_000, Importance.HIGH, between(1)
)
_CONFLUENT_FLUSH: Final = ConfigKey(
    "flush.size", ConfigType.INT, "Records of a file.", importance=Importance.HIGH, validator=between(1)
)
_CLASSES: Final = [
    ConfigKey(
        "format.class",
        ConfigType.CLASS,
        "The format of the files.",
        "io.confluent.connect.s3.format.avro.AvroFormat",
        Importance.HIGH,
        _short(FORMAT_CLASSES, tuple(FORMATS)),
    ),
    ConfigKey(
        "partitioner.class",
        ConfigType.CLASS,
        "The partitioner.",
        "io.confluent.connect.storage.partitioner.DefaultPartitioner",
        Importance.HIGH,
        _short(PARTITIONER_CLASSES, PARTITIONERS),
    ),
    ConfigKey("topics.dir", ConfigType.STRING, "The directory of all topics.", "topics", Importance.HIGH),
    ConfigKey("storage.class", ConfigType.CLASS, "Without effect.", None, Importance.LOW),
    ConfigKey("directory.delim", ConfigType.STRING, "Only /.", "/", Importance.LOW, one_of("/")),
]

FILE_SETTINGS: Final = ConfigDef(
    [
        ConfigKey(
            "path",
            ConfigType.STRING,
            "The target: a local directory, or a URL such as s3://bucket/prefix.",
            importance=Importance.HIGH,
            validator=not_empty,
        ),
        ConfigKey("storage.options", ConfigType.PASSWORD, "Options of fsspec, as JSON.", None, validator=_check_json),
        ConfigKey(
            "format",
            ConfigType.STRING,
            "The format of the files.",
            "parquet",
            Importance.HIGH,
            one_of(*FORMATS),
            tuple(FORMATS),
        ),
        ConfigKey(
            "compression", ConfigType.STRING, "Of JSON, CSV, text and bytes.", "none", validator=one_of("none", "gzip")
        ),
        ConfigKey(
            "partitioner",
            ConfigType.STRING,
            "The directories.",
            "partition",
            Importance.HIGH,
            one_of(*PARTITIONERS),
            PARTITIONERS,
        ),
        *_common(_OWN_FLUSH, 60_000),
    ]
)

S3_SETTINGS: Final = ConfigDef(
    [
        ConfigKey("s3.bucket.name", ConfigType.STRING, "The bucket.", importance=Importance.HIGH, validator=not_empty),
        ConfigKey("s3.region", ConfigType.STRING, "The region.", "us-west-2"),
        ConfigKey("store.url", ConfigType.STRING, "The address of a server other than Amazon's.", None),
        ConfigKey("aws.access.key.id", ConfigType.PASSWORD, "Otherwise as the AWS tools find it.", None),
        ConfigKey("aws.secret.access.key", ConfigType.PASSWORD, "Otherwise as the AWS tools find it.", None),
        ConfigKey(
            "s3.compression.type",
            ConfigType.STRING,
            "Of JSON, text and bytes.",
            "none",
            validator=one_of("none", "gzip"),
        ),
        ConfigKey(
            "s3.part.size", ConfigType.INT, "Bytes of one part of an upload.", 26_214_400, validator=between(5_242_880)
        ),
        ConfigKey("s3.path.style.access.enabled", ConfigType.BOOLEAN, "The bucket is in the path of requests.", True),
        *_CLASSES,
        *_common(_CONFLUENT_FLUSH, -1),
    ]
)

HDFS_SETTINGS: Final = ConfigDef(
    [
        ConfigKey(
            "hdfs.url", ConfigType.STRING, "The target: a path, file://, s3://; not hdfs://.", None, Importance.HIGH
        ),
        ConfigKey("store.url", ConfigType.STRING, "The same, by its newer name.", None),
        ConfigKey("storage.options", ConfigType.PASSWORD, "Options of fsspec, as JSON.", None, validator=_check_json),
        *_CLASSES,
        *_common(_CONFLUENT_FLUSH, -1),
    ]
)


def s3_target(config: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    client: dict[str, Any] = {"region_name": config["s3.region"]}
    if config["store.url"]:
        client["endpoint_url"] = config["store.url"]
    style = "path" if config["s3.path.style.access.enabled"] else "virtual"
    options: dict[str, Any] = {
        "client_kwargs": client,
        # The engine tries again, too, and shows that it does.
        "config_kwargs": {"s3": {"addressing_style": style}, "retries": {"mode": "standard", "total_max_attempts": 2}},
        "default_block_size": config["s3.part.size"],
    }
    if config["aws.access.key.id"]:
        options |= {"key": config["aws.access.key.id"], "secret": config["aws.secret.access.key"]}
    return "/".join(filter(None, ["s3:/", config["s3.bucket.name"], config["topics.dir"].strip("/")])), options


def hdfs_target(config: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    url = config["hdfs.url"] or config["store.url"] or ""
    return "/".join(filter(None, [url.rstrip("/"), config["topics.dir"].strip("/")])), config["storage.options"] or {}


def plan_of(
    config: Mapping[str, Any], url: str, given_options: Mapping[str, Any] | str
) -> tuple[FileSinkPlan | None, dict[str, list[str]]]:
    """The plan, or the problems by setting."""
    problems: dict[str, list[str]] = {}
    options: Mapping[str, Any] = json.loads(given_options) if isinstance(given_options, str) else given_options
    form = config["format"] if "format" in config else short_name(FORMAT_CLASSES, config["format.class"])
    partitioner = _partitioner(config, problems)
    place = next(name for name in ("path", "s3.bucket.name", "hdfs.url") if name in config)
    if place == "hdfs.url" and not (config["hdfs.url"] or config["store.url"]):
        problems[place] = ['Missing required configuration "hdfs.url" which has no default value.']
    else:
        try:
            open_store(url, options)
        except (UnknownStoreError, ConfigError) as error:
            problems[place] = [str(error)]
    if problems or partitioner is None:
        return None, problems
    plan = FileSinkPlan(
        url,
        form,
        _codec(form, config),
        partitioner,
        config["flush.size"],
        config["rotate.interval.ms"],
        config["rotate.schedule.interval.ms"],
        config["behavior.on.null.values"],
        dict(options),
        (config["format.bytearray.separator"] or "\n").encode(),
        config["filename.offset.zero.pad.width"],
        config["file.delim"],
        end_offset_in_name=place == "hdfs.url",
    )
    return plan, problems


def _codec(form: str, config: Mapping[str, Any]) -> str:
    if form in ("parquet", "avro"):
        return str(config[f"{form}.codec"])
    return str(config.get("compression") or config.get("s3.compression.type") or "none")


def _partitioner(config: Mapping[str, Any], problems: dict[str, list[str]]) -> DirectoryChoice | None:
    kind = (
        config["partitioner"]
        if "partitioner" in config
        else short_name(PARTITIONER_CLASSES, config["partitioner.class"])
    )
    if kind == "none":
        return TopicOnly()
    if kind == "partition":
        return ByKafkaPartition()
    if kind == "field":
        if not config["partition.field.name"]:
            problems["partition.field.name"] = ["Name the fields to partition by"]
            return None
        return ByField(tuple(config["partition.field.name"]))
    pattern = {"daily": DAILY, "hourly": HOURLY}.get(kind) or config["path.format"]
    duration = {"daily": 86_400_000, "hourly": 3_600_000}.get(kind) or config["partition.duration.ms"]
    if not pattern:
        problems["path.format"] = [f"Give the directories of the partitioner time, such as {HOURLY}"]
        return None
    if not config["timezone"] and "path" not in config:
        problems["timezone"] = ["Name the time zone of the directories, such as UTC"]
        return None
    extractor = _extractor(config["timestamp.extractor"])
    return ByTime(pattern, config["timezone"] or "UTC", duration, extractor, config["timestamp.field"])
