"""scikit-learn's checks, and what they ask that is refused on purpose."""

from unittest import SkipTest

from sklearn.utils.estimator_checks import estimator_checks_generator

# They feed the labels 0, 1 and 2 to `score`, which compares +1 (normal) with -1 (anomaly). In `fit`
# such labels are dropped by subclasses of the tests; in `score` they are the point.
OTHER_LABELS_IN_SCORE = ("check_fit_score_takes_y", "check_pipeline_consistency")


def refused_labels(estimator=None):
    """Checks that fail for their labels, by name: why; for ``expected_failed_checks``."""
    return dict.fromkeys(OTHER_LABELS_IN_SCORE, "labels are +1 (normal) and -1 (anomaly)")


def assert_passes_checks(estimator, refused=None):
    """Run all checks; fail with all that fail, and with those of `refused` that pass."""
    refused = refused or {}
    scoreless = set(OTHER_LABELS_IN_SCORE) <= set(refused)
    failed, passed = {}, set()
    for made, check in estimator_checks_generator(estimator, mark=None):
        name = check.func.__name__
        try:
            check(as_checked(made, check) if scoreless else made)
        except SkipTest:  # a library that the check needs is not there
            continue
        except Exception as error:
            if name not in refused:
                failed[name] = error
        else:
            passed.add(name)
    assert not failed, failed
    assert not passed & set(refused), f"refused, but passed: {passed & set(refused)}"
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
