if __name__ != "fencepost.coordinator":
    raise ImportError(f"import fencepost.coordinator, not {__name__}: no class may exist twice")
