"""Models on disk: the folder, its versions, older formats, and exports."""
