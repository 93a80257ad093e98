"""What a hostile file may try: run code, name paths and methods, crash compiled code."""

import os
import sys
import zipfile
from io import BytesIO
from typing import Literal, get_args, get_origin, get_type_hints

import numpy as np
import pytest
import sklearn
from sklearn.ensemble import (
    GradientBoostingClassifier,
    IsolationForest,
    RandomForestClassifier,
    StackingClassifier,
)
from sklearn.linear_model import LogisticRegression
from sklearn.mixture import GaussianMixture
from sklearn.neighbors import KNeighborsClassifier, LocalOutlierFactor
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler
from sklearn.random_projection import SparseRandomProjection
from sklearn.svm import SVC, OneClassSVM
from sklearn.tree import DecisionTreeClassifier

from helpers.cases import cases
from helpers.model_files import forge, members_of, write_manifest, write_members
from lpfuse import SVDD, FusedDetector, GMMDetector, KernelPCADetector
from lpfuse.adapters import ScoreFunction
from lpfuse.io import load, save
from lpfuse.io.reading import loadable_classes

rng = np.random.default_rng(0)
X = rng.normal(size=(60, 3))
Y = np.where(X[:, 0] > 0, 1, -1)
ELSEWHERE = "/tmp/elsewhere"
HERE = {"scikit-learn": sklearn.__version__}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "estimator.lpfuse"


# ------------------------------------------------------------------------------ no code, no paths


def hostile_pipeline():
    """Scoring would fit, and joblib would read pickles from the folder that the file names."""
    steps = [("scale", StandardScaler()), ("last", GaussianMixture())]
    pipeline = Pipeline(steps, memory=ELSEWHERE)
    scorer = ScoreFunction(pipeline, "normal", "fit_predict")
    scorer.scorer_ = pipeline
    return scorer


def test_a_file_cannot_have_scoring_fit_a_pipeline(path):
    fused = FusedDetector([("kpca", KernelPCADetector()), ("gmm", GMMDetector(2))], cv=2).fit(X)
    object.__setattr__(fused.pool_.one_class[1], "estimator", hostile_pipeline())
    path.write_bytes(b"old")
    with pytest.raises(TypeError, match=r"ScoreFunction\.method holds 'fit_predict'"):
        save(fused, path)
    assert path.read_bytes() == b"old"
    forge(fused, path)
    with pytest.raises(ValueError, match=r"ScoreFunction\.method holds 'fit_predict'"):
        load(path)


def test_a_file_says_nothing_of_how_the_work_is_done(path):
    pipeline = Pipeline([("scale", StandardScaler(copy=False))], memory=ELSEWHERE, verbose=True)
    save([pipeline, FusedDetector(n_jobs=7), IsolationForest(n_jobs=7)], path)
    loaded, fused, forest = load(path)
    assert (loaded.memory, loaded.verbose, loaded[0].copy) == (None, False, True)
    assert (fused.n_jobs, forest.n_jobs) == (None, None)
    for name, setting in (
        ("Pipeline", {"steps": [0], "memory": ELSEWHERE}),
        ("IsolationForest", {"n_jobs": 7}),
        ("FusedDetector", {"n_jobs": 7}),
        ("GridSearchCV", {"pre_dispatch": "print(1)"}),
    ):
        write_manifest(path, [{"list": []}, {"object": [name, setting]}])
        with pytest.raises(ValueError, match=f"would set .* of {name}, which is neither"):
            load(path)


# Parameters that may be any string: names and sentences, which no code takes for more.
NAMES = {
    ("Alternatives", "names"), ("Bet", "names"), ("Drift", "stream"),
    ("DummyClassifier", "constant"), ("KNNImputer", "missing_values"),
    ("KeptRows", "names"), ("LpFusion", "prior"), ("Member", "name"),
    ("MissingIndicator", "missing_values"),
    ("OneClassEnsembleClassifier", "unknown_label"), ("SearchResult", "best_params"),
    ("SearchResult", "cv_results"), ("SimpleImputer", "fill_value"),
    ("SimpleImputer", "missing_values"), ("TableFormat", "sheet"), ("TableModel", "label"),
    ("TableModel", "normal"), ("WatchedStreams", "names"),
}  # fmt: skip


