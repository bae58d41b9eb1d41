"""What a section found, as a table on the screen."""

from __future__ import annotations

from dataclasses import dataclass, field

Cell = str | float | int
Row = dict[str, Cell]


@dataclass(frozen=True)
class Table:
    """Rows of equal columns, and what a reader must know beside them."""

    title: str
    rows: list[Row] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        lines = ["", self.title, "-" * len(self.title)]
        if self.rows:
            cells = [list(self.rows[0]), *([shown(value) for value in row.values()] for row in self.rows)]
            widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
            lines += ["  ".join(c.rjust(w) for c, w in zip(row, widths, strict=True)) for row in cells]
        return "\n".join(lines + [f"* {note}" for note in self.notes])


def shown(value: Cell) -> str:
    """A number in three significant digits, integers and text as they are."""
    if not isinstance(value, float):
        return str(value)
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"
