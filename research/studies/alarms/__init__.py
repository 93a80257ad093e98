"""False alarms, asked and measured: made-up families and real tables, 60 to 20,000 rows.

Only the public `FusedDetector` is measured, with nothing but its defaults. A cell is a family, a
number of training rows and a number of labelled anomalies; its repetitions differ in all rows.
"""
