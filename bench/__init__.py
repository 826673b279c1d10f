if __name__ != "fencepost.bench":
    raise ImportError(f"import fencepost.bench, not {__name__}: no class may exist twice")
