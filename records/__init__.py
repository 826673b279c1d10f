if __name__ != "fencepost.records":
    raise ImportError(f"import fencepost.records, not {__name__}: no class may exist twice")
