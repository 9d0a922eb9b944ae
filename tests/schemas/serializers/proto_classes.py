"""Message classes of .proto texts, made by protoc (grpcio-tools)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

COMMON = """syntax = "proto3";
package shop;
message Money { string currency = 1; sint64 cents = 2; }
"""
ORDERS = """syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
import "shop/common.proto";
message Customer {
  string name = 1;
  message Address { string street = 1; message Country { string code = 1; } Country country = 2; }
  Address address = 2;
}
message Order {
  int64 id = 1;
  optional string note = 2;
  repeated Line lines = 3;
  map<string, double> prices = 4;
  State state = 5;
  bytes checksum = 6;
  google.protobuf.Timestamp at = 7;
  Money total = 8;
  oneof payment { string card = 9; uint32 invoice = 10; }
  enum State { NEW = 0; PAID = 1; }
  message Line { string article = 1; int32 count = 2; }
}
"""


def message_classes(directory: Path) -> dict[str, Any]:
    """The classes of both files by their full names."""
    from grpc_tools import protoc

    (directory / "shop").mkdir()
    (directory / "shop" / "common.proto").write_text(COMMON)
    (directory / "shop" / "orders.proto").write_text(ORDERS)
    output = directory / "set"
    include = Path(protoc.__file__).parent / "_proto"
    arguments = ["protoc", f"-I{directory}", f"-I{include}", "--include_imports", f"--descriptor_set_out={output}"]
    assert protoc.main([*arguments, "shop/orders.proto"]) == 0
    files = FileDescriptorSet.FromString(output.read_bytes())
    pool: Any = DescriptorPool()
    for file in files.file:
        pool.Add(file)
    names = ("Order", "Order.Line", "Customer", "Customer.Address", "Customer.Address.Country", "Money")
    return {name: GetMessageClass(pool.FindMessageTypeByName(f"shop.{name}")) for name in names}
