"""Settings of the site. `make docs` lays out its sources (`sources.py`) and builds it."""

import sys
from importlib.metadata import version as version_of
from pathlib import Path

SITE = Path(__file__).resolve().parent
sys.path.insert(0, str(SITE))
from browser import EXAMPLES, script_attributes  # noqa: E402
from reference import public_names  # noqa: E402

project = "lpfuse"
author = "lpfuse developers"
copyright = author
version = release = version_of("lpfuse")
language = "en"

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "mathml",
]
exclude_patterns = ["files", "extra", "gallery/used", "gallery/*.ipynb"]
templates_path = [str(SITE / "_templates")]

# Markdown, with the anchors that links between the files use.
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 4
# What names files in running text, and a title that repeats, is as it should be.
suppress_warnings = ["config.cache"]

# Docstrings: what single quotes hold is a name, linked where it has a page.
default_role = "py:obj"
autosummary_imported_members = True
autodoc_typehints = "none"
numpydoc_show_class_members = False
numpydoc_xref_param_type = False

html_theme = "furo"
html_title = "lpfuse"
html_static_path = [str(SITE / "_static")]
html_css_files = ["site.css"]
html_math_renderer = "mathml"
html_search_scorer = str(SITE / "scorer.js")
html_show_sphinx = False
html_copy_source = False
html_show_sourcelink = False
# Of those that come with Pygments, two whose comments can be read on their ground (4.5 to 1).
pygments_style = "default"
pygments_dark_style = "github-dark"
copybutton_exclude = ".linenos, .gp, .go"

sphinx_gallery_conf = {
    "examples_dirs": str(SITE.parents[1] / "examples" / "gallery"),
    "gallery_dirs": "gallery",
    "filename_pattern": r"plot_",
    "abort_on_example_error": True,
    "download_all_examples": False,
    "show_memory": False,
    "min_reported_time": 0,
    "within_subsection_order": "FileNameSortKey",
    "remove_config_comments": True,
    "plot_gallery": "True",
    "show_signature": False,
    "doc_module": ("lpfuse",),
    "reference_url": {"lpfuse": None},  # code of the examples links to the reference
    "backreferences_dir": "gallery/used",  # and the reference shows the examples
    "write_computation_times": False,
}


def skip_foreign(app, what, name, obj, skip, options):
    """Leave methods that come from scikit-learn or PyOD to their own documentation."""
    home = getattr(getattr(obj, "fget", None) or obj, "__module__", None) or ""
    return skip or (what == "class" and callable(obj) and not home.startswith("lpfuse"))


def list_modules(app, config):
    """Name the pages whose names have a page each; Sphinx would know those of the last build."""
    pages = sorted((Path(app.srcdir) / "reference").glob("*.rst"))
    config.autosummary_generate = [f"reference/{page.name}" for page in pages]


def add_extra_files(app):
    """Put llms.txt, which `sources.py` wrote, at the root of the site."""
    app.config.html_extra_path.append(str(Path(app.srcdir) / "extra"))


RUN_PAGES = [f"gallery/{name}" for name in EXAMPLES]


def write_again(app, env, added, changed, removed):
    """Write those pages in every build: they name wheels, which Sphinx knows nothing of."""
    return RUN_PAGES


def offer_to_run(app, pagename, templatename, context, doctree):
    """Let some examples run in the reader's browser, once asked to."""
    if pagename in RUN_PAGES:
        attributes = script_attributes(Path(app.srcdir) / "extra" / "run")
        app.add_js_file("run.js", loading_method="defer", **attributes)


def unlink_parameters(app, doctree):
    """Take `fusion` in a docstring for the parameter, not for the module of that name."""
    from sphinx.addnodes import pending_xref

    modules = {module.split(".")[-1] for module in public_names()}
    for node in list(doctree.findall(pending_xref)):
        if node.get("reftype") == "obj" and node["reftarget"] in modules:
            node.replace_self(node.children)


def setup(app):
    """Connect what is above."""
    app.connect("config-inited", list_modules)
    app.connect("doctree-read", unlink_parameters)
    app.connect("autodoc-skip-member", skip_foreign)
    app.connect("builder-inited", add_extra_files)
    app.connect("env-get-outdated", write_again)
    app.connect("html-page-context", offer_to_run)
