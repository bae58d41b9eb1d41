"""Answers read: their kind, what they say, the options of a question. Standard library only."""

from mmcredit.data.answers.choices import choices, options
from mmcredit.data.answers.reading import Reading, answer_kind, read, same_key
from mmcredit.data.answers.text import unbox
from mmcredit.data.answers.values import Kind

__all__ = ["Kind", "Reading", "answer_kind", "choices", "options", "read", "same_key", "unbox"]
