if __name__ != "fencepost.client":
    raise ImportError(f"import fencepost.client, not {__name__}: no class may exist twice")
