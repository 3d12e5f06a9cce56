"""The site: `make docs` builds it from these pages and from the docstrings."""

import sys
from pathlib import Path

import bridle

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

project = "bridle"
author = project_copyright = "The bridle developers"
release = version = bridle.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "names", "formulas", "pictures"]
exclude_patterns = ["_build"]
myst_heading_anchors = 3
myst_enable_extensions = ["colon_fence", "dollarmath"]

autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_type_aliases = {name: name for name in ("ArrayLike", "NDArray", "Array", "Bias", "Stop")}
autodoc_preserve_defaults = True
highlight_language = "none"  # of formulas in docstrings
maximum_signature_line_length = 88

html_theme = "furo"
pygments_dark_style = "github-dark"
html_title = f"bridle {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
