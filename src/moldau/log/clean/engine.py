"""Choice of the compaction loops: native if built, the reference if not or if MOLDAU_PURE=1 is set."""

from typing import TYPE_CHECKING

from moldau.records.native_modules import native_or_reference

if TYPE_CHECKING:
    from moldau.log.clean.reference import SLOT_BYTES, OffsetMap, sift, skip_run
else:
    _chosen = native_or_reference("moldau.log.clean._native", "moldau.log.clean.reference")
    SLOT_BYTES = _chosen.SLOT_BYTES
    OffsetMap = _chosen.OffsetMap
    sift = _chosen.sift
    skip_run = _chosen.skip_run

__all__ = ["SLOT_BYTES", "OffsetMap", "sift", "skip_run"]
