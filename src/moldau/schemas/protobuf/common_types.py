"""Common types of Google and Confluent as short texts: clients import them, and register no reference for them.

Options for generated code are left out. Names and numbers of fields are as published; a test compares them.
"""

from __future__ import annotations

from typing import Final


def _google(body: str, imports: str = "") -> str:
    imported = f'import "google/protobuf/{imports}.proto";' if imports else ""
    return f'syntax = "proto3"; package google.type; {imported} {body}'


def _enum(name: str, values: str) -> str:
    return f"enum {name} {{ {' '.join(f'{value} = {number};' for number, value in enumerate(values.split()))} }}"


_CONFLUENT_META: Final = """
syntax = "proto3";
package confluent;
import "google/protobuf/descriptor.proto";
message Meta { string doc = 1; map<string, string> params = 2; repeated string tags = 3; repeated Rule rules = 4; }
message Rule { string name = 1; string doc = 2; string expr = 3; string sql = 4; }
extend google.protobuf.FileOptions { Meta file_meta = 1088; }
extend google.protobuf.MessageOptions { Meta message_meta = 1088; }
extend google.protobuf.FieldOptions { Meta field_meta = 1088; }
extend google.protobuf.EnumOptions { Meta enum_meta = 1088; }
extend google.protobuf.EnumValueOptions { Meta enum_value_meta = 1088; }
"""

_JAVA_FEATURES: Final = """
syntax = "proto2";
package pb;
import "google/protobuf/descriptor.proto";
extend google.protobuf.FeatureSet { optional JavaFeatures java = 1001; }
message JavaFeatures {
  enum Utf8Validation { UTF8_VALIDATION_UNKNOWN = 0; DEFAULT = 1; VERIFY = 2; }
  message NestInFileClassFeature {
    enum NestInFileClass { NEST_IN_FILE_CLASS_UNKNOWN = 0; NO = 1; YES = 2; LEGACY = 3; }
    reserved 1 to max;
  }
  optional bool legacy_closed_enum = 1;
  optional Utf8Validation utf8_validation = 2;
  optional bool large_enum = 3;
  optional bool use_old_outer_classname_default = 4;
  optional NestInFileClassFeature.NestInFileClass nest_in_file_class = 5;
  reserved 6;
}
"""

COMMON_TYPES: Final[dict[str, str]] = {
    "confluent/meta.proto": _CONFLUENT_META,
    "confluent/type/decimal.proto": (
        'syntax = "proto3"; package confluent.type; '
        "message Decimal { bytes value = 1; uint32 precision = 2; int32 scale = 3; }"
    ),
    "confluent/type/variant.proto": (
        'syntax = "proto3"; package confluent.type; message Variant { bytes metadata = 1; bytes value = 2; }'
    ),
    "google/protobuf/java_features.proto": _JAVA_FEATURES,
    "google/type/calendar_period.proto": _google(
        _enum("CalendarPeriod", "CALENDAR_PERIOD_UNSPECIFIED DAY WEEK FORTNIGHT MONTH QUARTER HALF YEAR")
    ),
    "google/type/color.proto": _google(
        "message Color { float red = 1; float green = 2; float blue = 3; google.protobuf.FloatValue alpha = 4; }",
        "wrappers",
    ),
    "google/type/date.proto": _google("message Date { int32 year = 1; int32 month = 2; int32 day = 3; }"),
    "google/type/datetime.proto": _google(
        "message DateTime { int32 year = 1; int32 month = 2; int32 day = 3; int32 hours = 4; int32 minutes = 5; "
        "int32 seconds = 6; int32 nanos = 7; "
        "oneof time_offset { google.protobuf.Duration utc_offset = 8; TimeZone time_zone = 9; } } "
        "message TimeZone { string id = 1; string version = 2; }",
        "duration",
    ),
    "google/type/dayofweek.proto": _google(
        _enum("DayOfWeek", "DAY_OF_WEEK_UNSPECIFIED MONDAY TUESDAY WEDNESDAY THURSDAY FRIDAY SATURDAY SUNDAY")
    ),
    "google/type/decimal.proto": _google("message Decimal { string value = 1; }"),
    "google/type/expr.proto": _google(
        "message Expr { string expression = 1; string title = 2; string description = 3; string location = 4; }"
    ),
    "google/type/fraction.proto": _google("message Fraction { int64 numerator = 1; int64 denominator = 2; }"),
    "google/type/interval.proto": _google(
        "message Interval { google.protobuf.Timestamp start_time = 1; google.protobuf.Timestamp end_time = 2; }",
        "timestamp",
    ),
    "google/type/latlng.proto": _google("message LatLng { double latitude = 1; double longitude = 2; }"),
    "google/type/localized_text.proto": _google("message LocalizedText { string text = 1; string language_code = 2; }"),
    "google/type/money.proto": _google("message Money { string currency_code = 1; int64 units = 2; int32 nanos = 3; }"),
    "google/type/month.proto": _google(
        _enum(
            "Month",
            "MONTH_UNSPECIFIED JANUARY FEBRUARY MARCH APRIL MAY JUNE JULY AUGUST SEPTEMBER OCTOBER NOVEMBER DECEMBER",
        )
    ),
    "google/type/phone_number.proto": _google(
        "message PhoneNumber { message ShortCode { string region_code = 1; string number = 2; } "
        "oneof kind { string e164_number = 1; ShortCode short_code = 2; } string extension = 3; }"
    ),
    "google/type/postal_address.proto": _google(
        "message PostalAddress { int32 revision = 1; string region_code = 2; string language_code = 3; "
        "string postal_code = 4; string sorting_code = 5; string administrative_area = 6; string locality = 7; "
        "string sublocality = 8; repeated string address_lines = 9; repeated string recipients = 10; "
        "string organization = 11; }"
    ),
    "google/type/quaternion.proto": _google(
        "message Quaternion { double x = 1; double y = 2; double z = 3; double w = 4; }"
    ),
    "google/type/timeofday.proto": _google(
        "message TimeOfDay { int32 hours = 1; int32 minutes = 2; int32 seconds = 3; int32 nanos = 4; }"
    ),
}
