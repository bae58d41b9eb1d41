"""Model text made visible: nothing that it holds can hide, reorder or break what is shown beside it."""

from __future__ import annotations

import unicodedata

SHOWN_AS = {"\n": "⏎\n", "\t": "⇥\t"}
UNSEEN = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")  # controls, formats (bidi, joiners), surrogates, unassigned, ...


def visible(text: str) -> str:
    """The text with every character that a reader could not see replaced by a name for it.

    Example: ``visible("a\\x00b\\u202e")`` is ``"a⟨U+0000⟩b⟨U+202E⟩"``. Letters of any script and emoji stay; escaping
    for HTML is the template's business.
    """
    return "".join(map(_shown, text))


def _shown(character: str) -> str:
    if character in SHOWN_AS:
        return SHOWN_AS[character]
    if unicodedata.category(character) in UNSEEN:
        return f"⟨U+{ord(character):04X}⟩"
    return character
