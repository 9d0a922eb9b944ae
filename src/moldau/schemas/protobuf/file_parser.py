"""Parser of .proto files: a recursive descent that builds the FileDescriptorProto of a text.

The result has names of types as written, options not interpreted, and no check beyond the grammar: the linker does the
rest.
"""

from __future__ import annotations

from typing import Any, Final

from moldau.schemas.protobuf.descriptors import FileDescriptorProto, descriptor_pb2
from moldau.schemas.protobuf.enum_parser import Syntax, parse_enum
from moldau.schemas.protobuf.message_parser import EDITION_2024, parse_extend, parse_message, parse_visibility
from moldau.schemas.protobuf.option_parser import parse_option_statement
from moldau.schemas.protobuf.token_stream import TokenStream

EDITIONS: Final = {"2023": descriptor_pb2.EDITION_2023, "2024": descriptor_pb2.EDITION_2024}


def parse_file(text: str, name: str) -> FileDescriptorProto:
    """Parse a text. InvalidSchema has the line and column of what is wrong."""
    stream = TokenStream(text)
    file = FileDescriptorProto(name=name)
    syntax = _syntax(stream, file)
    while not stream.at_end():
        _statement(stream, file, syntax)
    return file


def _syntax(stream: TokenStream, file: Any) -> Syntax:
    if stream.at("edition"):
        stream.take()
        stream.expect("=")
        token = stream.token
        edition = stream.text("the number of an edition, as a string")
        stream.expect(";")
        if edition not in EDITIONS:
            raise stream.error(f'edition "{edition}" is not known; known ones are {", ".join(EDITIONS)}', token)
        file.syntax = "editions"
        file.edition = EDITIONS[edition]
        return Syntax("editions", file.edition)
    if not stream.at("syntax"):
        return Syntax("proto2")
    stream.take()
    stream.expect("=")
    token = stream.token
    name = stream.text('"proto2" or "proto3"')
    stream.expect(";")
    if name not in ("proto2", "proto3"):
        raise stream.error(f'syntax "{name}" is not known; known ones are "proto2" and "proto3"', token)
    file.syntax = name
    return Syntax(name)


def _statement(stream: TokenStream, file: Any, syntax: Syntax) -> None:
    if stream.accept(";"):
        return
    visibility = parse_visibility(stream, syntax)
    match stream.token.text:
        case "message":
            message = file.message_type.add()
            parse_message(stream, message, syntax)
            if visibility:
                message.visibility = visibility
        case "enum":
            enum = file.enum_type.add()
            parse_enum(stream, enum, syntax)
            if visibility:
                enum.visibility = visibility
        case "service":
            _service(stream, file.service.add())
        case "extend":
            parse_extend(stream, file.extension, file.message_type, syntax)
        case "import":
            _import(stream, file, syntax)
        case "package":
            _package(stream, file)
        case "option":
            parse_option_statement(stream, file.options)
        case _:
            raise stream.error(f"expected a statement such as message, enum or import, found {stream.token}")


def _package(stream: TokenStream, file: Any) -> None:
    if file.HasField("package"):
        raise stream.error(f'the file has a package already: "{file.package}"')
    stream.expect("package")
    file.package = stream.dotted_name("the name of a package")
    stream.expect(";")


def _import(stream: TokenStream, file: Any, syntax: Syntax) -> None:
    stream.expect("import")
    if stream.at("option"):
        if syntax.edition < EDITION_2024:
            raise stream.error('"import option" needs edition 2024 or later')
        stream.take()
        file.option_dependency.append(stream.text("the path of the imported file"))
    else:
        index = len(file.dependency)
        if stream.accept("public"):
            file.public_dependency.append(index)
        elif stream.accept("weak"):
            if syntax.edition >= EDITION_2024:
                raise stream.error('"import weak" is not supported from edition 2024 on; "import option" is similar')
            file.weak_dependency.append(index)
        file.dependency.append(stream.text("the path of the imported file"))
    stream.expect(";")


# Services -------------------------------------------------------------------------------------------------------------


def _service(stream: TokenStream, service: Any) -> None:
    stream.expect("service")
    service.name = stream.identifier("the name of a service")
    stream.expect("{")
    while not stream.accept("}"):
        if stream.accept(";"):
            continue
        if stream.at("option"):
            parse_option_statement(stream, service.options)
        elif stream.at("rpc"):
            _method(stream, service.method.add())
        else:
            raise stream.error(f'expected "rpc", "option" or "}}", found {stream.token}')


def _method(stream: TokenStream, method: Any) -> None:
    stream.expect("rpc")
    method.name = stream.identifier("the name of a method")
    stream.expect("(")
    if stream.accept("stream"):
        method.client_streaming = True
    method.input_type = stream.type_name("the type of the request")
    stream.expect(")")
    stream.expect("returns")
    stream.expect("(")
    if stream.accept("stream"):
        method.server_streaming = True
    method.output_type = stream.type_name("the type of the answer")
    stream.expect(")")
    if not stream.accept("{"):
        stream.expect(";")
        return
    # An empty block is an empty options message, as in protoc's descriptor.
    method.options.SetInParent()
    while not stream.accept("}"):
        if not stream.accept(";"):
            parse_option_statement(stream, method.options)
