if __name__ != "fencepost.wire":
    raise ImportError(f"import fencepost.wire, not {__name__}: no class may exist twice")
