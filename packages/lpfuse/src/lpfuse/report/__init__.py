"""What a fused detector is worth: a summary of plain values, and a page made of it."""

from lpfuse.report._figures import figures
from lpfuse.report._page import write_report
from lpfuse.report._summary import summarise

__all__ = ["figures", "summarise", "write_report"]