def test_no_parameter_is_a_path_or_a_method(path):
    free = set()
    for name, kind in loadable_classes().items():
        for parameter in kind.words:
            described = {"object": [name, {parameter: ELSEWHERE}]}
            write_manifest(path, [described], **HERE)
            try:
                load(path)
            except ValueError as error:
                if f"{name}.{parameter} holds {ELSEWHERE!r}" in str(error):
                    continue
            free.add((name, parameter))
    assert {pair for pair in free if pair[0] in kinds_of_lpfuse_and_scikit_learn()} == NAMES


def kinds_of_lpfuse_and_scikit_learn():
    packages = ("lpfuse", "sklearn")
    kinds = loadable_classes().items()
    return {name for name, kind in kinds if kind.cls.__module__.split(".")[0] in packages}


def test_what_a_class_declares_can_be_saved():
    for kind in loadable_classes().values():
        if kind.cls.__module__.startswith("lpfuse.") and kind.name != "TableModel":
            hints = get_type_hints(kind.cls.__init__)
            for parameter in kind.words.keys() & hints.keys():
                for part in (hints[parameter], *get_args(hints[parameter])):
                    if get_origin(part) is Literal:
                        assert set(get_args(part)) <= set(kind.words[parameter]), parameter


@cases(
    ("estimator", "attribute", "value"),
    [
        (StackingClassifier([("a", LogisticRegression())], cv=2), "stack_method_", ["fit"]),
        (LocalOutlierFactor(novelty=True), "effective_metric_", "pyfunc"),
        (LocalOutlierFactor(novelty=True), "_fit_method", ELSEWHERE),
        (StandardScaler(), "mean_", np.array([ELSEWHERE])),
        (StandardScaler(), "mean_", ELSEWHERE.encode()),
    ],
)
def test_strings_among_what_was_learnt(estimator, attribute, value, path):
    setattr(estimator.fit(X, Y), attribute, value)
    forge(estimator, path)
    with pytest.raises(ValueError, match=rf"{type(estimator).__name__}\.{attribute} holds"):
        load(path)


def test_attributes_are_those_that_the_class_learns(path):
    scaler = StandardScaler().fit(X)
    scaler.mine_ = 1.0
    with pytest.raises(TypeError, match=r"has the attribute 'mine_'.*Delete it"):
        save(scaler, path)
    for attribute in ("mine_", "_doc_link_module", "_adapts", "transform", "_in_fit"):
        write_manifest(path, [{"object": ["StandardScaler", {attribute: 1}]}])
        with pytest.raises(ValueError, match=f"would set {attribute!r} of StandardScaler"):
            load(path)


def test_nothing_that_a_class_has_is_replaced(path):
    for name, attribute in (
        ("ScoreColumn", "_adapts"),
        ("SVDD", "_size_name"),
        ("FusedDetector", "score_samples"),
        ("HistGradientBoostingClassifier", "_parameter_constraints"),
    ):
        write_manifest(path, [{"object": [name, {attribute: "fit"}]}])
        with pytest.raises(ValueError, match=f"would set {attribute!r} of {name}"):
            load(path)


def test_only_functions_of_a_list_are_called(path):
    for name, parameter in (("OneClassSVM", "kernel"), ("FunctionTransformer", "func")):
        kernel = {"object": ["RBF", {}]}  # can be called, and a kernel of one's own is an index
        write_manifest(path, [kernel, {"object": [name, {parameter: [0]}]}])
        with pytest.raises(ValueError, match=rf"{name}\.{parameter} is RBF, and would be called"):
            load(path)
    transformer = FunctionTransformer(np.log1p, np.expm1).fit(np.abs(X))
    save(transformer, path)
    assert load(path).func is np.log1p


