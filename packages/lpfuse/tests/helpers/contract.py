"""scikit-learn's checks, and what they ask that is refused on purpose."""

from sklearn.utils.estimator_checks import check_estimator

# They feed the labels 0, 1 and 2 to `score`, which compares +1 (normal) with -1 (anomaly). In `fit`
# such labels are dropped by subclasses of the tests; in `score` they are the point.
OTHER_LABELS_IN_SCORE = ("check_fit_score_takes_y", "check_pipeline_consistency")


def refused_labels(estimator=None):
    """Checks that fail for their labels, by name: why; for ``expected_failed_checks``."""
    return dict.fromkeys(OTHER_LABELS_IN_SCORE, "labels are +1 (normal) and -1 (anomaly)")


def assert_passes_checks(estimator, refused=None):
    """Run all checks; fail with all that fail, and with those of `refused` that pass."""
    results = check_estimator(estimator, expected_failed_checks=refused, on_skip=None, on_fail=None)
    told = {each["check_name"]: each["exception"] for each in results if each["status"] == "failed"}
    passed = {each["check_name"] for each in results if each["status"] == "passed"}
    assert not told
    assert not passed & set(refused or ())
    assert len(passed) > 30


def as_checked(estimator, check):
    """The estimator, for the check of array libraries without `score`, which it asks first.

    Its labels are 0 and 1; what it has to say of all other methods is worth hearing.
    """
    if getattr(check, "func", check).__name__ != "check_array_api_input":
        return estimator
    made = type(estimator)
    scoreless = type(made.__name__, (made,), {"score": property(_no_score)})
    return scoreless(**estimator.get_params(deep=False))


def _no_score(estimator):
    raise AttributeError("score")
