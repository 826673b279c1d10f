if __name__ != "fencepost.cli":
    raise ImportError(f"import fencepost.cli, not {__name__}: no class may exist twice")
