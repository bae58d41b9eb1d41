"""Nothing that was written is lost or done twice."""

from __future__ import annotations

import pytest

from mmcredit.preparation.files import completed, read_rows, write_rows


class Work:
    """Squares numbers; dies at one of them, and fails at another the first time."""

    def __init__(self, deadly: str = "", failing: str = "") -> None:
        self.done, self.deadly, self.failing = [], deadly, failing

    def __call__(self, ids):
        if self.deadly in ids:
            raise KeyboardInterrupt
        self.done += ids
        rows = [{"id": i, "square": int(i) ** 2} for i in ids]
        rows = [{"id": i["id"], "failure": "timeout"} if i["id"] == self.failing else i for i in rows]
        self.failing = ""
        return rows


IDS = [str(i) for i in range(7)]


def test_a_killed_stage_goes_on_after_its_last_row(tmp_path):
    path = tmp_path / "a.jsonl"
    with pytest.raises(KeyboardInterrupt):
        completed(path, IDS, Work(deadly="5"), batch=2)
    assert not path.exists()
    partial = path.with_name("a.jsonl.partial")
    partial.write_text(partial.read_text() + '{"id": "4", "squ')  # killed while it wrote
    assert [row["id"] for row in read_rows(partial)] == IDS[:4]
    work = Work()
    rows = completed(path, IDS, work, batch=2)
    assert work.done == IDS[4:] and [row["square"] for row in rows] == [i * i for i in range(7)]
    assert not partial.exists() and [row["id"] for row in read_rows(path)] == IDS
    again = Work()
    assert completed(path, IDS, again, batch=2) == rows and not again.done


def test_failures_are_asked_again_and_new_ids_added(tmp_path):
    path = tmp_path / "a.jsonl"
    rows = completed(path, IDS[:3], Work(failing="0"), batch=2)
    assert rows[0] == {"id": "0", "failure": "timeout"} and rows[1]["square"] == 1
    work = Work()
    rows = completed(path, IDS[:4], work, batch=2)
    assert work.done == ["0", "3"] and [row["square"] for row in rows] == [0, 1, 4, 9]


def test_a_file_without_rows_is_there(tmp_path):
    assert completed(tmp_path / "a.jsonl", [], Work(), batch=2) == []
    assert (tmp_path / "a.jsonl").read_text() == ""
    assert read_rows(tmp_path / "none.jsonl") == []


def test_lines_keep_text_as_it_is(tmp_path):
    write_rows(tmp_path / "a.jsonl", [{"id": "é\n\u2028"}])
    assert read_rows(tmp_path / "a.jsonl") == [{"id": "é\n\u2028"}]
