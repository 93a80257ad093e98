import matplotlib
import pytest

matplotlib.use("agg")

import matplotlib.pyplot as plt


@pytest.fixture(autouse=True)
def nothing_else_changes(monkeypatch):
    """Whatever is drawn, the global settings stay, nothing is shown, and no figure is closed."""
    monkeypatch.setattr(plt, "show", lambda *_: pytest.fail("a display must not call plt.show"))
    monkeypatch.setattr("matplotlib.figure.Figure.show", lambda *_: pytest.fail("nor Figure.show"))
    settings, backend, figures = matplotlib.rcParams.copy(), plt.get_backend(), plt.get_fignums()
    yield
    assert matplotlib.rcParams == settings
    assert plt.get_backend() == backend
    assert plt.get_fignums()[: len(figures)] == figures
    for number in set(plt.get_fignums()) - set(figures):
        plt.close(number)


@pytest.fixture
def drawn_texts():
    """The texts of a display after a draw: each one inside the figure, none parsed as a formula."""

    def check(display):
        display.figure_.canvas.draw()
        ax, legend = display.ax_, display.ax_.get_legend()
        (left, right), (low, high) = ax.get_xlim(), sorted(ax.get_ylim())
        texts = [text for text in ax.get_xticklabels() if left <= text.get_position()[0] <= right]
        texts += [text for text in ax.get_yticklabels() if low <= text.get_position()[1] <= high]
        texts += ax.texts
        texts += [ax.xaxis.label, ax.yaxis.label, ax.title, ax._left_title]
        texts += legend.get_texts() if legend else []
        texts = [text for text in texts if text.get_text()]
        page = display.figure_.bbox.padded(1)
        for text in texts:
            extent = text.get_window_extent()
            assert page.x0 <= extent.x0 < extent.x1 <= page.x1, text
            assert page.y0 <= extent.y0 < extent.y1 <= page.y1, text
        return texts

    return check


@pytest.fixture
def awkward_names():
    """Names that are long, of many alphabets, and look like formulas."""
    names = [
        "Pipeline(StandardScaler(), PCA(n_components=0.9), IsolationForest(n_estimators=500))",
        "détecteur à noyau gaussien, Größe σ = ½ médiane des distances",
        "$x_1$",
        "детектор аномалий с очень длинным именем",
        "100% _weird_ ^name \\alpha",
        "ONE_CLASS_SUPPORT_VECTOR_MACHINE_WITH_RBF_KERNEL",
        "two\nlines",
    ]
    return lambda count: [f"{names[j % 7]}{j // 7 or ''}" for j in range(count)]
