"""Pages of credit maps: nothing runs, nothing is loaded, model text is text, sizes are bounded."""

from __future__ import annotations

import base64
import hashlib
import re
import shutil
import subprocess
from html.parser import HTMLParser

import pytest
from map_case import HOSTILE, panel, shown

from mmcredit.files import write_text
from mmcredit.reporting.credit_page import SIDES, credit_page, data_uri
from mmcredit.reporting.visible_text import visible
from mmcredit.types import UserError

WORDS = tuple(f" word{i}" for i in range(80))
ALLOWED = {"html", "head", "meta", "title", "link", "style", "body", "input", "header", "h1", "h2", "div", "span", "i"}
ALLOWED |= {"label", "b", "main", "section", "bdi", "figure", "figcaption", "svg", "image", "rect", "img", "p"}


class Found(HTMLParser):
    """Elements, attributes, and the text of each token."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: list[tuple[str, str]] = []
        self.tokens: list[str] = []
        self.styles: list[str] = []
        self.inside = ""
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes += [(name, value or "") for name, value in attrs]
        self.inside = tag
        if tag == "i" and any(name == "data-t" for name, _ in attrs):
            self.tokens.append("")

    def handle_endtag(self, tag):
        self.inside = ""

    def handle_data(self, data):
        if self.inside == "i" and self.tokens:
            self.tokens[-1] += data
        if self.inside == "style":
            self.styles.append(data)


def test_model_text_is_text():
    found = Found(credit_page(shown(panel())))
    assert found.tags <= ALLOWED
    assert found.tokens == [visible(text) for text in HOSTILE] * 2
    assert not [name for name, _ in found.attributes if name.startswith("on") or name == "style"]


def test_nothing_is_loaded_from_elsewhere_and_the_policy_names_the_only_style_sheet():
    page = credit_page(shown(panel()))
    found = Found(page)
    for name, value in found.attributes:
        if name in ("src", "href", "action"):
            assert value.startswith("data:")
    policy = next(value for name, value in found.attributes if name == "content" and "default-src" in value)
    digest = base64.b64encode(hashlib.sha256(found.styles[0].encode()).digest()).decode()
    assert f"style-src 'sha256-{digest}';" in policy and "default-src 'none'" in policy and "unsafe" not in policy
    assert len(found.styles) == 1 and "url(" not in page and "@import" not in page


@pytest.mark.parametrize("samples", [10, pytest.param(200, marks=pytest.mark.slow)])
def test_two_hundred_samples_stay_below_ten_megabytes(samples):
    """Three chains of 80 tokens, and a large picture of pure noise each, which compresses worst: those shrink."""
    photo, megabytes = panel(WORDS, chains=3, size=(400, 300), noise=True), 0.05 * samples
    assert samples * len(data_uri(photo.pictures[0], SIDES[0])) > 1e6 * megabytes
    size = len(credit_page(shown(*[photo] * samples), megabytes).encode()) / 1e6
    assert megabytes / 2 < size <= megabytes


def test_the_same_map_gives_the_same_bytes():
    assert credit_page(shown(panel(), panel(noise=True))) == credit_page(shown(panel(), panel(noise=True)))


def test_a_page_that_cannot_be_small_enough_is_refused():
    with pytest.raises(UserError, match=r"of 2 prompts is .* MB, above max_mb=0.005: show fewer"):
        credit_page(shown(panel(), panel()), max_mb=0.005)


def test_pictures_shrink_but_never_grow():
    from PIL import Image

    assert len(data_uri(Image.new("RGB", (2000, 10)), 100)) < len(data_uri(Image.new("RGB", (2000, 10)), 1000))
    assert data_uri(Image.new("RGB", (20, 10)), 100) == data_uri(Image.new("RGB", (20, 10)), 1000)
    assert data_uri(Image.new("L", (5, 5)), 100).startswith("data:image/jpeg;base64,")


def test_a_page_is_written_whole_or_not_at_all(tmp_path):
    write_text(tmp_path / "a" / "page.html", "é😀")
    assert (tmp_path / "a" / "page.html").read_text("utf-8") == "é😀"
    with pytest.raises(UnicodeEncodeError):
        write_text(tmp_path / "a" / "page.html", "\ud800")
    assert (tmp_path / "a" / "page.html").read_text("utf-8") == "é😀"


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("chromium") is None, reason="needs chromium")
def test_a_browser_shows_the_text_and_reports_nothing(tmp_path):
    file = tmp_path / "page.html"
    file.write_text(credit_page(shown(panel())), "utf-8")
    command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--dump-dom"]
    done = subprocess.run([*command, file.as_uri()], capture_output=True, text=True, timeout=120, check=True)
    assert "CONSOLE" not in done.stderr
    assert re.search(r">&lt;script&gt;alert\(1\)&lt;/script&gt;</i>", done.stdout) and "<script" not in done.stdout
