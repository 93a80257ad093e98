"""Regret of weights that follow: drifting streams made from real tables, labels trickling in."""
