"""Which defaults serve best on the development sets: ``p``, ``fit_intercept``, ``clip``."""
