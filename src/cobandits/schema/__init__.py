"""From named values to vectors of a fixed dimension: numbers, categories, flags, dates, vectors.

A :class:`Schema` says what each field of a row is. It can be inferred from rows, is written as
plain JSON, and encodes rows of a table or the arms of a request column by column.
"""

from cobandits.schema.base import Field
from cobandits.schema.fields import Category, Cyclic, Date, Flag, Number, Vector
from cobandits.schema.inference import Inferred, infer_fields
from cobandits.schema.schema import Schema

__all__ = [
    "Category",
    "Cyclic",
    "Date",
    "Field",
    "Flag",
    "Inferred",
    "Number",
    "Schema",
    "Vector",
    "infer_fields",
]
