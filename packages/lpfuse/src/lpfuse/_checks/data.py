"""Moved: see `tables`, `arguments` and `messages`."""

from lpfuse._checks.arguments import (
    check_labels,
    check_row_names,
    check_sample_weight,
    check_values,
    labels_beside,
    weights_beside,
)
from lpfuse._checks.messages import how_to_label
from lpfuse._checks.tables import (
    check_columns,
    check_features,
    check_scores,
    check_table,
    column_names,
    no_spread,
    remember_columns,
    warn_about_columns,
    warn_about_copies,
    warn_about_flat,
)

__all__ = [
    "check_columns",
    "check_features",
    "check_labels",
    "check_row_names",
    "check_sample_weight",
    "check_scores",
    "check_table",
    "check_values",
    "column_names",
    "how_to_label",
    "labels_beside",
    "no_spread",
    "remember_columns",
    "warn_about_columns",
    "warn_about_copies",
    "warn_about_flat",
    "weights_beside",
]
