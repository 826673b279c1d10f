if __name__ != "fencepost.cluster":
    raise ImportError(f"import fencepost.cluster, not {__name__}: no class may exist twice")
