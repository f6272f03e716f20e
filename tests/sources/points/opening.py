"""Recognise a file and open, read or cut it, in one step."""

from types import MappingProxyType

from plumbline.sources.points.read import open_product, parts_of, read_source
from plumbline.sources.points.recognise import recognise

NO_PRODUCTS = MappingProxyType({})


def open_points(path, products=NO_PRODUCTS, crs=None, part=(0, None)):
    return open_product(recognise(path, products), crs, part)


def read_points(path, products=NO_PRODUCTS, format=None, crs=None, folder=None):
    file = recognise(path, products, format)
    return read_source(file, open_product(file, crs), folder)


def product_parts(path, products=NO_PRODUCTS):
    return parts_of(recognise(path, products))
