"""Nearest polytope in packed activations, beside FAISS and SciPy; prints JSON.

python benchmarks/speed_network.py [--threads 2]

1000 queries against 20,000 polytopes of 4 layers x 1000 bits. polycal computes the exact
layer product; FAISS IndexBinaryFlat and SciPy's cdist know only the plain Hamming distance,
on the same bits. FAISS comes with: pip install faiss-cpu
"""

from __future__ import annotations

import argparse
import json

import faiss
import numpy as np
from _clock import best_time
from scipy.spatial.distance import cdist

from polycal.core.density import Density
from polycal.core.execution import Execution
from polycal.core.reading import ActivationModes
from polycal.kernels import NetworkIndex, Search, reference

LAYERS = (1000,) * 4


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--polytopes", type=int, default=20_000)
    parser.add_argument("--queries", type=int, default=1000)
    args = parser.parse_args()
    rng = np.random.default_rng(0)
    stored = [rng.random((args.polytopes, n)) < 0.5 for n in LAYERS]
    # A query is a stored row with a tenth of its bits flipped, as a neighbour would be.
    origin = rng.integers(0, args.polytopes, args.queries)
    asked = [layer[origin] ^ (rng.random((args.queries, layer.shape[1])) < 0.1) for layer in stored]
    modes, queries = ActivationModes.from_bits(stored), ActivationModes.from_bits(asked)
    index, execution = NetworkIndex(modes), Execution(n_jobs=args.threads)
    X = np.zeros((args.queries, 1))
    one = np.ones((args.polytopes, 1))
    search = Search(Density.from_parts(0 * one, one, one[:, 0]), 1)
    near = index.nearest(queries, X, search, execution)  # compiles
    few = slice(0, 2)
    K = reference.similarity(queries[few], modes)
    assert (near.index[few, 0] == K.argmax(axis=1)).all()
    ours = best_time(lambda: index.nearest(queries, X, search, execution))

    faiss.omp_set_num_threads(args.threads)
    flat = faiss.IndexBinaryFlat(sum(LAYERS))
    flat.add(np.packbits(np.concatenate(stored, axis=1), axis=1))
    packed = np.packbits(np.concatenate(asked, axis=1), axis=1)
    hamming = best_time(lambda: flat.search(packed, 1))

    share = 20
    left, right = np.concatenate(asked, axis=1)[:share], np.concatenate(stored, axis=1)
    scipy_time = best_time(lambda: cdist(left, right, "hamming").argmin(axis=1), 1)
    scipy_time *= args.queries / share

    bits = args.queries * args.polytopes * sum(LAYERS)
    report = {
        "benchmark": "speed_network",
        "threads": args.threads,
        "Gbit/s": {
            "polycal (layer product)": round(bits / ours / 1e9, 1),
            "FAISS (Hamming)": round(bits / hamming / 1e9, 1),
            "SciPy cdist (Hamming, 1 thread)": round(bits / scipy_time / 1e9, 2),
        },
        "times FAISS": round(hamming / ours, 2),
        "times SciPy": round(scipy_time / ours, 1),
    }
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
