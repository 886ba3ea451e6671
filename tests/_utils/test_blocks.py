"""Blocks of rows: their sizes, their order in threads, and the end of the interpreter."""

from __future__ import annotations

import subprocess
import sys
import threading

import numpy as np
import pytest
from sklearn import config_context

from polycal._utils.blocks import concatenate, map_blocks


def test_small_blocks_have_a_few_rows_and_stay_within_memory():
    """Rows of a block, by hand: budget over the bytes of a row, but 8 where memory allows."""

    def sizes(bytes_per_row, **kwargs):
        return map_blocks(lambda rows: rows.stop - rows.start, 20, bytes_per_row, **kwargs)

    assert sizes(100.0, block_bytes=1000.0) == [10, 10]
    assert sizes(500.0, block_bytes=1000.0) == [8, 8, 4]
    with config_context(working_memory=0.002):  # 2097 bytes
        assert sizes(500.0, block_bytes=1000.0) == [4] * 5
        assert sizes(5000.0, block_bytes=1000.0) == [1] * 20


def test_blocks_in_threads_run_together_come_in_order_and_raise():
    together = threading.Barrier(2, timeout=60)

    def first_row(rows):
        together.wait()  # breaks unless two blocks are in flight
        return rows.start

    assert map_blocks(first_row, 200, 1.0, n_jobs=2) == [0, 100]

    def fail(rows):
        if rows.start:
            raise ValueError("the second block")

    with pytest.raises(ValueError, match="the second block"):
        map_blocks(fail, 200, 1.0, n_jobs=2)


def test_blocks_are_done_when_the_interpreter_is_about_to_end():
    """A thread outlives the main one, when a pool of threads takes no more work."""
    script = """
import threading
from polycal._utils.blocks import concatenate, map_blocks

def late():
    threading.main_thread().join()
    print(map_blocks(lambda rows: rows.start, 200, 1.0, n_jobs=2))

threading.Thread(target=late).start()
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout == "[0, 100]\n", done.stderr


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_concatenate(n_jobs):
    parts = [np.arange(n, dtype=np.uint16) for n in (3, 0, 5, *range(40))]
    expected = np.concatenate(parts)
    found = concatenate(parts, n_jobs)
    np.testing.assert_array_equal(found, expected)
    assert found.dtype == np.uint16
    assert parts == []
