"""Files in the wild: what is read keeps its content, what is refused says why."""

from __future__ import annotations

import base64
import random
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageDraw
from real_files import BAD, GOOD_SIZES, HTML, JPEG, bomb, noise, rotated, saved, scene

from mmcredit.data.images import TURN, Facts, ImageError, decode, inspect, open_image, to_rgb
from mmcredit.types import Box

pytestmark = pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "root").mkdir()
    return tmp_path / "root"


@pytest.mark.parametrize(("data", "reason"), BAD.values(), ids=BAD)
def test_bad_file_is_refused_for_its_reason(root: Path, data: bytes, reason: str) -> None:
    (root / "bad.jpg").write_bytes(data)
    for cell in ("bad.jpg", data, {"bytes": data, "path": "bad.jpg"}, {"bytes": None, "path": "bad.jpg"}):
        with pytest.raises(ImageError, match=r"^image [^\n]{5,250}$") as error:
            decode(cell, root)
        assert error.value.reason == reason


@pytest.mark.parametrize("size", GOOD_SIZES, ids=str)
def test_tiny_and_long_pictures_that_the_processors_take(size: tuple[int, int]) -> None:
    assert decode(saved(Image.new("RGB", size), "PNG")).size == size


def test_bomb_is_refused_before_its_pixels_are_unpacked(root: Path) -> None:
    """The header is enough; so it is for ``inspect``."""
    for side in (9_600, 60_000):
        with pytest.raises(ImageError) as error:
            inspect(bomb(side))
        assert error.value.reason == "image_bomb"


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "BMP"])
def test_inspecting_reads_no_pixel(kind: str) -> None:
    """Half a file is enough for size and orientation."""
    data = saved(noise(), kind)
    assert inspect(data[: len(data) // 2]).stored == (90, 90)
    with pytest.raises(ImageError):
        decode(data[: len(data) // 2])


@pytest.mark.filterwarnings("ignore::UserWarning")  # of Pillow, about TIFF tags
def test_damaged_bytes_never_raise_anything_else() -> None:
    """Random bytes overwritten, files cut anywhere: a picture in RGB or an ``ImageError``."""
    rng, outcomes = random.Random(0), {True: 0, False: 0}
    kinds = [saved(scene(), kind) for kind in ("PNG", "JPEG", "GIF", "BMP", "WEBP", "TIFF", "PPM")]
    for data in kinds * 40:
        changed = bytearray(data)
        for _ in range(rng.choice([1, 5, 50])):
            changed[rng.randrange(min(len(changed), rng.choice([60, 10**6])))] = rng.randrange(256)
        try:
            picture = decode(bytes(changed[: rng.choice([len(changed), rng.randrange(1, len(changed))])]))
        except ImageError as error:
            outcomes[False] += 1
            assert error.reason.startswith("image_")
        else:
            outcomes[True] += 1
            assert picture.mode == "RGB"
    assert min(outcomes.values()) > 20


BLACK_ON_WHITE: dict[str, tuple[Any, Any]] = {  # mode: paper, ink
    "1": (1, 0), "L": (255, 0), "LA": ((0, 0), (0, 255)), "PA": ((255, 255), (0, 255)), "RGB": ("white", "black"),
    "RGBA": ((0, 0, 0, 0), (0, 0, 0, 255)), "RGBX": ((255,) * 4, (0, 0, 0, 255)), "CMYK": ((0,) * 4, (0, 0, 0, 255)),
    "YCbCr": ((255, 128, 128), (0, 128, 128)), "LAB": ((255, 128, 128), (0, 128, 128)), "HSV": ((0, 0, 255), (0, 0, 0)),
    "I": (65535, 0), "F": (1.0, 0.0), "I;16": (65535, 0), "I;16L": (65535, 0), "I;16B": (65535, 0),
    "I;16N": (65535, 0),
}  # fmt: skip


@pytest.mark.parametrize("mode", BLACK_ON_WHITE)
def test_a_line_stays_visible_in_every_mode(mode: str) -> None:
    paper, ink = BLACK_ON_WHITE[mode]
    picture = Image.new(mode, (9, 5), paper)
    picture.paste(ink, (0, 2, 9, 3))
    if mode == "PA":
        picture.putpalette([grey for grey in range(256) for _ in range(3)])
    read = decode(picture)
    assert (read.mode, read.size) == ("RGB", (9, 5))
    values = np.asarray(read).astype(int)
    assert values[2].max() <= 5 and np.delete(values, 2, 0).min() >= 250


@pytest.mark.parametrize("mode", ["La", "RGBa"])
def test_premultiplied_modes(mode: str) -> None:
    """Half transparent black on white is grey."""
    half = Image.new(mode.upper(), (4, 4), (0, 128) if mode == "La" else (0, 0, 0, 128)).convert(mode)
    assert to_rgb(half).getpixel((1, 1)) == pytest.approx((127,) * 3, abs=1)


def palette(**options: Any) -> bytes:
    picture = Image.new("P", (6, 6), 0)
    picture.putpalette([0, 0, 0, 255, 0, 0, 0, 0, 255])
    picture.paste(1, (2, 2, 4, 4))
    return saved(picture, "PNG", **options)


def test_palette_with_and_without_transparency() -> None:
    plain, clear = decode(palette()), decode(palette(transparency=0))
    assert [p.getpixel((0, 0)) for p in (plain, clear)] == [(0, 0, 0), (255, 255, 255)]
    assert [p.getpixel((3, 3)) for p in (plain, clear)] == [(255, 0, 0)] * 2


@pytest.mark.parametrize(
    ("mode", "color", "key"), [("L", 7, 7), ("RGB", (1, 2, 3), (1, 2, 3)), ("1", 0, 0), ("I;16", 300, 300)]
)
def test_one_transparent_color(mode: str, color: Any, key: Any) -> None:
    data = saved(Image.new(mode, (4, 4), color), "PNG", transparency=key)
    assert decode(data).getpixel((1, 1)) == (255, 255, 255)


def test_cmyk_jpeg_as_photoshop_inverts_it() -> None:
    for ink, seen in {(0, 255, 255, 0): (255, 0, 0), (255, 0, 0, 0): (0, 255, 255), (0, 0, 0, 255): (0, 0, 0)}.items():
        data = saved(Image.new("CMYK", (16, 16), ink), "JPEG", quality=95)
        assert b"Adobe" in data
        assert decode(data).getpixel((8, 8)) == pytest.approx(seen, abs=6)
    plain = saved(Image.new("CMYK", (16, 16), (0, 255, 255, 0)), "TIFF")
    assert decode(plain).getpixel((8, 8)) == (255, 0, 0)


@pytest.mark.parametrize(
    ("mode", "values", "grey"),
    [
        ("I;16", [0, 25700, 65535], [0, 100, 255]),
        ("I;16", [0, 2048, 4095], [0, 128, 255]),  # 12 bits
        ("I;16", [0, 100, 255], [0, 100, 255]),  # 8 bits in 16
        ("I", [0, 25700, 65535], [0, 100, 255]),
        ("I", [0, 100, 255], [0, 100, 255]),
        ("I", [-100, 0, 100], [0, 128, 255]),
        ("I", [0, 2**29, 2**30], [0, 128, 255]),
        ("F", [0.0, 0.5, 1.0], [0, 128, 255]),
        ("F", [0.0, 100.0, 255.0], [0, 100, 255]),
        ("F", [-1.0, 0.0, 1.0], [0, 128, 255]),
        ("F", [float("nan"), 0.5, 1.0], [128, 128, 255]),
        ("F", [float("nan")] * 3, [0, 0, 0]),
    ],
)
def test_deep_grey_is_scaled_not_clipped(mode: str, values: list[float], grey: list[int]) -> None:
    picture = Image.new(mode, (3, 1))
    for x, value in enumerate(values):
        picture.putpixel((x, 0), value)
    assert [to_rgb(picture).getpixel((x, 0))[0] for x in range(3)] == grey


def test_sixteen_bit_png_and_tiff_and_float_tiff() -> None:
    slope = np.linspace(0, 65535, 64).astype(np.uint16)[None].repeat(8, 0)
    for kind in ("PNG", "TIFF"):
        read = np.asarray(decode(saved(Image.fromarray(slope), kind)))
        assert len(np.unique(read)) == 64
    read = np.asarray(decode(saved(Image.fromarray((slope / 65535).astype(np.float32)), "TIFF")))
    assert len(np.unique(read)) == 64


@pytest.mark.parametrize("kind", ["GIF", "WEBP", "PNG"])
def test_first_frame_of_an_animation(kind: str) -> None:
    first, *more = (Image.new("RGB", (8, 8), color) for color in ("red", "green", "blue"))
    data = saved(first, kind, save_all=True, append_images=more, lossless=True)
    assert decode(data).getpixel((4, 4)) == (255, 0, 0)


# photographs on their side


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("kind", ["JPEG", "PNG", "TIFF"])
def test_picture_and_box_are_turned_together(kind: str, orientation: int) -> None:
    """A white box painted on the stored pixels lies where the turned box says; unturned where it was."""
    box, size = Box(5, 3, 9, 4), (40, 24)
    stored = Image.new("RGB", size)
    ImageDraw.Draw(stored).rectangle((5, 3, 13, 6), "white")
    exif = Image.Exif()
    exif[0x0112] = orientation
    data = saved(stored, kind, exif=exif, **({"quality": 100, "subsampling": 0} if kind == "JPEG" else {}))
    facts = inspect(data)
    assert (facts.stored, facts.orientation) == (size, orientation)
    for picture, expected in ((decode(data), facts.turned(box)), (decode(data, exif=False), box)):
        bright = np.asarray(picture)[..., 0] > 128
        rows, columns = np.where(bright)
        found = Box(columns.min(), rows.min(), np.ptp(columns) + 1, np.ptp(rows) + 1)
        assert found == expected and bright.sum() == box.area
    assert decode(data).size == facts.upright and decode(data, exif=False).size == facts.stored


@pytest.mark.parametrize("orientation", TURN)
def test_turned_boxes_stay_inside(orientation: int) -> None:
    rng, facts = random.Random(orientation), Facts(31, 17, orientation)
    for _ in range(50):
        w, h = rng.uniform(0.1, 31), rng.uniform(0.1, 17)
        box = facts.turned(Box(rng.uniform(0, 31 - w), rng.uniform(0, 17 - h), w, h))
        width, height = facts.upright
        assert box.area == pytest.approx(w * h)
        assert min(box.x, box.y) >= -1e-9 and box.x + box.w <= width + 1e-9 and box.y + box.h <= height + 1e-9


@pytest.mark.parametrize("orientation", [0, 9, 4711])
def test_nonsense_orientation_is_upright(orientation: int) -> None:
    data = rotated(orientation=orientation)
    assert decode(data).size == inspect(data).upright == (24, 16)


def test_broken_exif_spoils_no_picture() -> None:
    data = rotated().replace(b"Exif\0\0", b"Exif\0\0" + b"\xff" * 4, 1)
    assert decode(data).size == (24, 16)


# cells


def cells(root: Path) -> dict[str, object]:
    (root / "a.jpg").write_bytes(JPEG)
    text = base64.b64encode(JPEG).decode()
    return {
        "path": "a.jpg", "Path": Path("a.jpg"), "absolute path": str(root / "a.jpg"), "bytes": JPEG,
        "bytearray": bytearray(JPEG), "memoryview": memoryview(JPEG),
        "struct with bytes": {"bytes": JPEG, "path": None},
        "struct with path": {"bytes": None, "path": "a.jpg"}, "struct with both": {"bytes": JPEG, "path": "gone.jpg"},
        "base64": text, "base64 in lines": "\n".join(text[i : i + 76] for i in range(0, len(text), 76)),
        "base64 without padding": text.rstrip("="), "data URI": f"data:image/jpeg;base64,{text}",
        "struct with base64": {"bytes": text}, "decoded": Image.open(root / "a.jpg"),
    }  # fmt: skip


def test_every_form_of_a_cell_gives_the_same_pixels(root: Path) -> None:
    expected = np.asarray(Image.open(BytesIO(JPEG)).convert("RGB"))
    for form, cell in cells(root).items():
        assert np.array_equal(np.asarray(decode(cell, root)), expected), form
        assert inspect(cell, root) == Facts(300, 200), form


def test_png_as_base64_is_no_path(root: Path) -> None:
    assert decode(base64.b64encode(saved(scene(), "PNG")).decode()).size == (60, 40)


BAD_CELLS = {
    "nothing": (None, "image_path"),
    "empty text": ("", "image_path"),
    "number": (3, "image_path"),
    "list": (["a.jpg"], "image_path"),
    "empty struct": ({"bytes": None, "path": None}, "image_path"),
    "other struct": ({"url": "a"}, "image_path"),
    "no such file": ("b.jpg", "image_missing"),
    "folder": (".", "image_missing"),
    "address": ("https://example.org/a.jpg", "image_address"),
    "file address": ("file:///etc/passwd", "image_address"),
    "parent": ("../outside.png", "image_outside_root"),
    "system file": ("/etc/passwd", "image_outside_root"),
    "struct path outside": ({"bytes": None, "path": "../outside.png"}, "image_outside_root"),
    "link out": ("link.png", "image_outside_root"),
    "link out through a folder": ("way/outside.png", "image_outside_root"),
    "null character": ("a\0.png", "image_path"),
    "broken base64": ("data:image/png;base64,@@@@", "image_base64"),
    "HTML as base64": ("data:image/png;base64," + base64.b64encode(HTML).decode(), "image_not_an_image"),
    "empty data URI": ("data:image/png;base64,", "image_empty"),
}


@pytest.mark.parametrize(("cell", "reason"), BAD_CELLS.values(), ids=BAD_CELLS)
def test_bad_cell(root: Path, cell: object, reason: str) -> None:
    (root.parent / "outside.png").write_bytes(saved(scene(), "PNG"))
    (root / "link.png").symlink_to(root.parent / "outside.png")
    (root / "way").symlink_to(root.parent)
    with pytest.raises(ImageError) as error:
        decode(cell, root)
    assert error.value.reason == reason


def test_a_source_without_a_folder_opens_no_path(root: Path) -> None:
    cells(root)
    with pytest.raises(ImageError, match="no folder of images"):
        decode(str(root / "a.jpg"))


def test_a_link_to_the_root_is_the_root(root: Path) -> None:
    cells(root)
    (root.parent / "alias").symlink_to(root)
    assert decode("a.jpg", root.parent / "alias").size == (300, 200)


def test_a_file_that_is_gone(root: Path) -> None:
    with pytest.raises(ImageError, match="No such file") as error:
        open_image(root / "gone.png")
    assert error.value.reason == "image_unreadable"
