if __name__ != "fencepost.controller":
    raise ImportError(f"import fencepost.controller, not {__name__}: no class may exist twice")
