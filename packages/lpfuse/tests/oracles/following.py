"""Prod over a grid of rates, account by account, as its formula stands; regrets by hand."""

from math import fsum


class NaiveMixture:
    """`SafeMixture` in plain numbers."""

    def __init__(self, scale):
        self.first = self.scale = scale
        self.accounts = [3 * scale * 2.0**-k for k in range(1, 41)]
        self.refills = 0

    def stakes(self):
        rates = (min(2.0**-k / self.first, 1 / (2 * self.scale)) for k in range(1, 41))
        return [rate * account for rate, account in zip(rates, self.accounts, strict=True)]

    @property
    def share(self):
        return min(1.0, fsum(self.stakes()))

    def update(self, gain):
        heard = max(-self.scale, min(self.scale, gain))
        stakes = self.stakes()
        if fsum(stakes) <= 1 or heard <= 0:
            self.accounts = [a + s * heard for a, s in zip(self.accounts, stakes, strict=True)]
        if abs(gain) > self.scale:
            more = 3 * (abs(gain) - self.scale)
            self.accounts = [a + more * 2.0**-k for k, a in enumerate(self.accounts, start=1)]
            self.scale = abs(gain)

    def refill(self):
        self.refills += 1
        more = 3 * self.scale / (self.refills * (self.refills + 1))
        self.accounts = [a + more * 2.0**-k for k, a in enumerate(self.accounts, start=1)]
