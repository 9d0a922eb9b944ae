"""Tool kafka-acls: lists, adds and removes rules of access control."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from moldau.cli.kafka_tools.tool import EXIT_ERROR, EXIT_OK, ToolError, ToolParser, client, java_message
from moldau.client.errors import MoldauError
from moldau.security.acls import AclEntry, AclFilter, AclRule, PatternType, Permission, ResourcePattern
from moldau.security.resources import CLUSTER_NAME, OPERATIONS, Operation, ResourceType

if TYPE_CHECKING:
    from moldau.client.blocking.admin import Admin

PRODUCER_OF_TOPIC: Final = (Operation.WRITE, Operation.DESCRIBE, Operation.CREATE)
PRODUCER_OF_TRANSACTION: Final = (Operation.WRITE, Operation.DESCRIBE)
CONSUMER_OF_TOPIC: Final = (Operation.READ, Operation.DESCRIBE)

CLUSTER: Final = ResourcePattern(ResourceType.CLUSTER, CLUSTER_NAME)
NAMED: Final = {
    "topic": ResourceType.TOPIC,
    "group": ResourceType.GROUP,
    "transactional_id": ResourceType.TRANSACTIONAL_ID,
    "delegation_token": ResourceType.DELEGATION_TOKEN,
    "user_principal": ResourceType.USER,
}
"""Options that name resources, and their types."""

PATTERN_TYPES: Final = {one.name: one for one in PatternType if one is not PatternType.UNKNOWN}
NO_RESOURCE: Final = (
    "You must provide at least one resource: --topic <topic> or --cluster or --group <group> or --delegation-token "
    "<Delegation Token ID>"
)

Rules = dict[ResourcePattern, list[AclEntry]]
"""Entries by pattern. In a removal, a pattern may also be of type ANY or MATCH, and no entries stand for all."""


def parser() -> ToolParser:
    parser = ToolParser("kafka-acls", "List, add and remove rules of access control.")
    parser.add_connection()
    parser.add_argument("--bootstrap-controller", metavar="HOST:PORT", help="not supported: any broker answers")
    for action in ("add", "remove", "list"):
        parser.add_argument(f"--{action}", action="store_true", help=f"{action} rules")
    parser.add_argument("--topic", action="append", help="a topic, or '*'")
    parser.add_argument("--group", action="append", help="a group, or '*'")
    parser.add_argument("--cluster", action="store_true", help="the cluster")
    parser.add_argument("--transactional-id", action="append", help="a transactional id, or '*'")
    parser.add_argument("--delegation-token", action="append", help="a delegation token, or '*'")
    parser.add_argument("--user-principal", action="append", help="a user, for CreateTokens and DescribeTokens")
    parser.add_argument("--resource-pattern-type", help="literal, prefixed; to list and remove also any, match")
    parser.add_argument("--operation", action="append", help="an operation, such as Read; default: All")
    parser.add_argument("--allow-principal", action="append", metavar="TYPE:NAME", help="who is allowed")
    parser.add_argument("--deny-principal", action="append", metavar="TYPE:NAME", help="who is denied")
    parser.add_argument("--allow-host", action="append", metavar="ADDRESS", help="from where it is allowed")
    parser.add_argument("--deny-host", action="append", metavar="ADDRESS", help="from where it is denied")
    parser.add_argument("--principal", action="append", metavar="TYPE:NAME", help="with --list: of this principal")
    parser.add_argument("--producer", action="store_true", help="what a producer needs on a topic")
    parser.add_argument("--consumer", action="store_true", help="what a consumer needs on a topic and a group")
    parser.add_argument("--idempotent", action="store_true", help="with --producer: also IdempotentWrite")
    parser.add_argument("--force", action="store_true", help="do not ask before rules are removed")
    return parser


def main(arguments: Sequence[str]) -> int:
    options_parser = parser()
    options = options_parser.parse(arguments)
    check(options_parser, options)
    try:
        with client(options) as admin:
            if options.add:
                add(admin, options_parser, options)
            elif options.remove:
                remove(admin, options_parser, options)
            else:
                show(admin, options_parser, options)
    except (MoldauError, ToolError) as error:
        print(f"Error while executing ACL command: {java_message(error)}")
        return EXIT_ERROR
    return EXIT_OK


def check(parser: ToolParser, options: argparse.Namespace) -> None:
    if options.bootstrap_controller is not None:
        parser.error("--bootstrap-controller is not supported; any broker answers: give --bootstrap-server")
    if options.bootstrap_server is None:
        parser.error("One of --bootstrap-server or --bootstrap-controller must be specified")
    if [options.add, options.remove, options.list].count(True) != 1:
        parser.error("Command must include exactly one action: --list, --add, --remove. ")
    inferred = ("operation", "deny_principal", "deny_host")
    forbidden = {
        "list": ("producer", "consumer", "allow_host", "allow_principal", "deny_host", "deny_principal"),
        "producer": inferred,
        "consumer": inferred,
    }
    for option, others in forbidden.items():
        for other in others:
            if getattr(options, option) and getattr(options, other):
                parser.error(f'Option "[{option}]" can\'t be used with option "[{other.replace("_", "-")}]"')
    if options.principal and not options.list:
        parser.error("The --principal option is only available if --list is set")
    if options.producer and not options.topic:
        parser.error("With --producer you must specify a --topic")
    if options.idempotent and not options.producer:
        parser.error("The --idempotent option is only available if --producer is set")
    elsewhere = not options.producer and (options.cluster or options.transactional_id)
    if options.consumer and (not options.topic or not options.group or elsewhere):
        parser.error(
            "With --consumer you must specify a --topic and a --group and no --cluster or --transactional-id option "
            "should be specified."
        )


# Options to rules -----------------------------------------------------------------------------------------------------


def pattern_type(options: argparse.Namespace) -> PatternType:
    text = options.resource_pattern_type or "LITERAL"
    if text.upper() not in PATTERN_TYPES:
        raise ToolError(f"Cannot parse argument '{text}' of option resource-pattern-type")
    return PATTERN_TYPES[text.upper()]


def resources(parser: ToolParser, options: argparse.Namespace, *, required: bool = True) -> list[ResourcePattern]:
    kind = pattern_type(options)
    found = [
        ResourcePattern(resource_type, name.strip(), kind)
        for option, resource_type in NAMED.items()
        for name in getattr(options, option) or ()
    ]
    if kind is PatternType.LITERAL and (options.cluster or options.idempotent):
        found.append(CLUSTER)
    if required and not found:
        parser.error(NO_RESOURCE)
    return list(dict.fromkeys(found))


def entries(options: argparse.Namespace, operations: Iterable[Operation]) -> list[AclEntry]:
    found = []
    for word, permission in (("allow", Permission.ALLOW), ("deny", Permission.DENY)):
        hosts = getattr(options, f"{word}_host") or ["*"]
        for principal in getattr(options, f"{word}_principal") or ():
            found += [
                AclEntry(a_principal(principal), host.strip(), operation, permission)
                for operation in operations
                for host in hosts
            ]
    return list(dict.fromkeys(found))


def a_principal(text: str) -> str:
    kind, colon, name = text.strip().partition(":")
    if not (kind and colon and name):
        raise ToolError(f"expected a string in format principalType:principalName but got {text.strip()}")
    return text.strip()


def operation_of(text: str) -> Operation:
    """An operation as Kafka's tools write it: `AlterConfigs`, in any case. UNKNOWN if there is none."""
    plain = text.strip().replace("_", "").lower()
    return next((one for one in Operation if one.name.replace("_", "").lower() == plain), Operation.UNKNOWN)


