"""Text that could hide or reorder is named instead."""

from __future__ import annotations

import unicodedata

import pytest

from mmcredit.reporting.visible_text import visible


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\x00b\x1b[0m\x7f", "a⟨U+0000⟩b⟨U+001B⟩[0m⟨U+007F⟩"),
        ("\u202eabc\u202c \u2066x\u2069 \u200f", "⟨U+202E⟩abc⟨U+202C⟩ ⟨U+2066⟩x⟨U+2069⟩ ⟨U+200F⟩"),
        ("a\u200bb\ufeff\u00ad\u2028\U000e0041", "a⟨U+200B⟩b⟨U+FEFF⟩⟨U+00AD⟩⟨U+2028⟩⟨U+E0041⟩"),
        ("\x85\ud800", "⟨U+0085⟩⟨U+D800⟩"),
        ("one\ntwo\tthree\r", "one⏎\ntwo⇥\tthree⟨U+000D⟩"),
        ("<b>&amp; 😀 é שלום 你好 ½ \u00a0", "<b>&amp; 😀 é שלום 你好 ½ \u00a0"),
    ],
)
def test_what_cannot_be_seen_is_named(text, shown):
    assert visible(text) == shown


def test_every_character_comes_out_printable_and_encodable():
    text = visible("".join(map(chr, range(0x11000))))
    text.encode("utf-8")
    unseen = {c for c in text if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp")}
    assert unseen == {"\n", "\t"}
