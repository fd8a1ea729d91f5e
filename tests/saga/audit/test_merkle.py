"""The Merkle tree against the public vectors of the certificate-transparency reference implementation."""

import pytest

from countermand.saga.audit.merkle import (
    EMPTY_ROOT,
    Tree,
    consistency_ranges,
    inclusion_ranges,
    leaf_hash,
    range_hash,
    verify_consistency,
    verify_inclusion,
)

LEAVES = ["", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f"]
ROOTS = [
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
]
INCLUSION: dict[tuple[int, int], list[str]] = {
    (0, 1): [],
    (0, 8): [
        "96a296d224f285c67bee93c30f8a309157f0daa35dc5b87e410b78630a09cfc7",
        "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
        "6b47aaf29ee3c2af9af889bc1fb9254dabd31177f16232dd6aab035ca39bf6e4",
    ],
    (5, 8): [
        "bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b",
        "ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0",
        "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    ],
    (2, 3): ["fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125"],
    (1, 5): [
        "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
        "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
        "bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b",
    ],
}
CONSISTENCY: dict[tuple[int, int], list[str]] = {
    (1, 1): [],
    (1, 8): [
        "96a296d224f285c67bee93c30f8a309157f0daa35dc5b87e410b78630a09cfc7",
        "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
        "6b47aaf29ee3c2af9af889bc1fb9254dabd31177f16232dd6aab035ca39bf6e4",
    ],
    (6, 8): [
        "0ebc5d3437fbe2db158b9f126a1d118e308181031d0a949f8dededebc558ef6a",
        "ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0",
        "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    ],
    (2, 5): [
        "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
        "bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b",
    ],
}


def grown(size: int) -> Tree:
    tree = Tree()
    for number in range(size):
        data = bytes.fromhex(LEAVES[number]) if number < len(LEAVES) else number.to_bytes(2)
        tree.append(leaf_hash(data))
    return tree


def inclusion(tree: Tree, leaf: int, size: int) -> list[bytes]:
    return [range_hash(leaves, tree.node) for leaves in inclusion_ranges(leaf, size)]


def consistency(tree: Tree, first: int, second: int) -> list[bytes]:
    return [range_hash(leaves, tree.node) for leaves in consistency_ranges(first, second)]


def unhex(hashes: list[str]) -> list[bytes]:
    return [bytes.fromhex(text) for text in hashes]


def test_the_roots_of_the_reference_vectors_come_out() -> None:
    tree = grown(8)
    assert [tree.root(size).hex() for size in range(1, 9)] == ROOTS
    assert EMPTY_ROOT.hex() == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    assert tree.root(0) == EMPTY_ROOT


@pytest.mark.parametrize("place", INCLUSION)
def test_the_inclusion_proofs_of_the_reference_vectors_come_out(place: tuple[int, int]) -> None:
    leaf, size = place
    assert inclusion(grown(8), leaf, size) == unhex(INCLUSION[place])
    hashed = leaf_hash(bytes.fromhex(LEAVES[leaf]))
    assert verify_inclusion(hashed, leaf, size, unhex(INCLUSION[place]), bytes.fromhex(ROOTS[size - 1]))


@pytest.mark.parametrize("sizes", CONSISTENCY)
def test_the_consistency_proofs_of_the_reference_vectors_come_out(sizes: tuple[int, int]) -> None:
    first, second = sizes
    assert consistency(grown(8), first, second) == unhex(CONSISTENCY[sizes])
    roots = bytes.fromhex(ROOTS[first - 1]), bytes.fromhex(ROOTS[second - 1])
    assert verify_consistency(first, roots[0], second, roots[1], unhex(CONSISTENCY[sizes]))


def test_every_leaf_is_proven_in_every_tree_and_nothing_else_is() -> None:
    tree = grown(33)
    for size in range(1, 34):
        root = tree.root(size)
        for leaf in range(size):
            proof = inclusion(tree, leaf, size)
            hashed = tree.node((0, leaf))
            assert verify_inclusion(hashed, leaf, size, proof, root)
            assert not verify_inclusion(leaf_hash(b"another"), leaf, size, proof, root)
            assert not verify_inclusion(hashed, leaf, size, [*proof, root], root)
            assert not proof or not verify_inclusion(hashed, leaf, size, proof[:-1], root)
            assert size == 1 or not verify_inclusion(hashed, (leaf + 1) % size, size, proof, root)


def test_every_earlier_tree_is_proven_a_prefix_and_no_other_is() -> None:
    tree = grown(33)
    for second in range(1, 34):
        for first in range(1, second + 1):
            proof = consistency(tree, first, second)
            roots = tree.root(first), tree.root(second)
            assert verify_consistency(first, roots[0], second, roots[1], proof)
            assert not verify_consistency(first, leaf_hash(b"another"), second, roots[1], proof)
            assert not verify_consistency(first, roots[0], second, leaf_hash(b"another"), proof)
            assert not proof or not verify_consistency(first, roots[0], second, roots[1], proof[:-1])


def test_a_proof_of_what_is_not_in_the_tree_is_refused() -> None:
    with pytest.raises(ValueError, match="a tree of 3 leaves has no leaf 3"):
        inclusion_ranges(3, 3)
    with pytest.raises(ValueError, match="from size 4 to size 3"):
        consistency_ranges(4, 3)
    assert not verify_inclusion(b"", 3, 3, [], b"")
    assert not verify_consistency(0, EMPTY_ROOT, 3, grown(3).root(3), [])
