from __future__ import annotations

import random
from itertools import pairwise
from typing import Any

import pytest
import torch
from transformers.convert_slow_tokenizer import bytes_to_unicode

from mmcredit.models.tiny import SPECIALS, train_tokenizer
from mmcredit.rollout.text import collate, decode_with_spans, tokens_meeting
from mmcredit.types import Span

SENTENCES = [
    "hello, how many red cubes are there?",
    "hello again: the answer is \\boxed{12}.",
    "the café is très déjà vu, naïve résumé.",
    "two cats 🐱🐱 and 猫 on a mat\n\nFinal answer: 2",
]
PIECES = [
    "a",
    "Z",
    "0",
    " ",
    "\n",
    "{",
    "\\",
    "é",
    "ß",
    "Ω",
    "€",
    "猫",
    "Ａ",
    "\u200b",
    "🐱",
    "👩\u200d🚀",
    "\ufffd",
    "\x00",
]
BYTE_TOKENS = bytes_to_unicode()


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return train_tokenizer(SENTENCES, vocab_size=400)


@pytest.fixture(scope="module")
def end(tokenizer: Any) -> int:
    return tokenizer.convert_tokens_to_ids("<|im_end|>")


@pytest.fixture(scope="module")
def bytes_of(tokenizer: Any) -> dict[int, bytes]:
    """The bytes of each ordinary token."""
    byte_of = {c: b for b, c in BYTE_TOKENS.items()}
    special = set(tokenizer.all_special_ids)
    return {i: bytes(byte_of[c] for c in token) for token, i in tokenizer.get_vocab().items() if i not in special}


def bytewise(tokenizer: Any, raw: bytes) -> list[int]:
    """One token a byte."""
    return tokenizer.convert_tokens_to_ids([BYTE_TOKENS[b] for b in raw])


def random_ids(tokenizer: Any, text: str, rng: random.Random) -> list[int]:
    """Tokens of the text: some pieces as the tokenizer has them, others byte by byte."""
    ids, start = [], 0
    while start < len(text):
        stop = start + rng.randint(1, 6)
        piece = text[start:stop]
        whole = tokenizer.encode(piece, add_special_tokens=False)
        ids += rng.choice([whole, bytewise(tokenizer, piece.encode())])
        start = stop
    return ids


def spans_by_bytes(text: str, tokens: list[bytes]) -> tuple[Span, ...]:
    """Each token's first to last character, found through the bytes that every character of valid text takes."""
    owner = [i for i, c in enumerate(text) for _ in c.encode()]
    spans, start = [], 0
    for token in tokens:
        touched = owner[start : start + len(token)]
        spans.append((touched[0], touched[-1] + 1))
        start += len(token)
    assert start == len(owner)
    return tuple(spans)


# --- valid text ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", SENTENCES)
def test_encoded_text_comes_back(tokenizer: Any, end: int, bytes_of: dict[int, bytes], text: str) -> None:
    ids = tokenizer.encode(text, add_special_tokens=False)
    decoded, spans = decode_with_spans(tokenizer, [*ids, end], [end])
    assert decoded == text
    assert spans[:-1] == spans_by_bytes(text, [bytes_of[i] for i in ids])
    assert spans[-1] == (len(text), len(text))


@pytest.mark.parametrize("seed", range(20))
def test_random_text_cut_anywhere(tokenizer: Any, end: int, bytes_of: dict[int, bytes], seed: int) -> None:
    rng = random.Random(seed)
    text = "".join(rng.choices([*PIECES, *SENTENCES], k=15))
    ids = random_ids(tokenizer, text, rng)
    assert b"".join(bytes_of[i] for i in ids) == text.encode()
    decoded, spans = decode_with_spans(tokenizer, ids, [end])
    assert decoded == text
    assert spans == spans_by_bytes(text, [bytes_of[i] for i in ids])


def test_characters_cut_across_tokens_belong_to_all_of_them(tokenizer: Any, end: int) -> None:
    ids = [*bytewise(tokenizer, "é🐱".encode()), *tokenizer.encode("a", add_special_tokens=False), end]
    text, spans = decode_with_spans(tokenizer, ids, [end])
    assert text == "é🐱a"
    assert spans == ((0, 1), (0, 1), (1, 2), (1, 2), (1, 2), (1, 2), (2, 3), (3, 3))


def test_every_byte_is_read_back(tokenizer: Any, end: int) -> None:
    every = bytes(range(256))
    assert decode_with_spans(tokenizer, bytewise(tokenizer, every), [end])[0] == every.decode("utf-8", "replace")


def test_text_is_the_tokenizers_own(tokenizer: Any, end: int) -> None:
    rng = random.Random(0)
    ids = [rng.randrange(len(tokenizer)) for _ in range(200)]
    own = tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False)
    assert decode_with_spans(tokenizer, [*ids, end], [end])[0] == own


# --- invalid text -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(20))
def test_random_bytes_do_not_raise(tokenizer: Any, end: int, bytes_of: dict[int, bytes], seed: int) -> None:
    rng = random.Random(seed)
    raw = [rng.choice([rng.randrange(256), rng.randrange(0x80, 0x100), 0xE2, 0xF0]) for _ in range(30)]
    ids = bytewise(tokenizer, bytes(raw)) + rng.choices(list(bytes_of), k=20)
    rng.shuffle(ids)
    finished = [end] * (seed % 2)
    text, spans = decode_with_spans(tokenizer, ids + finished, [end])
    assert text == b"".join(bytes_of[i] for i in ids).decode("utf-8", "replace")
    assert_spans_cover(text, spans[: len(ids)])
    assert spans[len(ids) :] == ((len(text), len(text)),) * len(finished)


