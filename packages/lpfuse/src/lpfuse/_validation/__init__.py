"""The one entrance for what users pass: data, parameters, and the words of a refusal."""
