"""Schemas with everything that a generated module has to cope with."""

from __future__ import annotations

import json
from typing import Final

LONG: Final = "a_very_long_name_for_the_test_of_lines_that_do_not_fit_into_the_width"

AVRO: Final = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "namespace": "org.example",
        "doc": 'An order.\n\nWith a "quote", a \\ and """three""".',
        "fields": [
            {"name": "id", "type": "long", "doc": "The number."},
            {"name": "class", "type": "string", "default": 'it\'s "x"'},
            {"name": "str", "type": ["null", "string"], "default": None},
            {"name": "datetime", "type": {"type": "long", "logicalType": "timestamp-millis"}},
            {
                "name": "amount",
                "type": ["null", {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}],
                "default": None,
            },
            {"name": "day", "type": {"type": "int", "logicalType": "date"}},
            {"name": "key", "type": {"type": "string", "logicalType": "uuid"}},
            {
                "name": "color",
                "type": {"type": "enum", "name": "Color", "symbols": ["RED", "name", "class"]},
                "default": "RED",
            },
            {
                "name": "lines",
                "type": {
                    "type": "array",
                    "items": {
                        "type": "record",
                        "name": "Line",
                        "fields": [
                            {"name": "sku", "type": "string"},
                            {"name": "parent", "type": ["null", "Order"], "default": None},
                        ],
                    },
                },
                "default": [],
            },
            {"name": "tags", "type": {"type": "map", "values": ["null", "Line"]}, "default": {}},
            {
                "name": "payload",
                "type": [
                    "null",
                    "string",
                    "Line",
                    {"type": "record", "name": LONG, "fields": [{"name": LONG, "type": "Line"}]},
                    {
                        "type": "record",
                        "name": "Line",
                        "namespace": "other",
                        "fields": [{"name": "sku", "type": "string"}],
                    },
                    {"type": "array", "items": "Line"},
                ],
            },
            {"name": "raw", "type": "bytes", "default": "\u00ff"},
            {"name": "colors", "type": {"type": "array", "items": "Color"}, "default": []},
            {"name": "ratio", "type": "float", "default": 1},
            {"name": "text", "type": "string", "default": "long " * 20},
            {"name": "Line", "type": ["null", "Line"]},
            {"name": "list", "type": {"type": "array", "items": "int"}},
        ],
    }
)

JSON: Final = json.dumps(
    {
        "title": "Order",
        "description": "An order.",
        "type": "object",
        "additionalProperties": {"type": "integer"},
        "required": ["id", "kind", "maybe", "shape"],
        "properties": {
            "id": {"type": "integer", "description": "The number."},
            "kind": {"const": "order"},
            "maybe": {"type": ["string", "null"]},
            "x-y z": {"type": "string", "default": "q"},
            "x_y z": {"type": "string"},
            "additional": {"type": "number"},
            "state": {"enum": ["new", "in progress", "in-progress", ""]},
            "level": {"enum": [1, 2, 3]},
            "lines": {
                "type": "array",
                "items": {
                    "type": "object",
                    "required": ["sku"],
                    "properties": {"sku": {"type": "string"}, "parent": {"$ref": "#"}},
                },
            },
            "shape": {
                "oneOf": [
                    {"$ref": "#/definitions/circle"},
                    {"$ref": "#/definitions/square"},
                    {"$ref": f"#/definitions/{LONG}"},
                    {"type": "null"},
                    {"type": "string"},
                ]
            },
            "home": {
                "allOf": [{"$ref": "address.json"}, {"properties": {"zip": {"type": "string"}}, "required": ["zip"]}]
            },
            "homes": {"type": "object", "additionalProperties": {"$ref": "address.json"}},
            "any": {},
            "wrong default": {"type": "string", "default": 1},
            "pair": {"type": "array", "items": [{"type": "string"}]},
            "flag": {"type": "boolean", "default": False},
            "to_dict": {"type": "string"},
        },
        "definitions": {
            "circle": {
                "type": "object",
                "properties": {"kind": {"const": "circle"}, "r": {"type": "number"}},
                "required": ["kind", "r"],
            },
            "square": {
                "type": "object",
                "properties": {"kind": {"const": "square"}, "a": {"type": "number", "default": 1}},
                "required": ["kind"],
            },
            LONG: {"type": "object", "properties": {LONG: {"type": "string"}}, "required": [LONG]},
        },
    }
)
ADDRESS: Final = json.dumps({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]})

PROTOBUF: Final = """
syntax = "proto3";
package org.example;
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";
import "google/protobuf/struct.proto";
import "google/protobuf/duration.proto";

enum Color { RED = 0; GREEN = 5; }

message Order {
  message Line {
    enum Kind { NONE = 0; class = 1; }
    string sku = 1;
    Kind kind = 2;
    Order parent = 3;
  }
  int64 id = 1;
  int32 count = 2;
  double ratio = 3;
  bool flag = 4;
  string class = 5;
  bytes raw = 6;
  Color color = 7;
  repeated Line lines = 8;
  map<string, Line> by_name = 9;
  map<int64, bytes> by_number = 10;
  map<bool, double> by_flag = 11;
  optional int64 maybe = 12;
  oneof choice { string text = 13; Line line = 14; uint64 number = 15; }
  google.protobuf.Timestamp at = 16;
  google.protobuf.Int64Value wrapped = 17;
  google.protobuf.Struct extra = 18;
  google.protobuf.Duration took = 19;
  repeated int64 longs = 20;
  repeated Color colors = 21;
  google.protobuf.Value value = 22;
}

message Empty {}
"""
