if __name__ != "fencepost.bridge":
    raise ImportError(f"import fencepost.bridge, not {__name__}: no class may exist twice")
