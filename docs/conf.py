"""The docs site: the Markdown pages of this folder, the gallery, and the reference."""

import os
import re
import shutil
from pathlib import Path

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml

import polycal

DOCS = Path(__file__).parent
STUDIES = DOCS.parent / "studies"

# Examples and the library's own threads share the cores; threads that wait would only spin.
os.environ.setdefault("OMP_NUM_THREADS", "1")

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
exclude_patterns = ["_build", "generated/studies/README.md"]

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"/plot_",  # the others are shown and not run: they need minutes or data
    "ignore_pattern": r"displays\.py",  # it runs the page of that name
    "download_all_examples": False,
    "thumbnail_size": (900, 560),
    "capture_repr": (),
    "show_memory": False,
    "show_signature": False,
    "min_reported_time": 1e9,
    "write_computation_times": False,
    "remove_config_comments": True,
}

html_theme = "pydata_sphinx_theme"
html_title = f"polycal {version}"
html_show_sourcelink = False
html_math_renderer = "mathml"  # browsers draw it themselves: no script, no network
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


def link_pages(text: str) -> str:
    """Links to files of the repository that are pages here: results of studies, examples."""
    text = re.sub(r"\]\(\.\./studies/(\S+\.md)\)", r"](/generated/studies/\1)", text)
    return re.sub(r"\]\(\.\./examples/(plot_\w+|demo|images)\.py\)", r"](/gallery/\1.rst)", text)


def copy_studies(app: object) -> None:
    """Results of the studies become pages; studies.md includes their README."""
    target = DOCS / "generated" / "studies"
    shutil.rmtree(target, ignore_errors=True)
    for file in [*STUDIES.glob("results/**/*.md"), *STUDIES.glob("results/**/*.png")]:
        copy = target / file.relative_to(STUDIES)
        copy.parent.mkdir(parents=True, exist_ok=True)
        if file.suffix == ".png":
            shutil.copyfile(file, copy)
            continue
        text = file.read_text()
        if not text.startswith("# "):
            text = f"# {file.parent.name}: {file.stem}\n\n{text}"
        copy.write_text(f"---\norphan: true\n---\n\n{text}")
    readme = re.sub(r"\]\((?!#)", "](../studies/", (STUDIES / "README.md").read_text())
    (target / "README.md").write_text(link_pages(readme))


def write_math(self, node):
    """A formula as MathML."""
    block = isinstance(node, nodes.math_block)
    self.body.append(tex2mathml(node.astext(), as_block=block))
    raise nodes.SkipNode


def setup(app):
    app.add_html_math_renderer("mathml", (write_math, None), (write_math, None))
    app.connect("builder-inited", copy_studies)
    app.connect("source-read", lambda app, name, source: source.insert(0, link_pages(source.pop())))
