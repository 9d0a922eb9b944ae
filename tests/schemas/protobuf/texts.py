"""Texts in proto2, proto3 and editions that use most of the language; protoc takes each of them."""

from __future__ import annotations

PROTO2 = """
// A comment, and /* not a block */
syntax = "proto2";
package shop.orders;  /* a block
over lines */
import "google/protobuf/descriptor.proto";
import public "google/protobuf/timestamp.proto";
option java_package = "org.example." 'shop';
option optimize_for = SPEED;
option (owner) = { name: "team \\"a\\"" ids: [1, 2] inner { name: "b" } };

message Owner { optional string name = 1; repeated int32 ids = 2; optional Owner inner = 3; map<string, int32> m = 4; }
extend google.protobuf.FileOptions { optional Owner owner = 50001; }
extend google.protobuf.FieldOptions {
  optional Owner field_owner = 50001; repeated string tags = 50002; optional double weight = 50003; }
extend google.protobuf.EnumValueOptions { optional Status next = 50004; }

enum Status { option allow_alias = true; NEW = 1; FRESH = 1 [(next) = DONE]; DONE = -0x7; reserved 9 to 11, 20 to max;
  reserved "GONE"; }

message Order {
  option (shop.orders.Order.kind) = "main";
  option deprecated = false;
  extend google.protobuf.MessageOptions { optional string kind = 50001; }
  required int64 id = 1 [(field_owner).name = "x", (field_owner).inner.ids = 4, (weight) = 1];
  optional string note = 2 [default = "a\\tb\\x41\\101\\u00e9", json_name = "Note", deprecated = true];
  optional bytes raw = 3 [default = "\\001\\377'"];
  optional float small = 4 [default = 1.5e-3];
  optional double big = 5 [default = -inf];
  optional Status status = 6 [default = DONE];
  repeated sint32 counts = 7 [packed = true, (tags) = "a", (tags) = 'b'];
  optional group Address = 8 { optional string street = 1; message Deep { optional .shop.orders.Order o = 1; } }
  oneof choice { string text = 10; group Pick = 11 { optional int32 a = 1; } Item item = 12; }
  map<string, Item.Detail> details = 13;
  map<fixed64, Item.Size> by_number = 14;
  optional google.protobuf.Timestamp at = 15;
  message Item { enum Size { SMALL = 0; LARGE = 5; } optional Size size = 1 [default = LARGE];
    message Detail { optional Size size = 1; optional orders.Order up = 2; } }
  reserved 20, 22 to 25; reserved "old", "older";
  extensions 100 to 199, 300;
  extensions 1000 to max;
  optional uint64 most = 26 [default = 18446744073709551615];
  optional bool flag = 27 [default = true, lazy = false];
}
extend Order { optional Order.Item extra = 150; repeated group More = 151 { optional int32 z = 1; } }
;
service Orders {
  option deprecated = true;
  rpc Get (Order) returns (stream Order.Item);
  rpc Put (stream .shop.orders.Order) returns (Owner) { option idempotency_level = IDEMPOTENT; }
  rpc Nothing (Owner) returns (Owner) {}
}
"""

PROTO3 = """
syntax = "proto3";
package a.b;
import "google/protobuf/any.proto";
import weak "google/protobuf/duration.proto";
import "google/protobuf/wrappers.proto";
option go_package = "example.org/x";
message M {
  string s = 1;
  optional int32 maybe = 2;
  repeated double many = 3 [packed = false];
  map<int32, N> n_by_id = 4;
  oneof kind { N n = 5; string other_name = 6; bytes raw = 7; }
  google.protobuf.Any any = 8;
  google.protobuf.Duration took = 9;
  google.protobuf.StringValue wrapped = 10;
  repeated E es = 11;
  optional N optional_n = 12;
  reserved 15, 20 to 30;
  reserved "x", "y";
  message N { E e = 1; b.M back = 2; O.P far = 3; }
  enum E { ZERO = 0; ONE = 1; MINUS = -1; }
}
message O { message P { sfixed32 a = 1; sfixed64 b = 2; fixed32 c = 3; uint32 d = 4; bool e = 5; float f = 6; } }
service S { rpc Do (M) returns (M.N); }
"""

EDITION = """
edition = "2023";
package ed;
option features.field_presence = IMPLICIT;
message M {
  int32 plain = 1;
  string present = 2 [features.field_presence = EXPLICIT, default = "x"];
  repeated int32 unpacked = 3 [features.repeated_field_encoding = EXPANDED];
  M child = 4 [features.message_encoding = DELIMITED];
  map<string, int32> m = 5 [features.utf8_validation = NONE];
  E e = 6;
  Old old = 7 [features.field_presence = LEGACY_REQUIRED];
  reserved 8 to 10, 12;
  reserved gone, lost;
  extensions 100 to 200;
}
enum E { Z = 0; reserved never; }
enum Old { option features.enum_type = CLOSED; FIRST = 1; }
extend M { int32 ext = 100; }
"""

EDITION_2024 = """
edition = "2024";
package ed;
export message Shown { Hidden h = 1; }
local message Hidden { local enum E { A = 0; } E e = 1; }
"""

ALL = {"proto2": PROTO2, "proto3": PROTO3, "edition 2023": EDITION, "edition 2024": EDITION_2024}
