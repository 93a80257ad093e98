"""Tables of people who have a file and no Python: from columns to a model, from files to scores."""

from lpfuse.tables._model import TableModel
from lpfuse.tables._preparation import TablePreparation

__all__ = ["TableModel", "TablePreparation"]