def wanted_rules(parser: ToolParser, options: argparse.Namespace) -> Rules:
    named = resources(parser, options)
    rules: Rules = {}

    def put(pattern: ResourcePattern, operations: Iterable[Operation]) -> None:
        rules[pattern] = list(dict.fromkeys([*rules.get(pattern, ()), *entries(options, operations)]))

    if not (options.producer or options.consumer):
        for pattern in named:
            put(pattern, [operation_of(text) for text in options.operation or ["All"]])
    for pattern in named:
        if options.producer and pattern.resource_type is ResourceType.TOPIC:
            put(pattern, PRODUCER_OF_TOPIC)
        if options.producer and pattern.resource_type is ResourceType.TRANSACTIONAL_ID:
            put(pattern, PRODUCER_OF_TRANSACTION)
        if options.consumer and pattern.resource_type is ResourceType.TOPIC:
            put(pattern, CONSUMER_OF_TOPIC)
        if options.consumer and pattern.resource_type is ResourceType.GROUP:
            put(pattern, [Operation.READ])
    if options.idempotent:
        put(CLUSTER, [Operation.IDEMPOTENT_WRITE])
    for pattern, some in rules.items():
        valid = (*OPERATIONS[pattern.resource_type], Operation.ALL)
        if any(entry.operation not in valid for entry in some):
            names = ", ".join(one.name for one in sorted(valid))
            parser.error(f"ResourceType {pattern.resource_type.name} only supports operations [{names}]")
    return rules


