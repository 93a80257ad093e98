"""What a hostile file may try: run code, name paths and methods, crash compiled code."""

import dis
import inspect
import os
import struct
import sys
import warnings
import zipfile
from functools import partial
from io import BytesIO
from types import CodeType
from typing import Literal, get_args, get_origin, get_type_hints

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.covariance import EllipticEnvelope
from sklearn.ensemble import (
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    IsolationForest,
    RandomForestClassifier,
)
from sklearn.mixture import GaussianMixture
from sklearn.neighbors import KNeighborsClassifier, LocalOutlierFactor
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler
from sklearn.svm import SVC, OneClassSVM
from sklearn.tree import DecisionTreeClassifier

from helpers.cases import cases
from helpers.model_files import forge, members_of, seal, write_manifest, write_members
from lpfuse import SVDD, ColumnForest, FusedDetector, GMMDetector, KernelPCADetector
from lpfuse.adapters import ScoreFunction
from lpfuse.io import load, save
from lpfuse.io.reading import attributes_set, loadable_classes
from lpfuse.io.safety import OWNERS, SEAL_SIZE

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
    ("KeptRows", "names"), ("LpFusion", "groups"), ("LpFusion", "prior"), ("Member", "name"),
    ("MissingIndicator", "missing_values"),
    ("OneClassEnsembleClassifier", "unknown_label"), ("RowOrder", "because"),
    ("SearchResult", "best_params"),
    ("SearchResult", "cv_results"), ("SimpleImputer", "fill_value"),
    ("SimpleImputer", "missing_values"), ("TableFormat", "sheet"), ("TableModel", "label"),
    ("TableModel", "normal"), ("TableModel", "anomaly"), ("TablePreparation", "label"),
    ("TablePreparation", "normal"), ("TablePreparation", "anomaly"), ("WatchedStreams", "names"),
    ("RowOrder", "because"), ("SpacedStreams", "left_out"),
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


MANY = "\n".join(f"    x.a{k} = x.b{k}" for k in range(300))  # more names than a byte can count


def test_attributes_that_code_sets_are_those_of_dis():
    modules = {sys.modules[kind.cls.__module__] for kind in loadable_classes().values()}
    codes = [compile(inspect.getsource(module), "", "exec") for module in modules]
    codes.append(compile(f"def far(x):\n{MANY}", "", "exec"))
    found = set()
    for code in codes:  # grows
        codes += [each for each in code.co_consts if isinstance(each, CodeType)]
        steps = dis.get_instructions(code)
        expected = [step.argval for step in steps if step.opname == "STORE_ATTR"]
        assert list(attributes_set(code)) == expected
        found.update(expected)
    assert {"offset_", "coef_", "a0", "a299"} <= found


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
        (IsolationForest(n_estimators=2), "offset_", ["fit"]),
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
    """A function as a kernel would make indices of `support_`, beyond any column: signal 11."""
    for name, parameter, held in (
        ("OneClassSVM", "kernel", {"function": "abs"}),
        ("KNeighborsClassifier", "weights", {"function": "abs"}),
        ("SVC", "kernel", {"number": "float64"}),
        ("FunctionTransformer", "func", {"number": "float64"}),
        ("SVDD", "kernel", {"function": "abs"}),
    ):
        write_manifest(path, [held, {"object": [name, {parameter: [0]}]}])
        with pytest.raises(ValueError, match=rf"{name}\.{parameter} is .*, and would be called"):
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


def encoder(**attributes):
    """Of two columns, with five categories and one; codes become columns of a matrix."""
    model = OneHotEncoder(handle_unknown="infrequent_if_exist", min_frequency=1)
    model.fit(np.column_stack([np.arange(5.0), np.zeros(5)]))
    vars(model).update(attributes)
    return model


def rare_codes():
    """Unknown values took a code of the file, which nothing mapped to a column."""
    return encoder(
        _infrequent_enabled=True,
        _default_to_infrequent_mappings=[None, None],
        _infrequent_indices=[np.array([10**6]), None],
    )


