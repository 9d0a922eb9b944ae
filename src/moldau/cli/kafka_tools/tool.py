"""Shared parts of the tools: options like Kafka's parser, errors with Kafka's exception names, and the client."""

from __future__ import annotations

import argparse
import contextlib
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from moldau.client.errors import BrokerError, ErrorCode, MoldauError, TimedOut

if TYPE_CHECKING:
    from moldau.client.blocking.admin import Admin

KAFKA_VERSION = "4.3.0"
"""The Kafka version whose tools these imitate."""

EXIT_OK = 0
EXIT_ERROR = 1


class ToolError(Exception):
    """Ends a tool with one line on standard error and exit code 1."""


class ToolParser(argparse.ArgumentParser):
    """Option parser like that of Kafka's tools: `--name value`, `--name=value`, or the beginning of a name.

    A wrong option ends the tool with one line and exit code 1.
    """

    def __init__(self, prog: str | None = None, description: str | None = None, **more: Any) -> None:
        super().__init__(prog=prog, description=description, **more)
        self.add_argument("--version", action="version", version=KAFKA_VERSION, help="the version of Kafka's tools")

    def error(self, message: str) -> NoReturn:
        print(message, file=sys.stderr)
        self.print_usage(sys.stderr)
        raise SystemExit(EXIT_ERROR)

    def parse(self, arguments: Sequence[str]) -> argparse.Namespace:
        options, unknown = self.parse_known_args(list(arguments))
        for text in unknown:
            if text.startswith("-"):
                print(f"{text.lstrip('-').partition('=')[0]} is not a recognized option", file=sys.stderr)
                raise SystemExit(EXIT_ERROR)
        return options

    def add_connection(self) -> None:
        self.add_argument(
            "--bootstrap-server",
            metavar="HOST:PORT",
            help=("addresses of brokers to connect to first, separated by commas"),
        )
        self.add_argument(
            "--command-config", metavar="FILE", help=("a file with client settings, one NAME=VALUE per line")
        )

    def only_one(self, options: argparse.Namespace, *names: str) -> None:
        """Reject repeated options: Kafka's parser accepts them, and complains only when a single value is read."""
        for name in names:
            values = getattr(options, name)
            if values is not None and len(values) > 1:
                raise ToolError(
                    f"Found multiple arguments for option {name.replace('_', '-')}, but you asked for only one"
                )
            setattr(options, name, values[0] if values else None)


@contextlib.contextmanager
def client(options: argparse.Namespace) -> Iterator[Admin]:
    """The admin client for a tool's options."""
    from moldau.cli.connection_options import client_settings, require_listener
    from moldau.client.blocking.admin import Admin

    config = None if options.command_config is None else Path(options.command_config)
    settings = client_settings(options.bootstrap_server, config)
    with Admin(settings) as admin:
        require_listener(
            settings["bootstrap.servers"], wait=True
        )  # print a warning and keep trying, as Kafka's tools do
        yield admin


# Kafka's names for errors ---------------------------------------------------------------------------------------------

JAVA_NAMES = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "UnknownTopicOrPartitionException",
    ErrorCode.TOPIC_ALREADY_EXISTS: "TopicExistsException",
    ErrorCode.INVALID_CONFIG: "InvalidConfigurationException",
    ErrorCode.NON_EMPTY_GROUP: "GroupNotEmptyException",
    ErrorCode.INVALID_TOPIC_EXCEPTION: "InvalidTopicException",
    ErrorCode.MESSAGE_TOO_LARGE: "RecordTooLargeException",
}
"""Exception classes whose name does not follow from the error code."""

JAVA_MESSAGES = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "This server does not host this topic-partition.",
    ErrorCode.GROUP_ID_NOT_FOUND: "The group id does not exist.",
    ErrorCode.NON_EMPTY_GROUP: "The group is not empty.",
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC: "Deleting offsets of a topic is forbidden while the consumer group is "
    "actively subscribed to it.",
    ErrorCode.OFFSET_OUT_OF_RANGE: "The requested offset is not within the range of offsets maintained by the server.",
}
"""The messages that scripts search for, if the broker sends none."""


def java_name(error: MoldauError) -> str:
    """The name of the exception class in Kafka's tools."""
    if isinstance(error, BrokerError):
        code = error.code
        camel = "".join(part.capitalize() for part in code.name.split("_"))
        name = JAVA_NAMES.get(code) or f"{camel.removesuffix('Exception')}Exception"
    elif isinstance(error, TimedOut):
        name = "TimeoutException"
    else:
        name = f"{type(error).__name__.removesuffix('Error')}Exception"
    return f"org.apache.kafka.common.errors.{name}"


def java_message(error: BaseException) -> str:
    """The message of Kafka's exception: the broker's message, or the default of the error code."""
    if isinstance(error, BrokerError):
        return error.detail or JAVA_MESSAGES.get(error.code) or str(error)
    return str(error)


def java_text(error: MoldauError) -> str:
    return f"{java_name(error)}: {java_message(error)}"


# Names and patterns ---------------------------------------------------------------------------------------------------


def topic_filter(text: str) -> re.Pattern[str]:
    """A topic filter as in Kafka's tools: a regular expression, or several separated by commas."""
    pattern = text.strip().replace(",", "|").replace(" ", "").strip("\"'")
    try:
        return re.compile(pattern)
    except re.error as problem:
        raise ToolError(f"{pattern} is an invalid regex: {problem}") from None


def errors_of(call: Callable[[], object], things: Sequence[Any]) -> dict[Any, MoldauError]:
    """Make a call about these things, and return the error of each that failed."""
    from moldau.client.admin import SomeFailed

    try:
        call()
    except SomeFailed as some:
        return dict(some.errors)
    except BrokerError as error:
        if len(things) != 1:
            raise
        return {things[0]: error}
    return {}


def properties_of(file: str | None) -> list[str]:
    """The settings of a file, each as NAME=VALUE."""
    from moldau.settings.sources import read_properties

    if file is None:
        return []
    return [f"{name}={value}" for name, value in read_properties(Path(file).read_text()).items()]


def run_command(command: Callable[..., None], name: str, arguments: Sequence[str]) -> int:
    """Run one of our commands under another name, and return its exit code."""
    import typer

    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command()(command)
    try:
        app(list(arguments), prog_name=name)
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    return EXIT_OK
