"""Whole files, and folders that go on with the settings they were begun with."""

from __future__ import annotations

import json

import pytest

from mmcredit.files import pin, write_json, write_text
from mmcredit.types import UserError


def test_a_file_is_replaced_at_once_and_what_cannot_be_written_leaves_it(tmp_path):
    path = tmp_path / "new folder" / "a.txt"
    write_text(path, "é\u2028\n")
    assert path.read_text("utf-8") == "é\u2028\n"
    with pytest.raises(UnicodeEncodeError):
        write_text(path, "\ud800")
    assert path.read_text("utf-8") == "é\u2028\n"
    write_json({"a": [1]}, path)
    assert json.loads(path.read_text("utf-8")) == {"a": [1]} and list(path.parent.iterdir()) == [path]


def test_a_folder_goes_on_with_its_own_settings_alone(tmp_path):
    path = tmp_path / "settings.json"
    for _ in range(2):
        pin(path, {"seed": 0, "law": {"group": 8}}, "job.out")
    with pytest.raises(UserError, match=r"begun with other settings \(law\).* another folder with job\.out="):
        pin(path, {"seed": 0, "law": {"group": 4}}, "job.out")
    assert json.loads(path.read_text("utf-8"))["law"] == {"group": 8}