def width_below_zero():
    """All of the second column is dropped, and its width is subtracted from the first's."""
    return encoder(
        _n_features_outs=[5, -4], _drop_idx_after_grouping=np.array([None, 0], dtype=object)
    )


def small_precision():
    """Scipy reads d × d numbers, whatever the matrix holds: signal 11."""
    model = EllipticEnvelope(random_state=0).fit(X)
    model.precision_ = np.eye(1)
    return model


def no_neighbours():
    """Signal 8."""
    model = KNeighborsClassifier(3, algorithm="brute", metric="manhattan").fit(X, Y)
    model._fit_X, model._y, model.n_samples_fit_ = X[:0], np.zeros(0, dtype=np.intp), 0
    return model


def labels_of_uncounted_rows():
    """The check of neighbours was chosen by this attribute, and left out with it: signal 11."""
    model = strange_labels()
    del model.n_samples_fit_
    return model


def boosting_by_position():
    """Frames are selected by position: one column, and trees that read the others."""
    frame = pd.DataFrame(np.column_stack([np.arange(60) % 4, X]), columns=list("abcd"))
    model = HistGradientBoostingClassifier(
        max_iter=2, min_samples_leaf=2, categorical_features=[0]
    ).fit(frame, Y)
    model._preprocessor._transformer_to_input_indices["numerical"] = [1]
    return model


def shared_child():
    """Two parents of a node: scikit-learn takes the depth by the last, and writes beyond it."""
    model = DecisionTreeClassifier(max_depth=3).fit(X, Y)
    return with_tree(model, lambda nodes: nodes["left_child"].__setitem__(0, 2))


def depth_that_is_too_small():
    model = DecisionTreeClassifier(max_depth=3).fit(X, np.arange(60) % 2)
    return with_tree(model, lambda _: None, max_depth=1)


def with_tree(model, change, **facts):
    state = model.tree_.__getstate__() | facts
    change(state["nodes"])
    model.tree_.__setstate__(state)
    return model


def boosted_shared_child():
    model = HistGradientBoostingClassifier(max_iter=1, min_samples_leaf=2).fit(X, Y)
    model._predictors[0][0].nodes["left"][0] = 2
    return model


def loose_bins():
    """Thresholds of no column: signal 11 in the step of a pipeline."""
    model = HistGradientBoostingClassifier(max_iter=1).fit(X, Y)
    model._bin_mapper.bin_thresholds_ = []
    return make_pipeline(model._bin_mapper, GaussianMixture())


def loose_tree():
    """`Tree.predict` reads the column that a node names, of rows of any width."""
    tree = DecisionTreeClassifier().fit(X, Y).tree_
    return ScoreFunction(tree, "normal", "predict")


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
        (partial(encoder, _n_features_outs=[1, 1]), "Its OneHotEncoder holds _n_features_outs"),
        (partial(encoder, _n_features_outs=np.array([5, 1])), "holds _n_features_outs"),
        (width_below_zero, "Its OneHotEncoder holds _n_features_outs"),
        (rare_codes, "Its OneHotEncoder holds infrequent categories"),
        (partial(encoder, _drop_idx_after_grouping=np.array([[0], [0]])), "holds drop_idx_"),
        (small_precision, "Its EllipticEnvelope holds precision_"),
        (no_neighbours, "Its KNeighborsClassifier holds _fit_X"),
        (labels_of_uncounted_rows, "no attribute 'n_samples_fit_'"),
        (boosting_by_position, "Its HistGradientBoostingClassifier holds _preprocessor"),
        (shared_child, "Its Tree holds children"),
        (depth_that_is_too_small, "Its Tree holds levels"),
        (boosted_shared_child, "Its TreePredictor holds children"),
        (loose_bins, r"Pipeline\.steps holds a _BinMapper"),
        (lambda: loose_bins()[0], "The file holds a _BinMapper"),
        (loose_tree, r"ScoreFunction\.scorer holds a Tree"),
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


