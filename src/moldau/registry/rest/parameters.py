"""Query parameters that several endpoints have."""

from __future__ import annotations

from typing import Final

from moldau.registry.rest.endpoint import flag, number, word

DELETED: Final = flag("deleted", "Also what was deleted without `permanent`.")
DELETED_ONLY: Final = flag("deletedOnly", "Only what was deleted without `permanent`.")
NORMALIZE: Final = flag("normalize", "Compare and store the normal form of the schema.")
PERMANENT: Final = flag("permanent", "Remove what was deleted before from the registry.")
VERBOSE: Final = flag("verbose", "Give the reasons.")
DEFAULT_TO_GLOBAL: Final = flag(
    "defaultToGlobal", "If the subject has none, answer with that of its context or of the registry."
)
FORMAT: Final = word(
    "format", "`resolved`: Avro with its references put in. `serialized`: a Protobuf descriptor in base64."
)
REFERENCE_FORMAT: Final = word("referenceFormat", "`qualified`: references in a context name that context.")
SUBJECT: Final = word("subject", "A subject that has the schema: the id is looked up in its context.")
SUBJECT_PREFIX: Final = word("subjectPrefix", "Only subjects that begin with it. `:*:` stands for all contexts.")
PAGE: Final = (
    number("offset", 0, "How many entries of the list to leave out."),
    number("limit", -1, "How many entries to answer with; negative: all."),
)
