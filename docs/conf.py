"""The docs site: the Markdown pages of this folder, and the reference from the docstrings."""

import polycal

project = "polycal"
author = "The polycal developers"
release = version = polycal.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
]
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3
autosummary_generate = True
autodoc_typehints = "none"  # the docstrings say the types
toc_object_entries_show_parents = "hide"
templates_path = ["_templates"]
numpydoc_show_class_members = False
exclude_patterns = ["_build"]
# Files of the repository that pages link to, but that are no pages of the site.
suppress_warnings = ["myst.xref_missing"]

html_theme = "pydata_sphinx_theme"
html_title = f"polycal {version}"
html_show_sourcelink = False
# One level of pages needs no column for the second.
html_sidebars = {
    name: [] for name in ("index", "start", "recipes", "gallery", "design", "results", "api")
}
html_theme_options = {
    "navigation_with_keys": True,
    "show_prev_next": False,
    "secondary_sidebar_items": ["page-toc"],
}
