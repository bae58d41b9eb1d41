"""MMFineReason (https://huggingface.co/OpenDataArena), 123K to 2.3M questions with a worked response.

Columns vary by subset and version: the answer is ``answer``, ``original_answer`` or in ``solution``, else what the
response says between ``<answer>`` tags. Of the response (``<think> .. </think> .. <answer> .. </answer>``) only the
conclusion, the text after ``</think>``, is kept, as PACE does.
"""

from __future__ import annotations

from mmcredit.data.gate import BadRow
from mmcredit.data.sources.entries import Entry
from mmcredit.data.sources.golds import answer_tag, conclusion, rate, unboxed
from mmcredit.data.sources.rows import Row
from mmcredit.data.sources.table import Table


class MMFineReason(Table):
    """See ``Table``; ``meta``: conclusion (``solution``), caption (``pseudo_ground_truth``), ``pass_rate``."""

    roles = {
        "images": ("image", "images"),
        "question": ("question", "problem"),
        "answer": ("answer", "original_answer"),
        "solution": ("solution",),
        "response": ("qwen3vl_235b_thinking_response", "response"),
        "id": ("id",),
        "caption": ("qwen3vl_235b_instruct_caption", "caption"),
        "source": ("data_source", "source"),
        "pass_rate": ("qwen3vl_4b_pass_rate", "pass_rate"),
    }
    required = ("question", "answer|solution|response", "images")

    def entry(self, row: Row, turn: int) -> Entry:
        response = self.note(row, "response") or ""
        answer = self.note(row, "answer") or answer_tag(response) or self.note(row, "solution")
        if answer is None:
            raise BadRow("gold_missing", "the row has neither an answer nor a response with <answer> tags")
        meta = {
            "solution": conclusion(response) or self.note(row, "solution"),
            "pseudo_ground_truth": self.note(row, "caption"),
            "source": self.note(row, "source"),
            "pass_rate": rate(self.value(row, "pass_rate")),
        }
        return Entry(self.text(row, "question"), answer, self.images(row), meta=meta)

    def gold(self, answer: str) -> str:
        return unboxed(answer_tag(answer) or answer)
