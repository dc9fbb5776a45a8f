"""Landscapes as fire planners have them: GeoTIFF, .lcp, ESRI ASCII grids, Cell2Fire folders."""
