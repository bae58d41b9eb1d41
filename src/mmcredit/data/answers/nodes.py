"""Expressions as trees."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Num:
    """A rational number."""

    value: Fraction


@dataclass(frozen=True, slots=True)
class Name:
    """A variable, or a constant: ``pi``, ``e``, ``i``, ``oo``."""

    name: str


@dataclass(frozen=True, slots=True)
class Call:
    """An operation: ``add``, ``mul``, ``div``, ``pow``, ``neg``, ``pm``, ``sqrt``, ``sin``, ..."""

    head: str
    args: tuple[Node, ...]


Node: TypeAlias = Num | Name | Call
CONSTANTS = frozenset(("pi", "e", "i", "oo"))


def walk(node: Node) -> list[Node]:
    """All nodes, parents before their children."""
    found: list[Node] = [node]
    for one in found:
        if isinstance(one, Call):
            found.extend(one.args)
    return found


def variables(node: Node) -> frozenset[str]:
    """Names that are no constants."""
    return frozenset(one.name for one in walk(node) if isinstance(one, Name)) - CONSTANTS


def has(node: Node, head: str) -> bool:
    """Whether an operation occurs."""
    return any(isinstance(one, Call) and one.head == head for one in walk(node))


def replaced(node: Node, head: str, by: str) -> Node:
    """The tree with one operation in place of another."""
    if not isinstance(node, Call):
        return node
    return Call(by if node.head == head else node.head, tuple(replaced(arg, head, by) for arg in node.args))


def packed(node: Node) -> list[object]:
    """As JSON: ``["add", ["num", "1/2"], ["name", "x"]]``."""
    if isinstance(node, Num):
        return ["num", str(node.value)]
    if isinstance(node, Name):
        return ["name", node.name]
    return [node.head, *map(packed, node.args)]
