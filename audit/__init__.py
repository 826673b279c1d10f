if __name__ != "fencepost.audit":
    raise ImportError(f"import fencepost.audit, not {__name__}: no class may exist twice")