# ----------------------------------------------------------------------- compiled code of others


def wide_boosting():
    """Writes beyond the scores: 200 trees a stage, and room for one."""
    model = GradientBoostingClassifier(n_estimators=1).fit(X, Y)
    model.estimators_ = np.array([[model.estimators_[0, 0]] * 200], dtype=object)
    return model


def boosting_from_few_rows():
    """The start of the sum has one row, whatever is scored."""
    model = GradientBoostingClassifier(n_estimators=1).fit(X, Y)
    model.init_.class_prior_ = np.full((1, 1, 2), 0.5)
    return model


def strange_labels():
    model = KNeighborsClassifier(3, algorithm="brute", metric="manhattan").fit(X, Y)
    model._y = np.full(60, 2**40, dtype=np.intp)
    return model


def decoy_tree():
    model = RandomForestClassifier(2).fit(X, Y)
    wide = RandomForestClassifier(2).fit(np.column_stack([np.zeros((60, 2000)), X]), Y)
    model.estimators_ = wide.estimators_
    return model


def decoy_beside_trees():
    model = decoy_tree()
    model.tree_ = DecisionTreeClassifier(max_depth=1).fit(X, Y).tree_
    return model


def many_support_vectors():
    model = SVC().fit(X, Y)
    model._n_support = np.array([2**30, 2**30], dtype=np.int32)
    return model


def few_coefficients():
    model = OneClassSVM().fit(X)
    model.dual_coef_, model._dual_coef_ = model.dual_coef_[:, :1], model._dual_coef_[:, :1]
    return model


def far_indices():
    model = SparseRandomProjection(2, density=0.9, random_state=0).fit(X)
    model.components_.indices = np.full_like(model.components_.indices, 2**30)
    return model


def lines_that_run_backwards():
    """Nothing at the end: then scipy looks at no order."""
    model = SparseRandomProjection(2, density=0.9, random_state=0).fit(X)
    model.components_.indptr = np.array([0, 3, 0], dtype=np.int32)
    return model


def few_columns():
    model = OneHotEncoder().fit(np.arange(5.0)[:, None])
    model._n_features_outs = [1]
    return model


def unsorted_categories():
    model = OneHotEncoder().fit(np.arange(5.0)[:, None])
    model.categories_ = [np.array([4.0, 3.0, 2.0, 1.0, 0.0])]
    return model


def too_few_rows():
    model = LocalOutlierFactor(novelty=True).fit(X)
    model.n_samples_fit_ = 10**6
    return model


@cases(
    ("make", "words"),
    [
        (wide_boosting, "Its GradientBoostingClassifier holds estimators_"),
        (boosting_from_few_rows, "Its GradientBoostingClassifier holds init_"),
        (strange_labels, "Its KNeighborsClassifier holds _y"),
        (decoy_tree, "Its RandomForestClassifier holds estimators_"),
        (decoy_beside_trees, "would set 'tree_' of RandomForestClassifier"),
        (many_support_vectors, "Its SVC holds _n_support"),
        (few_coefficients, "Its OneClassSVM holds _dual_coef_"),
        (far_indices, "Its csr_matrix holds indices"),
        (lines_that_run_backwards, "Its csr_matrix holds starts of lines"),
        (few_columns, "Its OneHotEncoder holds _n_features_outs"),
        (unsorted_categories, "Its OneHotEncoder holds categories_"),
        (too_few_rows, "Its LocalOutlierFactor holds _fit_X"),
    ],
)
def test_forged_parts_of_scikit_learn_are_refused_by_name(make, words, path):
    forged = make()
    if make is decoy_beside_trees:  # `save` and `forge` do not write what no method sets
        tree = {"object": ["RandomForestClassifier", {"tree_": None}]}
        write_manifest(path, [tree])
    else:
        forge(forged, path)
    with pytest.raises(ValueError, match=words):
        load(path)


