"""Formulas as MathML, which browsers draw by themselves: no script, no network."""

from typing import Any

from docutils.nodes import Element, SkipNode
from docutils.utils.math import latex2mathml

# Names of LaTeX that docutils does not know, and what they are to be read as.
SYNONYMS = {
    r"\dots": r"\ldots",
    "…": r"\ldots ",
    r"\iff": r"\Longleftrightarrow",
    r"\Big(": r"\Bigl(",
    r"\Big)": r"\Bigr)",
}


def setup(app: Any) -> dict[str, bool]:
    """Offer the renderer to Sphinx as ``html_math_renderer = "mathml"``."""
    app.add_html_math_renderer(
        "mathml", inline_renderers=(_inline, None), block_renderers=(_block, None)
    )
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def mathml(formula: str, as_block: bool = False) -> str:
    """LaTeX as MathML."""
    for name, known in SYNONYMS.items():
        formula = formula.replace(name, known)
    return latex2mathml.tex2mathml(formula, as_block=as_block)


def _inline(writer: Any, node: Element) -> None:
    writer.body.append(mathml(node.astext()))
    raise SkipNode


def _block(writer: Any, node: Element) -> None:
    writer.body.append(f'<div class="math">{mathml(node.astext(), as_block=True)}</div>')
    raise SkipNode
