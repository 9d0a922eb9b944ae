"""Choice of the record codec: native if built, the reference if not or if MOLDAU_PURE=1 is set."""

from typing import TYPE_CHECKING, Final

from moldau.records.native_modules import native_or_reference

if TYPE_CHECKING:
    from moldau.records.reference import RecordsBuilder, check_batch, decode_batch, walk
else:
    _chosen = native_or_reference("moldau.records._native", "moldau.records.reference")
    RecordsBuilder = _chosen.RecordsBuilder
    check_batch = _chosen.check_batch
    decode_batch = _chosen.decode_batch
    walk = _chosen.walk

NATIVE: Final = check_batch.__module__ == "moldau.records._native"

__all__ = ["NATIVE", "RecordsBuilder", "check_batch", "decode_batch", "walk"]
