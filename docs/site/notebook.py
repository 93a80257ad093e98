"""A notebook as a page: its text, its code and what it showed; nothing is run here."""

import base64
import json
from pathlib import Path
from typing import Any


def notebook_page(path: Path, pictures: Path) -> str:
    """Markdown of a notebook; its pictures are written into a folder beside the page."""
    parts = []
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        source = _text(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
        elif source.strip():
            parts.append(f"```python\n{source.rstrip()}\n```")
        for number, shown in enumerate(cell.get("outputs", ())):
            parts.append(_output(shown, pictures, f"{path.stem}-{cell['id']}-{number}.png"))
    return "\n\n".join(parts) + "\n"


def _output(shown: dict[str, Any], pictures: Path, name: str) -> str:
    """What a cell showed: the richest form that a page can hold."""
    if "text" in shown:  # printed
        return f"```text\n{_text(shown['text']).rstrip()}\n```"
    data = shown["data"]
    if "text/markdown" in data:
        return _text(data["text/markdown"])
    if "image/png" in data:
        pictures.mkdir(parents=True, exist_ok=True)
        (pictures / name).write_bytes(base64.b64decode(_text(data["image/png"])))
        return f"![What the code above draws]({name})"
    return f"```text\n{_text(data['text/plain']).rstrip()}\n```"


def _text(lines: str | list[str]) -> str:
    return lines if isinstance(lines, str) else "".join(lines)
