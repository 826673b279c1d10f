if __name__ != "fencepost.broker":
    raise ImportError(f"import fencepost.broker, not {__name__}: no class may exist twice")
