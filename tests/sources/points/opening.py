"""Recognise a file and open or cut it, in one step."""

from types import MappingProxyType

from plumbline.sources.points.read import open_product, parts_of
from plumbline.sources.points.recognise import recognise


def open_points(path, products=MappingProxyType({}), crs=None, part=(0, None)):
    return open_product(recognise(path, products), crs, part)


def product_parts(path, products=MappingProxyType({})):
    return parts_of(recognise(path, products))
