"""The report: a run, or several, as one self-contained page or as figures for paper."""
