"""Names of saved classes: stable for ever, registered beside the class, open to other packages."""

import subprocess
import sys

import pytest

from lpfuse import SVDD
from lpfuse._saved import (
    ROOMS,
    class_saved_as,
    register_all,
    saved_as,
    saved_classes,
    saved_name,
    words_of,
)

# What files of users hold: a name may be added here, never changed or taken away.
NAMES = {
    "Alternatives", "BestSingle", "Bet", "Certificate", "ClassifierExpert", "ColumnForest",
    "CosineSimilarity", "DecisionTemplates", "Drift", "DriftMonitor", "DynamicEnsemble", "Evidence",
    "ExhaustiveWeights", "Expansion", "FeatureMap", "FilledGaps", "FixedRule", "FollowedRows",
    "FusedDetector", "FusedDetectorCV", "GMMDetector", "GeneticWeights", "GradientLearner",
    "HeldOutScores", "HistogramDetector", "Indicators", "IterativeEnsemble", "KNNDetector",
    "KeptRows", "Kernel", "KernelPCADetector", "LabelledWindow", "LinearSVMStacker",
    "LocalLpFusion", "LogisticStacker", "LpFusion", "LpPath", "MeanOfFits", "Member",
    "NormalQuantiles", "OneClassEnsembleClassifier", "OneClassGP", "OnlineDiscoveries",
    "OnlineWeights", "OutOfFoldScores", "PaperPipeline", "Pool", "PyODDetector", "QuantileSketch",
    "ReferenceBins", "RunningQuantiles", "SVDD", "SafeMixture", "ScoreColumn", "ScoreFunction",
    "Similarities", "StreamHistory", "SwarmWeights", "TableFormat", "TableModel",
    "TablePreparation", "TailScaler", "TwoSidedMinMax", "UnseenPart", "UnseenRows",
    "WatchState", "WatchedStreams", "Waves",
}  # fmt: skip


def test_names_in_files_never_change():
    code = (
        "from lpfuse._saved import register_all, saved_classes; import lpfuse.io; register_all()\n"
        "for name, cls in saved_classes().items(): print(name, cls.__module__.split('.')[0])"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    pairs = [line.rsplit(" ", 1) for line in told.stdout.splitlines()]
    # Another installed package, such as lpfuse-faces, may have registered classes too.
    assert {name for name, package in pairs if package == "lpfuse"} == NAMES


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
from lpfuse._saved import saved_as

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
        "from lpfuse._saved import class_saved_as\n"
        "print(class_saved_as('plugged.Thing').__module__)"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "plugged"


def test_every_room_registers_a_class():
    register_all()
    for room in ROOMS:
        assert any(
            cls.__module__.startswith(f"lpfuse.{room}") for cls in saved_classes().values()
        ), f"{room} registers no class: take it off the list"