def assert_spans_cover(text: str, spans: tuple[Span, ...]) -> None:
    """In order, none empty, no gap, from the first to the last character."""
    assert all(0 <= start < stop <= len(text) for start, stop in spans)
    assert spans[0][0] == 0
    assert spans[-1][1] == len(text)
    assert all(a[0] <= b[0] <= a[1] <= b[1] for a, b in pairwise(spans))


@pytest.mark.parametrize("finished", [False, True])
def test_character_left_incomplete_at_the_end(tokenizer: Any, end: int, finished: bool) -> None:
    ids = [*bytewise(tokenizer, b"a\xf0\x9f\x90"), *[end] * finished]
    text, spans = decode_with_spans(tokenizer, ids, [end])
    assert text == "a\ufffd"
    assert spans == ((0, 1), (1, 2), (1, 2), (1, 2), *[(2, 2)] * finished)


def test_lone_continuation_byte_is_one_replacement_character(tokenizer: Any, end: int) -> None:
    text, spans = decode_with_spans(tokenizer, bytewise(tokenizer, b"\x80\xffb"), [end])
    assert (text, spans) == ("\ufffd\ufffdb", ((0, 1), (1, 2), (2, 3)))


# --- end and special tokens ---------------------------------------------------------------------------------------


def test_response_of_the_end_token_alone(tokenizer: Any, end: int) -> None:
    assert decode_with_spans(tokenizer, [end], [end]) == ("", ((0, 0),))


def test_any_of_the_end_tokens_ends(tokenizer: Any, end: int) -> None:
    other = tokenizer.convert_tokens_to_ids("<|endoftext|>")
    ids = tokenizer.encode("hello", add_special_tokens=False)
    for last in (end, other):
        text, spans = decode_with_spans(tokenizer, [*ids, last], [other, end])
        assert (text, spans[-1]) == ("hello", (5, 5))
    assert decode_with_spans(tokenizer, [*ids, other], [end])[0] == "hello<|endoftext|>"


@pytest.mark.parametrize("special", [s for s in SPECIALS if s != "<|im_end|>"])
def test_special_tokens_inside_are_written_out(tokenizer: Any, end: int, special: str) -> None:
    ids = [*bytewise(tokenizer, b"a"), tokenizer.convert_tokens_to_ids(special), *bytewise(tokenizer, b"b"), end]
    text, spans = decode_with_spans(tokenizer, ids, [end])
    stop = 1 + len(special)
    assert text == f"a{special}b"
    assert spans == ((0, 1), (1, stop), (stop, stop + 1), (stop + 1, stop + 1))


def test_added_tokens_are_not_read_as_bytes(end: int) -> None:
    tokenizer = train_tokenizer(SENTENCES, vocab_size=400)
    added = ["<｜sep▁é｜>", "two words"]
    tokenizer.add_tokens(added)
    ids = [*tokenizer.convert_tokens_to_ids(added), end]
    first, total = len(added[0]), len("".join(added))
    assert decode_with_spans(tokenizer, ids, [end]) == ("".join(added), ((0, first), (first, total), (total, total)))


def test_end_token_that_is_not_the_last_is_written_out(tokenizer: Any, end: int) -> None:
    text, spans = decode_with_spans(tokenizer, [end, *bytewise(tokenizer, b"a"), end], [end])
    assert (text, spans) == ("<|im_end|>a", ((0, 10), (10, 11), (11, 11)))


# --- tokens that meet a span --------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
def test_tokens_meeting_share_a_character(seed: int) -> None:
    rng = random.Random(seed)
    spans = [(a, a + rng.randint(0, 4)) for a in (rng.randint(0, 12) for _ in range(30))]
    for _ in range(20):
        start = rng.randint(0, 12)
        wanted = (start, start + rng.randint(0, 5))
        want = [bool(set(range(*span)) & set(range(*wanted))) for span in spans]
        assert tokens_meeting(spans, wanted) == want


def test_end_token_meets_nothing(tokenizer: Any, end: int) -> None:
    ids = tokenizer.encode("hello", add_special_tokens=False)
    text, spans = decode_with_spans(tokenizer, [*ids, end], [end])
    assert tokens_meeting(spans, (0, len(text))) == [True] * len(ids) + [False]


# --- collate ------------------------------------------------------------------------------------------------------


def test_collate_pads_and_keeps_the_sampled_ids(tokenizer: Any, end: int) -> None:
    hello = bytewise(tokenizer, b"hello")
    assert tokenizer.encode("hello", add_special_tokens=False) != hello  # not what the tokenizer would have made
    rows = [[[*hello, end], [end]], [bytewise(tokenizer, "🐱".encode()), [*bytewise(tokenizer, b"no"), end]]]
    responses = collate(tokenizer, [[torch.tensor(ids) for ids in group] for group in rows], [end])
    lengths = [[6, 1], [4, 3]]
    assert responses.ids_BGT.shape == responses.mask_BGT.shape == (2, 2, 6)
    assert responses.ids_BGT.dtype == torch.int64
    assert responses.mask_BGT.dtype == torch.bool
    assert responses.texts == (("hello", ""), ("🐱", "no"))
    for b, group in enumerate(rows):
        for g, ids in enumerate(group):
            assert responses.ids_BGT[b, g].tolist() == ids + [0] * (6 - len(ids))
            assert responses.mask_BGT[b, g].tolist() == [i < lengths[b][g] for i in range(6)]
            assert responses.spans[b][g] == decode_with_spans(tokenizer, ids, [end])[1]


def test_collate_does_not_mask_sampled_zeros(tokenizer: Any, end: int) -> None:
    responses = collate(tokenizer, [[torch.tensor([0, 0, end]), torch.tensor([0])]], [end])
    assert responses.mask_BGT.tolist() == [[[True, True, True], [True, False, False]]]
