"""The cheat sheet as one printed page: Markdown to HTML, and a browser to PDF.

python docs/site/cheat_sheet.py build/cheat-sheet.html
chromium --headless --no-pdf-header-footer --print-to-pdf=… build/cheat-sheet.html
"""

import sys
from pathlib import Path

from markdown_it import MarkdownIt
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_by_name

SOURCE = Path(__file__).resolve().parents[1] / "cheat-sheet.md"
COLOURS = HtmlFormatter(style="friendly", nowrap=True)
STYLE = """
@page { size: A4 landscape; margin: 9mm; }
body { font: 9pt/1.4 system-ui, sans-serif; margin: 0; color: #1c2430; }
h1 { font-size: 15pt; margin: 0; } h1::before { content: "lpfuse: "; color: #0b66a0; }
h1 + p { margin: 1mm 0 3mm; }
main { columns: 2; column-gap: 8mm; }
section { break-inside: avoid; margin-bottom: 2.4mm; }
h2 { font-size: 10.5pt; margin: 0 0 1mm; color: #0b66a0; }
pre { margin: 0; padding: 1.5mm 2mm; background: #f3f5f7; border-radius: 1.5mm; }
pre { font-size: 7.5pt; line-height: 1.45; }
pre, code { font-family: ui-monospace, "DejaVu Sans Mono", monospace; }
table { font-size: 8.2pt; } td code { font-size: 7.2pt; }
table { border-collapse: collapse; line-height: 1.3; }
td, th { text-align: left; vertical-align: top; padding: .3mm 2mm .3mm 0; }
"""


def coloured(code: str, language: str, _: str) -> str:
    """Code in colours."""
    return highlight(code, get_lexer_by_name(language or "text"), COLOURS)


def html(text: str) -> str:
    """The page, in two columns, a section to a heading."""
    made = MarkdownIt("commonmark", {"highlight": coloured}).enable("table").render(text)
    top, *parts = made.split("<h2>")
    sections = "".join(f"<section><h2>{part}</section>" for part in parts)
    style = STYLE + COLOURS.get_style_defs("pre")
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>lpfuse: cheat sheet</title>'
        f"<style>{style}</style>{top}<main>{sections}</main></html>"
    )


if __name__ == "__main__":
    target = Path(sys.argv[1])
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(html(SOURCE.read_text()))
