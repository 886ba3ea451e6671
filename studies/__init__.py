"""The studies: each figure and table of the paper, one command each.

A cell has one thread, whatever the machine and the number of jobs, so that sums are added in
the same order everywhere. The variables count only before NumPy is loaded, hence this place.
"""

import os

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")
