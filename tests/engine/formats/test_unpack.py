"""Compressed streams: block containers of Java's libraries against our own packers, and limits."""

from __future__ import annotations

import gzip
import random
from collections.abc import Callable

import cramjam
import pytest
import xxhash
import zstandard

from engine.core.compression import RATIO_FROM, Budget, Damaged, TooBig, sniff
from engine.formats.unpack import BadBlock, Lz4Blocks, LzfBlocks, SnappyBlocks, snappy_block, unpacked

CONTENT = b"".join(b'{"Event":"E%d","n":%d}\n' % (k % 7, k * k) for k in range(9000)) + random.Random(1).randbytes(5000)
STEP = 32 << 10


def parts(content: bytes) -> list[bytes]:
    return [content[k : k + STEP] for k in range(0, len(content), STEP)]


def lz4(content: bytes) -> bytes:
    packed = b""
    for part in parts(content):
        data = bytes(cramjam.lz4.compress_block(part, store_size=False))
        method, data = (0x25, data) if len(data) < len(part) else (0x15, part)
        packed += b"LZ4Block" + bytes([method])
        for number in (len(data), len(part), xxhash.xxh32_intdigest(part, 0x9747B28C) & 0x0FFFFFFF):
            packed += number.to_bytes(4, "little")
        packed += data
    return packed + b"LZ4Block" + bytes([0x15]) + bytes(12)


def snappy(content: bytes) -> bytes:
    packed = b"\x82SNAPPY\x00" + (1).to_bytes(4, "big") * 2
    for part in parts(content):
        data = bytes(cramjam.snappy.compress_raw(part))
        packed += len(data).to_bytes(4, "big") + data
    return packed


def lzf(content: bytes) -> bytes:
    """Packs by the last place of each three bytes: every form of a reference occurs."""
    packed = b""
    for part in parts(content):
        out, literals, seen, at = bytearray(), bytearray(), {}, 0

        def flush(out: bytearray = out, literals: bytearray = literals) -> None:
            while literals:
                run = literals[:32]
                out += bytes([len(run) - 1]) + run
                del literals[:32]

        while at < len(part):
            key = part[at : at + 3]
            place = seen.get(key, -1)
            seen[key] = at
            if len(key) == 3 and place >= 0 and at - place <= 8192:
                length = 3
                while length < 264 and at + length < len(part) and part[place + length] == part[at + length]:
                    length += 1
                flush()
                back, code = at - place - 1, length - 2
                out += bytes([(min(code, 7) << 5) | back >> 8])
                out += bytes([code - 7]) if code >= 7 else b""
                out += bytes([back & 255])
                at += length
            else:
                literals.append(part[at])
                at += 1
        flush()
        if len(out) < len(part):
            packed += b"ZV\x01" + len(out).to_bytes(2, "big") + len(part).to_bytes(2, "big") + out
        else:
            packed += b"ZV\x00" + len(part).to_bytes(2, "big") + part
    return packed


CODECS = [(lz4, Lz4Blocks, "lz4"), (snappy, SnappyBlocks, "snappy"), (lzf, LzfBlocks, "lzf")]
codecs = pytest.mark.parametrize(("pack", "unpacker", "name"), CODECS, ids=[name for *_, name in CODECS])


@codecs
def test_any_division_gives_the_content(pack: Callable[[bytes], bytes], unpacker: type, name: str) -> None:
    packed = pack(CONTENT) + pack(CONTENT[:100])  # one stream behind another
    assert sniff(packed) == name
    for step in (len(packed), 4096, 11):
        one = unpacker()
        assert b"".join(p for k in range(0, len(packed), step) for p in one.pieces(packed[k : k + step])) == (
            CONTENT + CONTENT[:100]
        )
        assert one.eof


@codecs
def test_a_cut_stream_gives_its_whole_blocks(pack: Callable[[bytes], bytes], unpacker: type, name: str) -> None:
    packed = pack(CONTENT)
    for end in random.Random(2).sample(range(30, len(packed)), 25):
        cut, got = packed[:end], b""
        try:
            for piece in unpacked(lambda size, at, cut=cut: cut[at : at + size], name, Budget(len(cut))):  # type: ignore[misc]
                got += piece
        except Damaged as damage:
            assert damage.cut
        assert CONTENT.startswith(got) and len(got) % STEP in (0, len(CONTENT) % STEP)


@codecs
def test_damage_is_found_or_harmless(pack: Callable[[bytes], bytes], unpacker: type, name: str) -> None:
    packed = bytearray(pack(CONTENT[:70_000]))
    draw = random.Random(3)
    for _ in range(60):
        at, was = draw.randrange(len(packed)), 0
        was, packed[at] = packed[at], draw.randrange(256)
        try:
            got = b"".join(unpacker().pieces(bytes(packed)))
            assert len(got) <= 2 * 70_000 + (64 << 20)
        except BadBlock:
            pass
        packed[at] = was


def test_wrong_codecs_and_absurd_lengths_are_refused() -> None:
    with pytest.raises(BadBlock):
        list(Lz4Blocks().pieces(snappy(CONTENT)))
    with pytest.raises(BadBlock):
        list(LzfBlocks().pieces(lz4(CONTENT)))
    with pytest.raises(BadBlock):
        list(SnappyBlocks().pieces(b"\x82SNAPPY\x00" + bytes(8) + b"\x7f\xff\xff\xff" + bytes(100)))
    with pytest.raises(BadBlock):
        list(Lz4Blocks().pieces(b"LZ4Block\x25" + b"\xff" * 12 + bytes(100)))
    with pytest.raises(BadBlock):
        list(SnappyBlocks().pieces(b"\x82SNAPPY\x00" + bytes(8) + b"\0\0\0\x06" + b"\xff\xff\xff\xff\x0f\0"))
    with pytest.raises(BadBlock):
        list(LzfBlocks().pieces(b"ZV\x01\0\x02\0\x10\xe0\xff"))


BOMBS = {"gzip": gzip.compress, "zstd": zstandard.compress, "lz4": lz4}


@pytest.mark.parametrize("packing", BOMBS)
def test_the_ratio_rule_holds_for_every_packing(packing: str) -> None:
    bomb = BOMBS[packing](bytes(4 << 20)) * 40
    budget, total = Budget(len(bomb) // 20), 0
    with pytest.raises(TooBig, match="times its size"):
        for piece in unpacked(lambda size, at: bomb[at : at + size], packing, budget):  # type: ignore[arg-type]
            total += len(piece)
    assert RATIO_FROM < total <= RATIO_FROM + (8 << 20)


def test_the_setting_bounds_the_unpacked_size() -> None:
    data = gzip.compress(bytes(3 << 20))
    with pytest.raises(TooBig, match="max-unpacked-mb"):
        list(unpacked(lambda size, at: data[at : at + size], "gzip", Budget(len(data), 2 << 20)))


def test_a_snappy_block_cannot_claim_more_than_it_holds() -> None:
    claim = b"\xff\xff\xff\x1f"  # 64 MB
    with pytest.raises(BadBlock, match="claims"):
        snappy_block(claim + b"\x00a")
    block = bytes(cramjam.snappy.compress_raw(bytes(1 << 20)))
    budget = Budget(len(block), 3 << 20)
    assert [len(snappy_block(block, budget)) for _ in range(3)] == [1 << 20] * 3
    with pytest.raises(TooBig):
        snappy_block(block, budget)
