"""Reconstruction errors of kernel PCA."""
