"""Sphinx's settings: the pages of this folder and those beside the README, as one site (``make docs``)."""  # noqa: INP001  (Sphinx runs it)

project = "fencepost"
author = "The fencepost authors"
extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
root_doc = "docs/index"
include_patterns = ["*.md", "docs/*.md"]
myst_heading_anchors = 4
nitpicky = True
suppress_warnings = ["misc.highlighting_failure"]  # DuckDB's SQL, and Spark's
html_theme = "alabaster"
html_title = project
