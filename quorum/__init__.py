if __name__ != "fencepost.quorum":
    raise ImportError(f"import fencepost.quorum, not {__name__}: no class may exist twice")
