"""Laws: checksums of many stretches at once are what the library says of each."""

import numpy as np
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from fencepost.audit.decode import checksums as module
from fencepost.audit.decode.checksums import checksums
from tests.together import table


def expected(content: bytes, starts: list[int], ends: list[int]) -> list[int]:
    return [crc32c(content[start:end]) for start, end in zip(starts, ends, strict=True)]


def computed(content: bytes, starts: list[int], ends: list[int]) -> list[int]:
    buffer = np.frombuffer(content, np.uint8)
    found: list[int] = checksums(buffer, np.array(starts, np.int64), np.array(ends, np.int64)).tolist()
    return found


@given(
    content=st.binary(min_size=600, max_size=1200),
    length=st.sampled_from([1, 40, 255, 256, 257]),
    others=st.lists(st.tuples(st.integers(0, 300), st.integers(0, 300)), max_size=5),
)
def test_groups_of_one_length_and_the_rest(
    content: bytes, length: int, others: list[tuple[int, int]]
) -> None:
    stretches = [(start, length) for start in range(len(content) - length)] + others
    starts = [start for start, _ in stretches]
    ends = [start + size for start, size in stretches]
    assert computed(content, starts, ends) == expected(content, starts, ends)


@table("count", [0, 1, module._GROUP_MIN - 1, module._GROUP_MIN, module._GROUP_MIN + 1])
def test_at_the_size_from_which_groups_are_summed_by_columns(count: int) -> None:
    content = bytes(range(256)) * 2
    starts = [each % 100 for each in range(count)]
    ends = [start + 71 for start in starts]
    assert computed(content, starts, ends) == expected(content, starts, ends)
