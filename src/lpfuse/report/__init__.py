"""What a fused detector is worth: a summary of plain values, and a page made of it."""

from lpfuse.report.figures import figures
from lpfuse.report.page import write_report
from lpfuse.report.summary import summarise

__all__ = ["figures", "summarise", "write_report"]
