"""Styles that QGIS loads by itself with what Plumbline writes."""
