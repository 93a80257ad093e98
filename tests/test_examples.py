import runpy
from pathlib import Path

EXAMPLES = Path(__file__).parents[1] / "examples"


def test_the_demo_tells_its_whole_story(capsys):
    runpy.run_path(str(EXAMPLES / "demo.py"), run_name="__main__")
    printed = capsys.readouterr().out
    for heading in (
        "One detector alone",
        "All five, fused",
        "Weights learnt from normals only",
        "Weights learnt with 20 known anomalies",
        "Certificate",
        "What to make of it",
    ):
        assert heading in printed
    assert "nan" not in printed.split()
