"""How Sphinx builds the site: ``make docs``."""

from __future__ import annotations

import sys
from pathlib import Path

from cobandits import __version__

sys.path.insert(0, str(Path(__file__).parent / "_extensions"))

project = "cobandits"
author = "the cobandits contributors"
project_copyright = author
version = release = __version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.viewcode",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "api_pages",
    "command_pages",
]
root_doc = "index"
templates_path = ["_templates"]
exclude_patterns = ["_templates", "_extensions", "README.md", "gallery/*.ipynb"]
# sphinx-gallery's settings hold classes; two modules may have a Status each.
suppress_warnings = ["config.cache", "ref.python"]

# Markdown: headings are link targets, so a link to a heading that is gone is a warning.
myst_enable_extensions = ["colon_fence", "deflist", "fieldlist"]
myst_heading_anchors = 3

# Docstrings: one page per name, with types from the signature.
autosummary_generate = True
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False

# The gallery runs here; an example that fails fails the build.
sphinx_gallery_conf = {
    "examples_dirs": "../examples/gallery",
    "gallery_dirs": "gallery",
    "filename_pattern": "/plot_",
    "within_subsection_order": "FileNameSortKey",
    "abort_on_example_error": True,
    "download_all_examples": False,
    "show_memory": False,
    "write_computation_times": False,
    "min_reported_time": 1,
    "remove_config_comments": True,
    "image_scrapers": ("figure_scraper.scrape",),
    "reset_modules": (),
}

html_theme = "pydata_sphinx_theme"
html_title = f"cobandits {version}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_js_files = ["site.js"]
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "logo": {"text": f"cobandits {version}"},
    "navbar_end": ["theme-switcher"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "show_prev_next": True,
    "secondary_sidebar_items": ["page-toc"],
    "show_toc_level": 2,
    "header_links_before_dropdown": 7,
    # The search field's name would not be what is seen; site.js names what the theme does not.
    "collapse_navigation": True,
    "navbar_persistent": ["search-button"],
    "navigation_with_keys": False,
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
html_sidebars = {"index": []}

# `make site` keeps versions side by side; a site of one version has no menu of them.
if tags.has("versions"):  # type: ignore[name-defined]  # noqa: F821, Sphinx defines it
    html_theme_options |= {
        "switcher": {"json_url": "../versions.json", "version_match": version},
        "check_switcher": False,  # it is written when the site is put beside the others
        "navbar_end": ["version-switcher", "theme-switcher"],
    }
