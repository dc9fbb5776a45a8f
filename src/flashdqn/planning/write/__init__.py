"""The files of a plan: GeoTIFF, GeoPackage, a map, a page, and all numbers as JSON."""
