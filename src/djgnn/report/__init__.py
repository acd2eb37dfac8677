"""The report: a run, or a comparison of several, as one self-contained HTML page."""
