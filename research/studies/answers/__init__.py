"""Dirty rows and few answers: lpfuse beside whoever else learns from them.

Hidden anomalies among the training rows, a person who answers a few questions, labelled anomalies
beside hidden ones: three protocols, the same rows and the same answers for every method.
"""
