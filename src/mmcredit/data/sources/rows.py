"""Rows of a corpus on disk or on the Hugging Face hub: parquet, JSON, Arrow, or what ``datasets`` saved."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mmcredit.types import UserError

if TYPE_CHECKING:
    import datasets

Row = dict[str, Any]
BUILDERS = {"parquet": "parquet", "jsonl": "json", "json": "json", "arrow": "arrow"}  # file ending -> builder
HUB = re.compile(r"[\w-][\w.-]*/[\w-][\w.-]*")
_ENDING = re.compile(r"\.(?:parquet|jsonl?|arrow|tsv|csv|zip|txt)$", re.IGNORECASE)
_SPLIT = re.compile(r"(?:^|[^a-z])(train|validation|val|dev|test)(?=$|[^a-z])", re.IGNORECASE)
_ALIASES = {"val": "validation", "dev": "validation"}


class Rows(Sequence[Row]):
    """Rows of an Arrow table, read when they are asked for. Pictures stay the bytes that they are."""

    def __init__(self, dataset: datasets.Dataset) -> None:
        self.names: list[str] = dataset.column_names
        self._data = dataset.with_format("arrow")

    def __len__(self) -> int:
        return len(self._data)

    def __getitem__(self, index: Any) -> Any:
        return self._data[int(index)].to_pylist()[0]

    def column(self, name: str) -> list[Any]:
        """All values of a column."""
        return self._data.select_columns(name)[:][name].to_pylist()


def is_hub_name(path: str | Path) -> bool:
    """Whether a path that does not exist here can be the name of a data set on the hub: ``owner/name``."""
    text = str(path)
    return HUB.fullmatch(text) is not None and not _ENDING.search(text) and not Path(text).expanduser().exists()


def local(path: str | Path | None, example: str) -> Path:
    """A file or folder that is there.

    Raises:
        UserError: none is named (``example`` says how), or it does not exist.
    """
    if path is None:
        raise UserError(f"data.path is not set: type data.path={example}")
    found = Path(path).expanduser().resolve()
    if not found.exists():
        raise UserError(f"data.path={path} does not exist; it can be a file, a folder or a hub name (owner/name)")
    return found


def shards(folder: Path, split: str, config: str | None = None) -> tuple[str, list[Path]]:
    """The files of one split, and the builder that reads them. Files whose names tell no split belong to every one.

    Raises:
        UserError: no file, or none of this split (the splits that were found).
    """
    base = folder / config if config else folder
    for ending, builder in BUILDERS.items():
        files = sorted(p for p in base.rglob(f"*.{ending}") if not p.name.startswith((".", "dataset_info")))
        if not files:
            continue
        told = {path: _split_of(path.relative_to(base)) for path in files}
        if not any(told.values()):
            return builder, files
        chosen = [path for path in files if told[path] == _ALIASES.get(split, split)]
        if not chosen:
            names = ", ".join(sorted({name for name in told.values() if name}))
            raise UserError(f"{base} has no split {split!r} (data.split); it has {names}")
        return builder, chosen
    raise UserError(f"{base} holds no {', '.join(BUILDERS)} file (data.path{', data.config' if config else ''})")


def _split_of(path: Path) -> str | None:
    found = _SPLIT.findall(str(path.with_suffix("")))
    return _ALIASES.get(found[-1].lower(), found[-1].lower()) if found else None


def load(
    path: str | Path, split: str = "train", config: str | None = None, revision: str | None = None, stream: bool = False
) -> Any:
    """A ``datasets.Dataset`` (``stream``: an ``IterableDataset``) of one split.

    Args:
        path: a file, a folder of files, a folder that ``datasets`` saved, or a hub name.
        config: subset; of a local folder, the subfolder.
        revision: of a hub data set.

    Raises:
        UserError: nothing there that can be read.
    """
    import datasets

    datasets.disable_progress_bars()
    try:
        if is_hub_name(path):
            return datasets.load_dataset(str(path), config, split=split, revision=revision, streaming=stream)
        place = local(path, "/path/to/folder")
        if (saved := place / config if config else place).is_dir() and any(
            (saved / name).is_file() for name in ("state.json", "dataset_dict.json")
        ):
            return _saved(saved, split)
        builder, files = shards(place, split, config) if place.is_dir() else (_builder(place), [place])
        return datasets.load_dataset(builder, data_files={"x": [*map(str, files)]}, split="x", streaming=stream)
    except UserError:
        raise
    except Exception as error:  # each builder and the hub fail in their own ways
        cause = str(error.__cause__ or error).strip().splitlines() or [""]
        raise UserError(f"data.path={path} cannot be read ({type(error).__name__}: {cause[0][:200]})") from error


def _builder(file: Path) -> str:
    ending = file.suffix.removeprefix(".").lower()
    if ending not in BUILDERS:
        raise UserError(f"data.path={file} ends in .{ending}; known endings are {', '.join(BUILDERS)}")
    return BUILDERS[ending]


def _saved(folder: Path, split: str) -> Any:
    import datasets

    found = datasets.load_from_disk(str(folder))
    if isinstance(found, datasets.Dataset):
        return found
    if split not in found:
        raise UserError(f"{folder} has no split {split!r} (data.split); it has {', '.join(map(str, found))}")
    return found[split]


def fetch(path: str | Path, revision: str | None = None) -> Path:
    """The folder of a hub data set with everything beside its tables (pictures in zips); a local path as it is."""
    if not is_hub_name(path):
        return local(path, "/path/to/folder")
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(str(path), repo_type="dataset", revision=revision))
    except Exception as error:  # unreachable, unknown or private
        raise UserError(f"data.path={path} is not here and cannot be downloaded ({type(error).__name__})") from error


def batches(dataset: Any) -> Iterator[Any]:
    """One ``pyarrow.Table`` of one row after the other of a stream, pictures as bytes. One row group of a parquet file
    is in memory at a time; whole files are read ahead without ``reshard``.

    Raises:
        UserError: the stream breaks off.
    """
    try:
        yield from dataset.reshard().with_format("arrow").iter(batch_size=1)
    except (OSError, ValueError) as error:  # of the network, of Arrow
        raise UserError(f"the data stream breaks off ({type(error).__name__}: {str(error)[:200]})") from error
