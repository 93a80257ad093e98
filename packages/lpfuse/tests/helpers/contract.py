"""What scikit-learn's checks ask that is refused on purpose."""

# They feed the labels 0, 1 and 2 to `score`, which compares +1 (normal) with -1 (anomaly). In `fit`
# such labels are dropped by subclasses of the tests; in `score` they are the point.
OTHER_LABELS_IN_SCORE = ("check_fit_score_takes_y", "check_pipeline_consistency")


def refused_labels(estimator=None):
    """Checks that fail for their labels, by name: why; for ``expected_failed_checks``."""
    return dict.fromkeys(OTHER_LABELS_IN_SCORE, "labels are +1 (normal) and -1 (anomaly)")
