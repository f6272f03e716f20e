"""Load files as a user of QGIS does, by their default styles, and say what comes of it. For a Python that has PyQGIS.

    QT_QPA_PLATFORM=offscreen /usr/bin/python3 render.py OUT_FOLDER FILE[|layername=LAYER] ...

Writes `N.png` of each into the folder, and `all.png` of all: the first on top, and as wide as the last. Prints a JSON
list. The picture in docs/qgis.md is such an `all.png`.
"""

import json
import os
import sys
from pathlib import Path

from qgis.core import (
    QgsApplication,
    QgsExpression,
    QgsExpressionContext,
    QgsExpressionContextUtils,
    QgsMapRendererParallelJob,
    QgsMapSettings,
    QgsRasterLayer,
    QgsRectangle,
    QgsRuleBasedRenderer,
    QgsVectorLayer,
)
from qgis.PyQt.QtCore import QSize
from qgis.PyQt.QtGui import QColor, QImage

SIZE = QSize(900, 520)


def load(source):
    if source.endswith((".tif", ".tiff")):
        return QgsRasterLayer(source, Path(source).stem)
    return QgsVectorLayer(source, source.split("=")[-1], "ogr")


def image_of(layers, smooth=False):
    settings = QgsMapSettings()
    settings.setLayers(layers)
    settings.setDestinationCrs(layers[0].crs())
    settings.setBackgroundColor(QColor("white"))
    settings.setOutputSize(SIZE)
    settings.setFlag(QgsMapSettings.Antialiasing, smooth)
    settings.setExtent(QgsRectangle(layers[-1].extent()).buffered(5))
    job = QgsMapRendererParallelJob(settings)
    job.start()
    job.waitForFinished()
    return job.renderedImage().convertToFormat(QImage.Format_RGB32)


def colours_of(image):
    found = {}
    for y in range(image.height()):
        for x in range(image.width()):
            colour = image.pixel(x, y) & 0xFFFFFF
            found[colour] = found.get(colour, 0) + 1
    return {f"#{colour:06x}": count for colour, count in found.items()}


def about_features(layer):
    fields = {field.name(): field.alias() for field in layer.fields()}
    tips, quarters = {}, {}
    generator = None
    if "quadrant" in fields and isinstance(layer.renderer(), QgsRuleBasedRenderer):
        generator = layer.renderer().rootRule().children()[-1].symbol().symbolLayer(0).geometryExpression()
    for feature in layer.getFeatures():
        context = QgsExpressionContext(QgsExpressionContextUtils.globalProjectLayerScopes(layer))
        context.setFeature(feature)
        name = str(feature["building_id"])
        tips[name] = QgsExpression.replaceExpressionText(layer.mapTipTemplate(), context)
        if generator and feature["status"] == "ok":
            expression = QgsExpression(generator)
            value = expression.evaluate(context)
            assert not expression.hasEvalError(), expression.evalErrorString()
            quarters[name] = value.asWkt(6)
    legend = [item.label() for item in layer.renderer().legendSymbolItems()]
    return {"fields": fields, "tips": tips, "quarters": quarters, "legend": legend}


def sld_rules(layer, folder):
    """Names of the rules that QGIS reads from the stored SLD."""
    count, _, names, _, _ = layer.listStylesInDatabase()
    path = Path(folder) / "style.sld"
    xml = next(row for row in layer_styles(layer) if row["f_table_name"] == layer.name())["styleSLD"]
    path.write_text(xml, encoding="utf-8")
    copy = layer.clone()
    message, read = copy.loadSldStyle(str(path))
    path.unlink()
    legend = [item.label() for item in copy.renderer().legendSymbolItems()]
    return {"read": read, "message": message, "stored": count, "names": names, "legend": legend}


def layer_styles(layer):
    return QgsVectorLayer(layer.source().split("|")[0] + "|layername=layer_styles", "s", "ogr").getFeatures()


def main():
    folder, *sources = sys.argv[1:]
    application = QgsApplication([], False)
    application.initQgis()
    said, layers = [], []
    for number, source in enumerate(sources):
        layer = load(source)
        assert layer.isValid(), source
        layers.append(layer)
        image = image_of([layer])
        image.save(str(Path(folder) / f"{number}.png"))
        row = {"source": source, "renderer": layer.renderer().type(), "colours": colours_of(image)}
        if isinstance(layer, QgsVectorLayer):
            row.update(about_features(layer), sld=sld_rules(layer, folder))
        said.append(row)
    image_of(layers, smooth=True).save(str(Path(folder) / "all.png"))
    print(json.dumps(said), flush=True)
    os._exit(0)  # PyQGIS may crash as it ends, after all is done


main()
