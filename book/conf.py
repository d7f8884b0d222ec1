"""How Sphinx makes the book's site: from stored notebooks, without running them, and with nothing fetched by a page."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "site"
sys.path.insert(0, str(ROOT))

from book.extensions.address import address_of, site_of  # noqa: E402

project = html_title = "Every Byte"
author = "The Every Byte authors"
copyright = "The Every Byte authors"
language = "en"

extensions = [
    "myst_nb",
    "sphinx_copybutton",
    "sphinxcontrib.bibtex",
    "sphinxext.opengraph",
    "book.extensions.katex",
    "book.extensions.numbered",
    "book.extensions.recordings",
    "book.extensions.front_page",
    "book.extensions.address",
    "book.extensions.chapters",
    "book.extensions.page_notes",
    "book.extensions.exercises",
    "book.extensions.explorers",
    "book.extensions.diagrams",
    "book.extensions.formula_sheet",
    "book.extensions.search_sections",
    "book.extensions.glossary",
    "book.extensions.folds",
    "book.extensions.sources",
    "book.extensions.reference",
]
templates_path = ["_templates"]
book_address = address_of((ROOT / "CITATION.cff").read_text(encoding="utf-8"))

# The stored outputs are the ones that the tests compare; a page shows them as they are.
nb_execution_mode = "off"
nb_merge_streams = True
nb_ipywidgets_js = {}
nb_code_prompt_show = "Solution"
myst_enable_extensions = ["dollarmath", "colon_fence", "deflist"]
myst_heading_anchors = 3

html_math_renderer = "every_byte_katex"
katex_module = str(BUILD / "npm" / "node_modules" / "katex")
bibtex_bibfiles = ["references.bib"]

# Code that one may want elsewhere; what a cell prints stays where it is.
copybutton_selector = "div.cell_input div.highlight pre, :is(.highlight-sh, .highlight-python, .highlight-bibtex) pre"

# What others show of a link to a page; without the site's own address their addresses are relative.
html_baseurl = ogp_site_url = site_of((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
ogp_social_cards = {"enable": False}
ogp_image = "_static/share.png"
ogp_image_alt = "The memory of a training step over time, in layers by owner, with the card's limit as a line across it"

html_theme = "sphinx_book_theme"
html_static_path = [str(BUILD / "static"), "_static"]
html_css_files = ["katex.min.css", "fonts.css", "icons.css", "book.css", "predictions.css", "print.css"]
html_js_files = [
    (f"{name}.js", {"defer": "defer"})
    for name in "menus storage progress predictions predictions_page exercises results scrolling search_dialog".split()
]
html_logo = "_static/logo.svg"
html_favicon = "_static/logo.svg"
html_copy_source = False
html_show_sourcelink = False
html_use_index = False
html_permalinks_icon = "#"
html_theme_options = {
    "home_page_in_toc": False,
    "logo": {"text": "Every Byte", "alt_text": ""},
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
    "search_bar_text": "Search the book",
    "show_toc_level": 2,
    "back_to_top_button": False,
    "toc_title": "On this page",
    "use_download_button": False,
    "use_fullscreen_button": False,
    "footer_content_items": ["copyright.html"],
}
html_context = {"default_mode": "auto"}  # light or dark as the reader's system is, until the reader says otherwise

# Words that chapters use in everyday senses too, or in more than one of the glossary's.
glossary_unlinked = [
    "activation",
    "block",
    "event",
    "kernel",
    "live",
    "measured",
    "phase",
    "recorded",
    "simulated",
    "split off",
    "term",
]
# And those that one chapter uses in another sense: segments of a chain of layers; a compiler that traces; a
# CUDA graph's pool.
glossary_unlinked_in = {"chapters/05_checkpointing": ["segment", "trace"], "chapters/07_does_not_fit": ["pool"]}