# ------------------------------------------------------------------------ size, devices, growing


def test_nested_archives_count_with_the_rest(path):
    """A file of some kilobytes that unpacks to hundreds of megabytes, two archives deep."""
    zeros = BytesIO()
    with zipfile.ZipFile(zeros, "w", compression=zipfile.ZIP_DEFLATED) as innermost:
        innermost.writestr("data.npy", bytes(10**7))
    inner = BytesIO()
    with zipfile.ZipFile(inner, "w") as archive:
        archive.writestr("schema.json", "{}")
        for k in range(5):
            archive.writestr(f"{k}.npz", zeros.getvalue())
    members = {"0.skops": inner.getvalue()}
    write_manifest(path, [{"skops": ["0.skops", ["mine.Mine"]]}], members=members)
    assert path.stat().st_size < 100_000
    with pytest.raises(ValueError, match="exceed the limit"):
        load(path, trusted=["mine.Mine"])


def test_without_trust_no_nested_archive_is_opened(path):
    write_manifest(path, [{"skops": ["0.skops", []]}], members={"0.skops": b"no archive"})
    with pytest.raises(ValueError, match="not trusted"):
        load(path)


@pytest.mark.skipif(sys.platform == "win32", reason="needs devices and pipes")
def test_only_regular_files_are_read(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for place in ("/dev/zero", pipe):
        with pytest.raises(ValueError, match="not a regular file"):
            load(place)
    with pytest.raises(IsADirectoryError):
        load(tmp_path)
    save(SVDD(), tmp_path / "file")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    assert isinstance(load(tmp_path / "link"), SVDD)


def test_a_manifest_has_an_end(path):
    lists = '{"format": "lpfuse", "version": 4, "root": 1, "objects": [' + "[]," * 12_000_000
    write_members(path, {"manifest.json": lists})
    with pytest.raises(ValueError, match="manifest is larger"):
        load(path)
    with pytest.raises(TypeError, match="Store long lists as NumPy arrays"):
        save([["some text"] * 3_000_000], path)


# ------------------------------------------------------------------------- digest and signature


def test_another_array_in_its_place_is_damage(path):
    detector = SVDD().fit(X)
    save(detector, path)
    content, rows = path.read_bytes(), detector.expansion_.basis.anchors.tobytes()
    assert content.count(rows) == 1
    path.write_bytes(content.replace(rows, detector.expansion_.basis.anchors[::-1].tobytes()))
    with pytest.raises(ValueError, match=r"is damaged.*content does not have the digest"):
        load(path)


KEY = bytes(range(32))


def test_a_signed_file_is_what_the_key_signed(path):
    detector = make_pipeline(StandardScaler(), SVDD()).fit(X)
    save(detector, path, key=KEY)
    for key in (KEY, None):  # without the key it is like any other file
        copy = load(path, key=key)
        np.testing.assert_array_equal(copy.score_samples(X), detector.score_samples(X))
    with pytest.raises(ValueError, match="signature does not match"):
        load(path, key=KEY[::-1])
    body = path.read_bytes()
    signature = body[-66:]
    changed = members_of(body)
    changed["manifest.json"] = changed["manifest.json"].replace(b'"SVDD"', b'"SVDD"')
    write_members(path, changed)  # with a digest, which needs no key
    assert isinstance(load(path), Pipeline)
    with pytest.raises(ValueError, match="is not signed"):
        load(path, key=KEY)
    path.write_bytes(path.read_bytes()[:-66] + signature)
    with pytest.raises(ValueError, match="signature does not match"):
        load(path, key=KEY)


@pytest.mark.parametrize("key", ["a text of some length", b"short", 5])
def test_a_key_is_bytes_that_nobody_guesses(key, path):
    save(SVDD(), path)
    for work in (lambda: save(SVDD(nu=0.3), path, key=key), lambda: load(path, key=key)):
        with pytest.raises(TypeError, match="at least 16 bytes"):
            work()
    assert load(path).nu == SVDD().nu
