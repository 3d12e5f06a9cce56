"""Rows on a GPU. What needs one is marked `cuda`; the rest runs on any machine."""

from __future__ import annotations

import numpy as np
import pytest
from bridle.errors import DeviceError
from bridle.rows.cuda.device import PIECE, check_where, find_device, missing


def test_a_device_is_named_by_one_of_three_words():
    assert check_where("auto") == "auto"
    with pytest.raises(ValueError, match='device must be "cpu", "cuda" or "auto", got \'gpu\''):
        check_where("gpu")


@pytest.mark.skipif(missing() is None, reason="there is a GPU")
def test_without_a_device_one_line_says_why():
    with pytest.raises(DeviceError, match=r'^device="cuda" is not available: ') as error:
        find_device()
    assert "\n" not in str(error.value)


@pytest.mark.cuda
def test_copies_in_pieces_arrive_whole():
    device, rng = find_device(), np.random.default_rng(0)
    for size in (0, 1, PIECE // 4, 5 * PIECE + 17):
        values = rng.normal(size=size).astype(np.float32)
        np.testing.assert_array_equal(device.get(device.put(values)), values)
