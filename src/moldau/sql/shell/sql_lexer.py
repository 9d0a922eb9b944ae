"""Colours of SQL in the shell: Pygments' lexer for SQL with our words and those of ksqlDB."""

from __future__ import annotations

import re
from typing import Final

from pygments.lexer import RegexLexer, words
from pygments.token import Comment, Keyword, Name, Number, Operator, Punctuation, String, Text

KEYWORDS: Final = (
    "SELECT FROM WHERE GROUP BY HAVING ORDER LIMIT OFFSET JOIN LEFT RIGHT FULL INNER OUTER CROSS SEMI ANTI ON USING AS "
    "AND OR NOT IN IS NULL LIKE RLIKE BETWEEN EXISTS CASE WHEN THEN ELSE END UNION ALL EXCEPT INTERSECT DISTINCT WITH "
    "VALUES CREATE REPLACE STREAM TABLE IF INSERT INTO SHOW LIST DESCRIBE DESC EXTENDED PRINT BEGINNING EXPLAIN PAUSE "
    "RESUME TERMINATE DROP DELETE TOPIC SET UNSET DEFINE UNDEFINE RUN SCRIPT EMIT CHANGES WINDOW TUMBLING HOPPING "
    "SESSION SIZE ADVANCE GRACE PERIOD WITHIN PARTITION AT TIMESTAMP PRIMARY KEY TOPICS STREAMS TABLES QUERIES QUERY "
    "FUNCTIONS SETTINGS PROPERTIES VARIABLES OVER INTERVAL CAST ASC TRUE FALSE LATERAL VIEW EXPLODE"
)
TYPES: Final = (
    "BOOLEAN TINYINT SMALLINT INT INTEGER BIGINT LONG FLOAT DOUBLE DECIMAL DATE STRING VARCHAR BINARY BYTES ARRAY MAP "
    "STRUCT VARIANT MILLISECOND SECOND MINUTE HOUR DAY WEEK MILLISECONDS SECONDS MINUTES HOURS DAYS WEEKS"
)


class MoldauSqlLexer(RegexLexer):  # type: ignore[misc]
    """Only colours: a text that is wrong is coloured too."""

    name = "Moldau SQL"
    flags = re.IGNORECASE
    tokens = {  # noqa: RUF012 - Pygments' interface
        "root": [
            (r"\s+", Text.Whitespace),
            (r"--[^\n]*", Comment.Single),
            (r"/\*", Comment.Multiline, "comment"),
            (r"r?'(\\.|''|[^'\\])*'?", String.Single),
            (r'r?"(\\.|""|[^"\\])*"?', String.Double),
            (r"`([^`]|``)*`?", Name.Variable),
            (r"\$\{\w*\}?", Name.Constant),
            (words(TYPES.split(), prefix=r"\b", suffix=r"\b"), Keyword.Type),
            (words(KEYWORDS.split(), prefix=r"\b", suffix=r"\b"), Keyword),
            (r"\d+(\.\d+)?(e[+-]?\d+)?", Number),
            (r"\w+(?=\s*\()", Name.Function),
            (r"\w+", Name),
            (r"[-+*/<>=~!@#%^&|?:]", Operator),
            (r"[;,.()\[\]{}$\\]", Punctuation),
            (r".", Text),
        ],
        "comment": [
            (r"/\*", Comment.Multiline, "#push"),
            (r"\*/", Comment.Multiline, "#pop"),
            (r"[^/*]+|[/*]", Comment.Multiline),
        ],
    }
