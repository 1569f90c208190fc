"""CRC-32C of many records at once."""

import numpy as np

from data.records import crc32c


def test_crc32c_known_values():
    rows = np.frombuffer(b"123456789", np.uint8)[None]
    assert crc32c.crc32c(rows)[0] == 0xE3069283
    assert (
        crc32c.crc32c(np.zeros((2, 32), np.uint8)).tolist() == [0x8A9136AA] * 2
    )
    ones = np.full((1, 32), 0xFF, np.uint8)
    assert crc32c.crc32c(ones)[0] == 0x62A8AB43


def test_crc32c_against_the_bitwise_definition():
    rng = np.random.default_rng(0)
    for length in (4, 5, 63, 64, 65, 200):
        data = rng.integers(0, 256, (3, length), dtype=np.uint8)
        for row, found in zip(data, crc32c.crc32c(data), strict=True):
            state = 0xFFFFFFFF
            for byte in row:
                state ^= int(byte)
                for _ in range(8):
                    state = (state >> 1) ^ (0x82F63B78 if state & 1 else 0)
            assert found == state ^ 0xFFFFFFFF
