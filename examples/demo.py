"""Fuse five anomaly detectors on real data, and read what the fusion says about them.

Run it with ``python examples/demo.py``. The data are scikit-learn's breast-cancer measurements:
benign tumours are the normal class, malignant ones the anomalies. No test row is used to fit
anything, and every setting that was tried is printed, so none is picked for its result.
"""

from itertools import product

import numpy as np
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer
from sklearn.decomposition import PCA
from sklearn.ensemble import IsolationForest
from sklearn.metrics import roc_auc_score
from sklearn.mixture import GaussianMixture
from sklearn.model_selection import KFold, train_test_split
from sklearn.neighbors import LocalOutlierFactor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import OneClassSVM
from threadpoolctl import threadpool_limits

from lpfuse import FixedRule, LpFusion, TwoSidedMinMax

SPLITS = 5
KNOWN_ANOMALIES = 20
PS = [1.0, 4 / 3, 2.0, 8.0, float("inf")]
SHOWN_P = 4 / 3  # the p that is judged and certified at the end: LpFusion's default
BLIND = 2  # detectors added in the second part that see nothing but noise
SIGNS = {"w >= 0": True, "free": False}  # may a weight be negative, a detector be turned around?


def detectors(seed):
    """Five ways to describe normal data; each gives a score that is high for normal rows."""
    return {
        "isolation forest": IsolationForest(random_state=seed),
        "one-class SVM": OneClassSVM(nu=0.1),
        "local outlier factor": LocalOutlierFactor(novelty=True),
        "Gaussian mixture": GaussianMixture(3, reg_covar=0.01, random_state=seed),
        "PCA likelihood": PCA(0.9, svd_solver="full"),
    }


def score_tables(seed):
    """Scores of one random split: training normals, known anomalies, test normals and anomalies.

    The training normals are scored out of fold: each row by detectors that never saw it, as will
    be the case for every row that comes later.
    """
    X, benign = load_breast_cancer(return_X_y=True)
    train, test_normals = train_test_split(X[benign == 1], test_size=0.3, random_state=seed)
    known, test_anomalies = train_test_split(
        X[benign == 0], train_size=KNOWN_ANOMALIES, random_state=seed
    )
    folds = KFold(5, shuffle=True, random_state=seed)
    columns = []
    for detector in detectors(seed).values():
        model = make_pipeline(StandardScaler(), detector)
        out_of_fold = np.empty(len(train))
        for seen, held_out in folds.split(train):
            out_of_fold[held_out] = model.fit(train[seen]).score_samples(train[held_out])
        model.fit(train)
        others = [model.score_samples(rows) for rows in (known, test_normals, test_anomalies)]
        columns.append([out_of_fold, *others])
    return [np.column_stack(table) for table in zip(*columns, strict=True)]


def run_split(seed):
    """Both parts of the demo for one random split: the five alone, and with blind ones added."""
    tables = score_tables(seed)
    noise = np.random.default_rng(seed)
    with_blind = [np.hstack([t, noise.normal(size=(len(t), BLIND))]) for t in tables]
    return fuse_and_judge(*tables), fuse_and_judge(*with_blind)


def fuse_and_judge(normals, known, test_normals, test_anomalies):
    """Test AUC of every detector and every fusion, and the fitted fusions."""
    scaler = TwoSidedMinMax(clip="soft").fit(normals)
    normals, known = scaler.transform(normals), scaler.transform(known)
    test = scaler.transform(np.vstack([test_normals, test_anomalies]))
    is_normal = np.repeat([1, 0], [len(test_normals), len(test_anomalies)])

    both = np.vstack([normals, known])
    y = np.repeat([1, -1], [len(normals), len(known)])
    fusions = {"sum": FixedRule("sum").fit(normals)}
    for p, sign in product(PS, SIGNS):
        # Balanced: the few anomalies count as much as all normals.
        fusion = LpFusion(p=p, class_weight="balanced", nonnegative=SIGNS[sign])
        fusions["pure", sign, p] = clone(fusion).fit(normals)
        fusions["labelled", sign, p] = clone(fusion).fit(both, y)

    aucs = {name: roc_auc_score(is_normal, test[:, j]) for j, name in enumerate(detectors(0))}
    for name, fusion in fusions.items():
        aucs[name] = roc_auc_score(is_normal, fusion.score_samples(test))
    return aucs, fusions


