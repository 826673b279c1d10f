if __name__ != "fencepost.node":
    raise ImportError(f"import fencepost.node, not {__name__}: no class may exist twice")
