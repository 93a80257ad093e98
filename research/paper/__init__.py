"""The paper's experiments: results as data first, tables and figures from them."""
