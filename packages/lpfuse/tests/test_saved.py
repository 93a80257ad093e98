"""Names of saved classes: stable for ever, registered beside the class, open to other packages."""

import subprocess
import sys

import numpy as np
import pytest

from helpers.model_files import npy, write_manifest
from lpfuse import SVDD, LpFusion, TwoSidedMinMax
from lpfuse._files import (
    REGISTERING_MODULES,
    class_saved_as,
    register_all,
    saved_as,
    saved_classes,
    saved_name,
    words_of,
)
from lpfuse.io import load
from lpfuse.io.writing import Encoder

FITTED = {"LpFusion", "TwoSidedMinMax"}

# What files of users hold: a name may be added here, never changed. One whose class has left is
# read over from then on (`FORMER_CLASSES`), or refused (`LEFT`), and never given to another class.
LEFT = [
    "CosineSimilarity", "DecisionTemplates", "DynamicEnsemble", "ExhaustiveWeights",
    "GeneticWeights", "Indicators", "IterativeEnsemble", "LocalLpFusion", "SwarmWeights",
]  # fmt: skip
NAMES = {
    "Alternatives", "BestSingle", "Bet", "CalibratedFit", "Certificate", "ClassifierExpert",
    "ColumnForest", "Combination",
    "Drift", "DriftMonitor",
    "Evidence", "Expansion", "FeatureMap", "FilledGaps", "FixedRule",
    "FusedDetector", "FusedDetectorCV", "GMMDetector",
    "HeldOutScores", "HistogramDetector", "History",
    "KNNDetector", "KeptRows", "Kernel", "KernelPCADetector",
    "LOFDetector", "LinearSVMStacker", "LogisticStacker", "LpFusion", "LpPath",
    "MeanOfFits", "Member", "NormalQuantiles", "OneClassEnsembleClassifier", "OneClassGP",
    "OnlineDiscoveries", "OutOfFoldScores", "PaperPipeline", "Pool",
    "PyODDetector", "ReferenceBins", "RobustCovarianceDetector", "RowOrder", "SVDD",
    "ScoreColumn", "ScoreFunction", "SearchResult", "Similarities", "SpacedStreams",
    "StreamHistory",
    "TableFormat", "TableModel", "TablePreparation", "TailScaler",
    "TwoSidedMinMax", "UnseenPart", "UnseenRows",
    "WatchedStreams", "Waves", "Windows",
}  # fmt: skip


def test_names_in_files_never_change():
    code = (
        "from lpfuse._files import register_all, saved_classes; import lpfuse.io; register_all()\n"
        "for name, cls in saved_classes().items(): print(name, cls.__module__.split('.')[0])"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    pairs = [line.rsplit(" ", 1) for line in told.stdout.splitlines()]
    # Another installed package, such as lpfuse-faces, may have registered classes too.
    assert {name for name, package in pairs if package == "lpfuse"} == NAMES


def test_what_former_versions_saved_is_read_over(tmp_path):
    scores, labels = [[0.9, 0.2], [0.8, -0.4], [-0.7, 0.3], [-0.9, -0.2]], [1, 1, -1, -1]
    moved, scale = LpFusion(p=2).fit(scores, labels), TwoSidedMinMax().fit(scores)
    encoder = Encoder()
    described = encoder.objects
    for estimator in (scale, moved):
        encoder.value(estimator, "")
    of_scale, of_moved = (
        each["object"][1] for each in described if each.get("object", [""])[0] in FITTED
    )
    described += [
        {"object": ["SafeMixture", {"share": 0.5}]},
        {"object": ["OnlineWeights", {"mixtures": [len(described)], "n_rows": 9}]},
        {"object": ["TwoSidedMinMax", {**of_scale, "n_samples_seen_": 4, "running_": None}]},
        {"object": ["LpFusion", {**of_moved, "online_": [len(described) + 1]}]},
    ]
    described.append({"list": [[len(described) - 2], [len(described) - 1]]})
    members = {name: npy(content) for name, content in encoder.members.items()}
    write_manifest(tmp_path / "former.lpfuse", described, members)
    scaler, fusion = load(tmp_path / "former.lpfuse")
    np.testing.assert_array_equal(scaler.transform(scores), scale.transform(scores))
    np.testing.assert_array_equal(fusion.score_samples(scores), moved.score_samples(scores))
    # Weights that were moved after their fit are not those that the certificate was for.
    assert vars(fusion).keys() == vars(moved).keys() - {"certificate_"}
    assert vars(scaler).keys() == vars(scale).keys()


@pytest.mark.parametrize("name", LEFT)
def test_classes_that_left_are_refused(name, tmp_path):
    write_manifest(tmp_path / "former.lpfuse", [{"object": [name, {}]}], {})
    with pytest.raises(ValueError, match=f"an object of the class '{name}', which is unknown"):
        load(tmp_path / "former.lpfuse")


def test_a_name_belongs_to_one_class():
    class Another:
        pass

    with pytest.raises(ValueError, match=r"Another cannot be saved as 'SVDD': .* name of SVDD"):
        saved_as("SVDD")(Another)
    assert class_saved_as("SVDD") is SVDD
    assert saved_name(Another) is None


def test_a_module_that_is_imported_anew_registers_anew():
    def module():
        @saved_as("imported anew", side=("left", "right"))
        class Anew:
            pass

        return Anew

    first, second = module(), module()
    assert first is not second
    assert class_saved_as("imported anew") is second
    assert words_of(second) == {"side": ("left", "right")}


PLUGIN = """
from lpfuse._files import saved_as

@saved_as("plugged.Thing")
class Thing:
    pass
"""


def test_classes_of_other_packages_are_found_by_their_entry_point(tmp_path):
    (tmp_path / "plugged.py").write_text(PLUGIN)
    metadata = tmp_path / "plugged.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: plugged\nVersion: 0\n")
    (metadata / "entry_points.txt").write_text("[lpfuse.saved]\nplugged = plugged\n")
    code = (
        f"import sys; sys.path.append({str(tmp_path)!r})\n"
        "from lpfuse._files import class_saved_as\n"
        "print(class_saved_as('plugged.Thing').__module__)"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "plugged"


def test_every_room_registers_a_class():
    register_all()
    for room in REGISTERING_MODULES:
        assert any(
            cls.__module__.startswith(f"lpfuse.{room}") for cls in saved_classes().values()
        ), f"{room} registers no class: take it off the list"