# Actions --------------------------------------------------------------------------------------------------------------


def add(admin: Admin, parser: ToolParser, options: argparse.Namespace) -> None:
    kind = pattern_type(options)
    if kind not in (PatternType.LITERAL, PatternType.PREFIXED):
        parser.error(f"A '--resource-pattern-type' value of '{kind.name}' is not valid when adding acls.")
    rules = wanted_rules(parser, options)
    if not all(rules.values()):
        parser.error("You must specify one of: --allow-principal, --deny-principal when trying to add ACLs.")
    for pattern, some in rules.items():
        known = {entry for _, entry in admin.describe_acls(AclFilter(*pattern))}
        for entry in some:
            if entry in known:
                print(f"Acl (pattern={pattern_text(pattern)}, entry={entry_text(entry)}) already exists.")
        new = [entry for entry in some if entry not in known]
        if new:
            print(f"Adding ACLs for resource `{pattern_text(pattern)}`: \n {entry_lines(new)}\n")
            admin.create_acls([AclRule(pattern, entry) for entry in new])


def remove(admin: Admin, parser: ToolParser, options: argparse.Namespace) -> None:
    for pattern, some in wanted_rules(parser, options).items():
        text = pattern_text(pattern)
        if some:
            question = f"Are you sure you want to remove ACLs: \n {entry_lines(some)}\n from resource filter `{text}`?"
        else:
            question = f"Are you sure you want to delete all ACLs for resource filter `{text}`?"
        if not options.force and not confirmed(question):
            continue
        whole = AclFilter(*pattern)
        admin.delete_acls([whole._replace(**entry._asdict()) for entry in some] or [whole])


def confirmed(question: str) -> bool:
    print(f"{question} (y/n)")
    return sys.stdin.readline().strip().lower() == "y"


def show(admin: Admin, parser: ToolParser, options: argparse.Namespace) -> None:
    filters = [AclFilter(*pattern) for pattern in resources(parser, options, required=False)]
    principals = [a_principal(text) for text in options.principal or ()]
    found: Rules = {}
    for wanted in filters or [AclFilter()]:
        for pattern, entry in admin.describe_acls(wanted):
            if entry not in found.setdefault(pattern, []):
                found[pattern].append(entry)
    if not principals:
        print_rules(found)
    for principal in principals:
        print(f"ACLs for principal `{principal}`")
        print_rules({key: [one for one in some if one.principal == principal] for key, some in found.items()})


def print_rules(rules: Mapping[ResourcePattern, Sequence[AclEntry]]) -> None:
    for pattern, some in rules.items():
        if some:
            print(f"Current ACLs for resource `{pattern_text(pattern)}`:\n{entry_lines(some)}\n")


def pattern_text(pattern: ResourcePattern) -> str:
    kind, name, how = pattern
    return f"ResourcePattern(resourceType={kind.name}, name={name}, patternType={how.name})"


def entry_text(entry: AclEntry) -> str:
    principal, host, operation, permission = entry
    return f"(principal={principal}, host={host}, operation={operation.name}, permissionType={permission.name})"


def entry_lines(some: Iterable[AclEntry]) -> str:
    return "\n".join(f"\t{entry_text(entry)}" for entry in some)
