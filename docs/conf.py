"""Sphinx configuration of the documentation; `make docs` builds it without a network."""

import sys
from importlib import import_module
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

from djgnn import __version__

project = "djgnn"
author = "the djgnn authors"
copyright = author
release = version = __version__

extensions = [
    "generated",
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.mathjax",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "gallery/*.py", "gallery/*.ipynb", "gallery/*.md5"]
default_role = "code"
suppress_warnings = ["config.cache"]

myst_enable_extensions = ["dollarmath", "colon_fence"]
myst_heading_anchors = 4

autodoc_typehints = "none"
autodoc_preserve_defaults = True
autodoc_member_order = "bysource"
napoleon_custom_sections = ["Shapes", "Reference"]
napoleon_use_rtype = False
toc_object_entries_show_parents = "hide"

_mathjax = Path(import_module("sphinx-mathjax-offline").__file__ or "").parent
html_static_path = [
    "_static",
    str(_mathjax / "static" / "mathjax" / "tex-svg.js"),
]
mathjax_path = "tex-svg.js"

highlight_language = "none"

html_theme = "pydata_sphinx_theme"
html_title = "djgnn"
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {
    "show_prev_next": True,
    "navigation_with_keys": False,
    "show_toc_level": 2,
    "navbar_align": "left",
    "header_links_before_dropdown": 6,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
}

copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"/plot_",
    "within_subsection_order": "FileNameSortKey",
    "download_all_examples": False,
    "show_memory": False,
    "write_computation_times": False,
    "min_reported_time": 3600,  # how long an example took depends on who builds
    "remove_config_comments": True,
    "abort_on_example_error": True,
}
