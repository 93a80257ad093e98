"""What makes a `FusedDetector` an estimator: parameters by name, attributes, files, notebooks."""

from __future__ import annotations

from os import PathLike
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.impute import SimpleImputer

from lpfuse._arrays.operations import Host
from lpfuse._command_package import write_card
from lpfuse.ensemble._html import weights_table
from lpfuse.ensemble._tables import Index
from lpfuse.io import save


class EnsembleEstimator(BaseEstimator):
    """Parameters of listed detectors by name, as scikit-learn's own ensembles have them.

    ``detectors`` is a list of (name, detector) or (name, detector, columns).
    """

    detectors: Any
    n_jobs: int | None
    pool_: Any  # a Pool, which is defined above this
    scaler_: Any
    fusion_: Any
    offset_: float
    feature_imputer_: SimpleImputer | None
    held_out_: Any  # HeldOutScores

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters, and those of the listed detectors as ``name__parameter``.

        Parameters
        ----------
        deep : bool, default=True
            Whether to include parameters of detectors, scaler and fusion.

        Returns
        -------
        dict
            Names and values.
        """
        parameters: dict[str, Any] = super().get_params(deep)
        if deep:
            for name, detector, *_ in self._listed():
                parameters[name] = detector
                inner = detector.get_params(True) if hasattr(detector, "get_params") else {}
                parameters.update({f"{name}__{key}": value for key, value in inner.items()})
        return parameters

    def set_params(self, **parameters: Any) -> Self:
        """Set parameters, also those of the listed detectors: ``name=``, ``name__parameter=``.

        Parameters
        ----------
        **parameters
            Names and values.

        Returns
        -------
        FusedDetector
            The estimator.
        """
        if "detectors" in parameters:
            self.detectors = parameters.pop("detectors")
        listed = self._listed()
        replaced = {
            entry[0]: parameters.pop(entry[0]) for entry in listed if entry[0] in parameters
        }
        if replaced:
            self.detectors = [
                (name, replaced.get(name, detector), *columns)
                for name, detector, *columns in listed
            ]
        super().set_params(**parameters)
        return self

    def _listed(self) -> list[Any]:
        """The listed detectors; none where the list is not one that `fit` would take."""
        listed = self.detectors if isinstance(self.detectors, list | tuple) else []
        fits = all(isinstance(entry, tuple | list) and len(entry) in (2, 3) for entry in listed)
        return list(listed) if fits else []

    # Where detectors are silent: what is said of it, and which threshold holds.

    def _report_gaps(self, raw: Host, errors: dict[str, str]) -> None:
        raise NotImplementedError

    def _offset_without(self, silent: NDArray[np.bool_]) -> float:
        raise NotImplementedError

    def save(self, path: str | PathLike[str], *, key: bytes | None = None) -> None:
        """Write the fitted detector to a file, without pickle; `lpfuse.load` reads it.

        Parameters
        ----------
        path : path-like
            The file. It appears whole or not at all.
        key : bytes, optional
            A secret that signs it, see :func:`lpfuse.io.save`.
        """
        save(self, path, key=key)

    def card(
        self,
        path: str | PathLike[str],
        X: Any = None,
        y: Any = None,
        *,
        title: str = "Model card",
        use: str | None = None,
    ) -> None:
        """Write a model card in Markdown: data, weights and their proof, calibration, limits.

        Parameters
        ----------
        path : path-like
            The file. It appears whole or not at all.
        X, y : rows and labels, optional
            To measure on; without them, the training rows out of fold.
        title, use : str, optional
            The heading; what the model is meant for. See :func:`lpfuse_cli.report.write_card`.
        """
        write_card(self, path, X, y, title=title, use=use)

    @property
    def detectors_(self) -> list[tuple[str, Any, Index | None]]:
        """Name, fitted detector and positions of its columns (None: all) of each detector."""
        return [(member.name, member.estimator, member.columns) for member in self.pool_.members]

    @property
    def detector_names_(self) -> list[str]:
        """Names of the detectors, in the order of the weights."""
        return [member.name for member in self.pool_.members]

    @property
    def weights_(self) -> Host:
        """The weight of each detector, for a fusion that is a weighted sum."""
        if not hasattr(self.fusion_, "weights_"):
            raise AttributeError(f"{self.fusion_!r} is no weighted sum: it has no weights.")
        return self.fusion_.weights_

    @property
    def certificate_(self) -> Any:
        """The proof that comes with the weights; None for a fusion without one.

        Weights that `partial_fit` has moved have bounds of their regret instead; the proof of the
        solution among them is ``fusion_.certificate_``.
        """
        online = getattr(self.fusion_, "online_", None)
        moved = online is not None and online.n_rows > 0
        return None if moved else getattr(self.fusion_, "certificate_", None)

    @property
    def calibration_(self) -> Host:
        """Fused scores of normal rows that the weights were not learnt from, ascending."""
        return self.held_out_.normal_scores()

    def _html_repr(self) -> str:
        """What notebooks show: scikit-learn's diagram and, once fitted, a table of the weights."""
        diagram: str = super()._html_repr()
        if not hasattr(self, "pool_"):
            return diagram
        weights = getattr(self.fusion_, "weights_", None)
        table = weights_table(self.detector_names_, weights, self.certificate_, self.offset_)
        return diagram + table
