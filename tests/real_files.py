"""Bytes of real picture files, sound and bad, as corpora hold them."""

from __future__ import annotations

import struct
import zlib
from io import BytesIO
from typing import Any

import numpy as np
from PIL import Image, ImageDraw


def saved(picture: Image.Image, kind: str, **options: Any) -> bytes:
    data = BytesIO()
    picture.save(data, kind, **options)
    return data.getvalue()


def scene(size: tuple[int, int] = (60, 40)) -> Image.Image:
    """A red rectangle on a grey slope."""
    picture = Image.linear_gradient("L").resize(size).convert("RGB")
    ImageDraw.Draw(picture).rectangle((5, 5, size[0] // 2, size[1] // 2), "red")
    return picture


def noise() -> Image.Image:
    return Image.fromarray(np.random.default_rng(0).integers(0, 256, (90, 90), dtype=np.uint8))


def half(data: bytes) -> bytes:
    return data[: len(data) // 2]


def bomb(side: int = 60_000) -> bytes:
    """A PNG of a few bytes whose header announces ``side`` x ``side`` pixels."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    header = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(bytes(99))) + chunk(b"IEND", b"")
    )


def damaged_png() -> bytes:
    """The first bytes of the pixels overwritten: the stream does not unpack."""
    data = bytearray(saved(scene(), "PNG"))
    start = data.index(b"IDAT") + 4
    data[start : start + 10] = b"\xff" * 10
    return bytes(data)


def rotated(kind: str = "JPEG", orientation: int = 6, size: tuple[int, int] = (24, 16)) -> bytes:
    exif = Image.Exif()
    exif[0x0112] = orientation
    return saved(scene(size), kind, exif=exif)


HTML = b"<!DOCTYPE html><html><body>404 Not Found</body></html>"
SVG = b'<svg xmlns="http://www.w3.org/2000/svg" width="10" height="10"></svg>'
POSTSCRIPT = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n%%EndComments\nshowpage\n"
JPEG = saved(scene((300, 200)), "JPEG")

BAD = {  # name: (bytes, reason)
    "half a JPEG": (half(JPEG), "image_truncated"),
    "JPEG without its last bytes": (JPEG[:-40], "image_truncated"),
    "JPEG header alone": (JPEG[:30], "image_truncated"),
    "half a PNG": (half(saved(noise(), "PNG")), "image_truncated"),
    "half a WebP": (half(saved(noise(), "WEBP")), "image_truncated"),
    "half a bitmap": (half(saved(scene(), "BMP")), "image_truncated"),
    "half a TIFF": (half(saved(scene((200, 200)), "TIFF")), "image_truncated"),
    "PNG with damaged pixels": (damaged_png(), "image_damaged"),
    "empty file": (b"", "image_empty"),
    "HTML page as .jpg": (HTML, "image_not_an_image"),
    "JSON error as .jpg": (b'{"error": "rate limit"}', "image_not_an_image"),
    "Git LFS pointer": (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "image_not_an_image"),
    "zeros": (bytes(500), "image_not_an_image"),
    "vector drawing": (SVG, "image_not_an_image"),
    "PostScript, which other readers hand to a program": (POSTSCRIPT, "image_not_an_image"),
    "icon, a format not read": (saved(scene((32, 32)), "ICO"), "image_not_an_image"),
    "decompression bomb": (bomb(), "image_bomb"),
    "smaller bomb": (bomb(9_600), "image_bomb"),
    "1x300": (saved(Image.new("RGB", (1, 300)), "PNG"), "image_aspect"),
    "10x3000": (saved(Image.new("RGB", (10, 3000)), "PNG"), "image_aspect"),
    "1x500": (saved(Image.new("L", (1, 500)), "PNG"), "image_aspect"),
    "500x1": (saved(Image.new("L", (500, 1)), "PNG"), "image_aspect"),
    "3x4000": (saved(Image.new("RGB", (3, 4000)), "PNG"), "image_aspect"),
}

GOOD_SIZES = [(1, 1), (1, 200), (200, 1), (2, 399), (3, 3), (24, 198), (29, 27), (31, 639), (690, 15420)]
