"""Write styles that QGIS loads automatically with Plumbline's files."""
