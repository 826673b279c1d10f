if __name__ != "fencepost.settings":
    raise ImportError(f"import fencepost.settings, not {__name__}: no class may exist twice")