def show_aucs(aucs):
    """Print the table; `aucs` maps a name to its AUC in each split, in percent."""

    def cell(name):
        return f"{np.mean(aucs[name]):5.1f} ± {np.std(aucs[name]):.1f}"

    print("AUC on rows that nothing was fitted on: the chance, in percent, that a normal row gets")
    print("a higher score than an anomaly. 100 is perfect, 50 is guessing.")
    print(f"Mean ± standard deviation over {SPLITS} random splits.\n")
    print("One detector alone")
    for name in detectors(seed=0):
        print(f"  {name:28}{cell(name)}")
    print(f"\n{'All five, fused':30}{'normals only':28}with {KNOWN_ANOMALIES} known anomalies")
    print(f"  {'plain sum':28}{cell('sum')}")
    print(f"  {'signs of the weights':28}" + "".join(f"{sign:14}" for sign in [*SIGNS] * 2))
    for p in PS:
        cells = [cell((kind, sign, p)) for kind, sign in product(["pure", "labelled"], SIGNS)]
        print(f"  {f'LpFusion, p = {p:.4g}':28}" + "".join(f"{text:14}" for text in cells))


def show_weights(fusions, kind, title):
    """Print the weights of one split, a row for each detector and a column for each p."""
    print(f"\nWeights learnt {title} (first split, w >= 0)")
    print(f"  {'p =':22}" + "".join(f"{p:8.4g}" for p in PS))
    for j, name in enumerate(detectors(seed=0)):
        print(
            f"  {name:22}" + "".join(f"{fusions[kind, 'w >= 0', p].weights_[j]:8.2f}" for p in PS)
        )


def show_certificate(certificate):
    """Print the proof that comes with the weights."""
    print(f"\nCertificate (first split, with known anomalies, w >= 0, p = {SHOWN_P:.4g})")
    print(f"  loss of these weights          {certificate.primal:.10f}   (primal)")
    print(f"  no weights can go below        {certificate.dual:.10f}   (dual bound)")
    print(f"  relative gap                   {certificate.relative_gap:.1e}")
    print("  The closer the two, the less any other weights could gain: a proof, not a belief.")


def show_verdict(aucs):
    """Print what the table does and does not say."""
    best = max(detectors(seed=0), key=lambda name: np.mean(aucs[name]))
    print("\nWhat to make of it")
    print(f"  Best single detector, known only afterwards: {best}, {np.mean(aucs[best]):.1f}.")
    print(f"  LpFusion at p = {SHOWN_P:.4g} minus the plain sum, in points of AUC:")
    titles = {"pure": "normals only", "labelled": "with known anomalies"}
    for kind, sign in product(titles, SIGNS):
        gain = np.subtract(aucs[kind, sign, SHOWN_P], aucs["sum"])
        print(
            f"    {titles[kind] + ', ' + sign:30}{gain.mean():+.1f}, "
            f"ahead in {np.sum(gain > 0)} of {SPLITS} splits"
        )
    print("  Differences well below the ± column are noise. These five detectors are about equally")
    print("  good, which leaves weights little to gain over a plain sum.")


def show_blind(aucs, fusions):
    """Print what happens when the detectors are not equally good."""
    names = {
        "plain sum": "sum",
        "LpFusion, normals only": ("pure", "w >= 0", SHOWN_P),
        f"LpFusion, {KNOWN_ANOMALIES} known anomalies": ("labelled", "w >= 0", SHOWN_P),
    }
    print(f"\nNow add {BLIND} detectors that are blind: their scores are noise (p = {SHOWN_P:.4g})")
    print(f"  {'':34}AUC           weights of the {BLIND} blind ones (first split)")
    for title, name in names.items():
        weights = "  ".join(f"{w:5.2f}" for w in fusions[name].weights_[-BLIND:])
        print(f"  {title:30}{np.mean(aucs[name]):5.1f} ± {np.std(aucs[name]):.1f}     {weights}")
    print("  A sum listens to everyone. The weights say whom LpFusion leaves out.")


def main():
    """Run the splits and print what came out."""
    print("lpfuse demo: breast-cancer data, benign = normal, malignant = anomaly\n")
    with threadpool_limits(1):  # so little data that threads only wait for each other
        five, with_blind = zip(*map(run_split, range(SPLITS)), strict=True)
    aucs, fusions = gather(five)
    show_aucs(aucs)
    show_weights(fusions, "pure", "from normals only")
    show_weights(fusions, "labelled", f"with {KNOWN_ANOMALIES} known anomalies")
    show_certificate(fusions["labelled", "w >= 0", SHOWN_P].certificate_)
    show_verdict(aucs)
    show_blind(*gather(with_blind))


def gather(splits):
    """AUCs in percent, a list over the splits for each name, and the fusions of the first split."""
    aucs, fusions = zip(*splits, strict=True)
    return {name: [100 * split[name] for split in aucs] for name in aucs[0]}, fusions[0]


if __name__ == "__main__":
    main()
