"""Parameters of listed detectors by name, as scikit-learn's own ensembles have them."""

from __future__ import annotations

from typing import Any, Self

from sklearn.base import BaseEstimator


class NamedDetectors(BaseEstimator):
    """Reaches into ``detectors``, a list of (name, detector) or (name, detector, columns)."""

    detectors: Any

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
