import pytest
from sklearn import config_context
from sklearn.base import clone

from helpers.pools import Distance, Lowest, both
from lpfuse import FixedRule, FusedDetector

BEGIN = '<div class="lpfuse">'
NASTY = "<img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def fused():
    detectors = [("all", Distance()), (NASTY, Distance(slice(1)))]
    return FusedDetector(detectors, random_state=0).fit(*both())


def test_below_the_diagram_stands_whom_the_fusion_trusts(fused):
    shown = fused._repr_html_()
    diagram, _, table = shown.rpartition(BEGIN)
    assert fused._repr_mimebundle_()["text/html"].endswith(table)
    assert "FusedDetector" in diagram
    for weight in fused.weights_:
        assert f"<td>{weight:.4f}</td>" in table
        assert f"<td>{100 * weight / abs(fused.weights_).sum():.1f} %</td>" in table
    assert "optimal" in table
    assert f"{fused.offset_:.4g}" in table


def test_the_largest_weight_comes_first(fused):
    table = fused._html_repr().rpartition(BEGIN)[2]
    ordered = sorted(fused.weights_, key=abs, reverse=True)
    places = [table.index(f"<td>{weight:.4f}</td>") for weight in ordered]
    assert places == sorted(places)


def test_names_are_escaped(fused):
    assert "<img" not in fused._html_repr()
    assert "&lt;img" in fused._html_repr().rpartition(BEGIN)[2]


def test_before_the_fit_there_is_the_diagram_alone(fused):
    shown = clone(fused)._html_repr()
    assert "FusedDetector" in shown
    assert fused._html_repr().endswith("</table></div>")
    assert not shown.endswith("</table></div>")


def test_a_fusion_without_weights_or_proof():
    X, y = both()
    for fusion, weighed in ((FixedRule("sum"), True), (Lowest(), False)):
        fused = FusedDetector([("all", Distance())], fusion=fusion, random_state=0).fit(X, y)
        table = fused._html_repr().rpartition(BEGIN)[2]
        assert ("share" in table) == weighed
        assert "optimal" not in table


def test_text_stays_text_where_users_want_that(fused):
    with config_context(display="text"):
        assert not hasattr(fused, "_repr_html_")