NUMBERS = [True, False], [1, 1], [2.0, 1.0], [np.nan, 1.0], [1j, 0j], [1.0, np.nan, np.nan]


@cases("categories", [*NUMBERS, np.array([2, 1], "m8[s]"), np.array([2, 1], "M8[s]"), [[0, 1]]])
def test_numbers_among_categories_ascend(categories, path):
    """They are found by bisection, which gave column 2 of 2."""
    forge(encoder(categories_=[np.array(categories), np.zeros(1)]), path)
    with pytest.raises(ValueError, match="Its OneHotEncoder holds categories_"):
        load(path)


@cases(
    "categories",
    [np.array(["1.0", "0.0"]), np.array(["b", "a"], object), np.array([1.0, 0.0], object)],
)
def test_no_number_is_found_among_texts_or_objects(categories, path):
    """They may have any order: numbers, which would be found by bisection, raise an error."""
    forge(encoder(categories_=[categories] * 2, _n_features_outs=[2, 2]), path)
    with pytest.raises(TypeError):
        load(path).transform(np.zeros((1, 2)))


def test_compiled_parts_have_one_owner_each():
    held = {
        attribute: {kind.name for kind in loadable_classes().values() if attribute in kind.fitted}
        for attribute in OWNERS
    }
    trees = {"DecisionTreeClassifier", "DecisionTreeRegressor", "ExtraTreeClassifier"}
    assert held == {
        "tree_": trees | {"ExtraTreeRegressor"},
        "trees_": {"ColumnForest"},
        "_predictors": {"HistGradientBoostingClassifier"},
        "_bin_mapper": {"HistGradientBoostingClassifier"},
    }


def test_columns_of_a_forest_are_those_of_its_trees(path):
    """What our own detector hands to compiled trees is checked where it is handed over."""
    model = ColumnForest(4, random_state=0).fit(X)
    model.inputs_ = [np.zeros(1, dtype=int)] * len(model.trees_)
    model.trees_ = ColumnForest(4, random_state=0).fit(np.tile(X, 40)).trees_[: len(model.inputs_)]
    forge(model, path)
    with pytest.raises(ValueError, match="grown on other columns"):
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
    write_members(path, {"manifest.json": lists[: 3 * 2**20 + 200]})
    with pytest.raises(ValueError, match=r"manifest holds 1,048,\d+ lists"):
        load(path)
    with pytest.raises(TypeError, match="Store long lists as NumPy arrays"):
        save([["some text"] * 3_000_000], path)


def of_two_names(members):
    """One name for a reader that stops at a zero byte, another for one that does not."""
    return {**members, "0.npy\0": members["0.npy"]}, lambda content: content


def encrypted(members):
    return members, lambda content: content.replace(
        b"PK\x01\x02\x14\x03\x14\0\0", b"PK\x01\x02\x14\x03\x14\0\1"
    )


def of_fewer_bytes(members):
    """The directory declares less than there is."""
    size = len(members["0.npy"])
    old, new = (struct.pack("<2L", size, each) for each in (size, size - 8))
    return members, lambda content: content.replace(old, new)


@cases("change", [of_two_names, encrypted, of_fewer_bytes])
def test_odd_archives_are_refused(change, path):
    save(np.arange(3.0), path)
    members, changed = change(members_of(path.read_bytes()))
    with warnings.catch_warnings(action="ignore"):  # of the writer, about equal names
        write_members(path, members)
    body = path.read_bytes()[:-SEAL_SIZE]
    assert change is of_two_names or changed(body) != body
    path.write_bytes(changed(body))
    seal(path)
    with pytest.raises(ValueError, match=r"is refused|is damaged"):
        load(path)


# ------------------------------------------------------------------------- digest and signature


def test_another_array_in_its_place_is_damage(path):
    forge(SVDD().fit(X), path)  # without compression
    content, rows = path.read_bytes(), load(path).expansion_.basis.anchors
    assert content.count(rows.tobytes()) == 1
    path.write_bytes(content.replace(rows.tobytes(), rows[::-1].tobytes()))
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
