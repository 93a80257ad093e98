"""Tables of people who have a file and no Python: from columns to a model, from files to scores."""

from lpfuse.tabular.model import TableModel
from lpfuse.tabular.preparation import TablePreparation

__all__ = ["TableModel", "TablePreparation"]
