"""All learners of the paper's grid on one training set."""
