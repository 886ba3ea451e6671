"""What the displays share: matplotlib is imported where a figure is drawn."""

from __future__ import annotations

import subprocess
import sys


def test_matplotlib_is_imported_by_plot_only():
    code = (
        "import sys, polycal, polycal.plotting as p;"
        "d = p.TrustDisplay.from_predictions([1.0], [0.0]);"
        "assert 'matplotlib' not in sys.modules, 'too early';"
        "sys.modules['matplotlib.pyplot'] = None\n"
        "try: d.plot()\n"
        "except ModuleNotFoundError as e: assert 'polycal[plot]' in str(e)\n"
        "else: raise AssertionError"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
