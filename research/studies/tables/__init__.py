"""Hundreds of real tables: lpfuse beside whoever people would pick instead.

Half of the tables may choose (pools, priors, options), the other half confirms what was chosen.
"""
