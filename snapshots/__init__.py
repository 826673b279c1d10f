if __name__ != "fencepost.snapshots":
    raise ImportError(f"import fencepost.snapshots, not {__name__}: no class may exist twice")
