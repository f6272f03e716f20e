"""Read footprints: any vector file becomes the buildings table."""
