"""A class that does what no class in a file may do: the fuzzer has to notice each of its faults."""

import os

import numpy as np
from sklearn.base import BaseEstimator

from lpfuse._files import ANY, saved_as


@saved_as("fuzz.Careless", cache=ANY)
class Careless(BaseEstimator):
    """Opens what a file names, dies of a number, waits for ever, takes all memory."""

    def __init__(self, cache=None, size=0):
        self.cache = cache
        self.size = size

    def score_samples(self, X):
        if self.cache is not None:
            with open(self.cache) as file:
                file.read(1)
        if self.size == 2**62:
            os.abort()
        while self.size == -1:
            pass
        if self.size == 2**31:
            bytearray(2**36)
        return np.zeros(len(X))
