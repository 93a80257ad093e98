"""What a fused detector is worth, what a person should tell it: values, and pages made of them."""

from lpfuse.report._card import write_card
from lpfuse.report._figures import figures
from lpfuse.report._page import write_report
from lpfuse.report._questions import ask, write_questions
from lpfuse.report._summary import summarise

__all__ = ["ask", "figures", "summarise", "write_card", "write_questions", "write_report"]
