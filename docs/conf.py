"""The docs site: the Markdown pages of this folder, the gallery, and the reference."""

import os
import warnings

import polycal

# Examples and the library's own threads share the cores; threads that wait would only spin.
os.environ.setdefault("OMP_NUM_THREADS", "1")
warnings.filterwarnings("ignore", category=UserWarning, message=".*non-interactive.*")

project = "polycal"
author = "The polycal developers"
release = version = polycal.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "numpydoc",
]
myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 3
autosummary_generate = True
autodoc_typehints = "none"  # the docstrings say the types
toc_object_entries_show_parents = "hide"
templates_path = ["_templates"]
numpydoc_show_class_members = False
exclude_patterns = ["_build"]
# Files of the repository that pages link to, but that are no pages of the site.
suppress_warnings = ["myst.xref_missing", "config.cache"]

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"/plot_",  # the others are shown and not run: they need minutes or data
    "ignore_pattern": r"displays\.py",  # it runs the page of that name
    "default_thumb_file": "images/demo.png",
    "download_all_examples": False,
    "show_memory": False,
    "show_signature": False,
    "min_reported_time": 1e9,
    "write_computation_times": False,
    "remove_config_comments": True,
    "plot_gallery": True,
}

html_theme = "pydata_sphinx_theme"
html_title = f"polycal {version}"
html_show_sourcelink = False
html_static_path = ["_static"]
html_css_files = ["site.css"]
# A page without pages below it needs no column for them.
html_sidebars = {name: [] for name in ("index", "start", "faq", "changelog")}
html_theme_options = {
    "navigation_with_keys": True,
    "show_prev_next": False,
    "header_links_before_dropdown": 8,
    "secondary_sidebar_items": ["page-toc"],
}
