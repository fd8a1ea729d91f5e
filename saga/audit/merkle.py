"""The Merkle tree of RFC 6962, section 2.1, over a store of its complete subtrees.

A node ``(level, index)`` is the root of the complete subtree over the leaves ``index * 2**level`` up to
``(index + 1) * 2**level``. Such nodes never change once they exist, so a log stores them and everything else,
roots and proofs, is folded from a logarithmic number of them.
"""

import hashlib
from collections.abc import Callable, Iterator, Sequence

Node = tuple[int, int]
"""Level and index of a complete subtree."""

Range = tuple[int, int]
"""Leaves from the first up to, not including, the second."""

Lookup = Callable[[Node], bytes]
"""The hash of a complete subtree."""

EMPTY_ROOT = hashlib.sha256().digest()


def leaf_hash(data: bytes) -> bytes:
    """The hash of a leaf."""
    return hashlib.sha256(b"\x00" + data).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """The hash of an inner node."""
    return hashlib.sha256(b"\x01" + left + right).digest()


def nodes_of(leaves: Range) -> list[Node]:
    """The complete subtrees, left to right, of a range that appears in a root or a proof."""
    begin, end = leaves
    nodes: list[Node] = []
    while begin < end:
        level = (end - begin).bit_length() - 1
        nodes.append((level, begin >> level))
        begin += 1 << level
    return nodes


def range_hash(leaves: Range, lookup: Lookup) -> bytes:
    """MTH of a range: the root when it begins at the first leaf."""
    nodes = nodes_of(leaves)
    if not nodes:
        return EMPTY_ROOT
    result = lookup(nodes[-1])
    for node in reversed(nodes[:-1]):
        result = node_hash(lookup(node), result)
    return result


def completed_by(index: int, leaf: bytes, lookup: Lookup) -> Iterator[tuple[Node, bytes]]:
    """The nodes that exist once the leaf at ``index`` does: itself, and each subtree that it completes."""
    level, current = 0, leaf
    yield (level, index), current
    while index & 1:
        current = node_hash(lookup((level, index - 1)), current)
        level, index = level + 1, index >> 1
        yield (level, index), current


class Tree:
    """A tree held in memory, by its complete subtrees."""

    def __init__(self) -> None:
        self._levels: list[list[bytes]] = [[]]

    @property
    def size(self) -> int:
        """How many leaves."""
        return len(self._levels[0])

    @property
    def nodes(self) -> int:
        """How many complete subtrees."""
        return sum(len(level) for level in self._levels)

    def append(self, leaf: bytes) -> None:
        """Take in the hash of a further leaf."""
        for (level, _), value in completed_by(self.size, leaf, self.node):
            if level == len(self._levels):
                self._levels.append([])
            self._levels[level].append(value)

    def node(self, node: Node) -> bytes:
        """The hash of a complete subtree.

        Raises:
            LookupError: There is none.
        """
        level, index = node
        return self._levels[level][index]

    def root(self, size: int) -> bytes:
        """The root over the first ``size`` leaves."""
        return range_hash((0, size), self.node)


def inclusion_ranges(index: int, size: int) -> list[Range]:
    """PATH (RFC 6962, 2.1.1): the ranges whose hashes prove the leaf at ``index``, the nearest first.

    Raises:
        ValueError: The tree has no such leaf.
    """
    if not 0 <= index < size:
        raise ValueError(f"a tree of {size} leaves has no leaf {index}")
    begin, end = 0, size
    path: list[Range] = []
    while end - begin > 1:
        middle = begin + _largest_power_below(end - begin)
        if index < middle:
            path.append((middle, end))
            end = middle
        else:
            path.append((begin, middle))
            begin = middle
    return path[::-1]


def consistency_ranges(first: int, second: int) -> list[Range]:
    """PROOF (RFC 6962, 2.1.2): the ranges whose hashes prove that the first tree is a prefix of the second.

    Raises:
        ValueError: Not ``1 <= first <= second``.
    """
    if not 1 <= first <= second:
        raise ValueError(f"no consistency proof from size {first} to size {second}")
    begin, end, known = 0, second, True
    path: list[Range] = []
    while end != first:
        middle = begin + _largest_power_below(end - begin)
        if first <= middle:
            path.append((middle, end))
            end = middle
        else:
            path.append((begin, middle))
            begin, known = middle, False
    if not known:
        path.append((begin, end))
    return path[::-1]


def verify_inclusion(leaf: bytes, index: int, size: int, proof: Sequence[bytes], root: bytes) -> bool:
    """Whether the proof shows the leaf at ``index`` of the tree (RFC 9162, 2.1.3.2)."""
    if not 0 <= index < size:
        return False
    position, last, current = index, size - 1, leaf
    for sibling in proof:
        if last == 0:
            return False
        if position & 1 or position == last:
            current = node_hash(sibling, current)
            while not position & 1 and position:
                position, last = position >> 1, last >> 1
        else:
            current = node_hash(current, sibling)
        position, last = position >> 1, last >> 1
    return last == 0 and current == root


def verify_consistency(first: int, first_root: bytes, second: int, second_root: bytes, proof: Sequence[bytes]) -> bool:
    """Whether the proof shows that the first tree is a prefix of the second (RFC 9162, 2.1.4.2)."""
    if not 1 <= first <= second:
        return False
    if first == second:
        return not proof and first_root == second_root
    path = [first_root, *proof] if first & (first - 1) == 0 else list(proof)
    if not path:
        return False
    position, last = first - 1, second - 1
    while position & 1:
        position, last = position >> 1, last >> 1
    of_first = of_second = path[0]
    for sibling in path[1:]:
        if last == 0:
            return False
        if position & 1 or position == last:
            of_first, of_second = node_hash(sibling, of_first), node_hash(sibling, of_second)
            while not position & 1 and position:
                position, last = position >> 1, last >> 1
        else:
            of_second = node_hash(of_second, sibling)
        position, last = position >> 1, last >> 1
    return last == 0 and of_first == first_root and of_second == second_root


def _largest_power_below(number: int) -> int:
    return 1 << (number - 1).bit_length() - 1
