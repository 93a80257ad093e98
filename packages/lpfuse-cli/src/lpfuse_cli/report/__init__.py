"""What a fused detector is worth, what a person should tell it: values, and pages made of them."""

from lpfuse_cli.report.card import write_card
from lpfuse_cli.report.page import write_report
from lpfuse_cli.report.questions import Answers, ask, read_answers, write_questions
from lpfuse_cli.report.summary import figures, summarise

__all__ = [
    "Answers",
    "ask",
    "figures",
    "read_answers",
    "summarise",
    "write_card",
    "write_questions",
    "write_report",
]
