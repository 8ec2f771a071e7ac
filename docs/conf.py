"""Settings of the documentation site: `make site` builds it, and warnings are errors.

The sources are the repository itself, so that pages of `docs`, figures of `benchmarks`, the
mathematics of the package and the changelog are read where they are.
"""

import os
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "docs"), str(ROOT)]
os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])

import coupledgp  # noqa: E402

project = "coupledgp"
author = copyright = "The coupledgp developers"
version = release = coupledgp.__version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "sphinx_design",
    "site_extension",
]
root_doc = "docs/index"
include_patterns = ["docs/*.md", "docs/notebooks/*.md"]
include_patterns += [
    "docs/reference/*.rst",
    "docs/reference/names/*.rst",
    "benchmarks/*.md",
    "coupledgp/MATH.md",
]
include_patterns += ["CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"]
exclude_patterns = ["site", ".venv", "build"]

# Pages
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 4
# Notebooks run in every build; an error in a cell ends it.
nb_execution_mode = "force"
nb_execution_raise_on_error = True
nb_execution_timeout = 300
nb_merge_streams = True

# Docstrings: code between single backticks, sections in the manner of NumPy.
default_role = "code"
napoleon_google_docstring = False
napoleon_use_rtype = False
napoleon_use_ivar = True
autodoc_typehints = "none"
# Attributes of one name in several classes are no ambiguity: they are read on their own pages.
suppress_warnings = ["ref.python"]
autodoc_member_order = "bysource"

toc_object_entries_show_parents = "hide"

html_theme = "furo"
html_title = "coupledgp"
html_extra_path = ["extra"]  # the way from the root to the first page
html_static_path = ["static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_theme_options = {"navigation_with_keys": True}
