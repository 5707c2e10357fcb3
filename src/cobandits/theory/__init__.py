"""What the paper proves, as functions of theta: Theorems 5.1 to 5.4.

The paper leaves its constants open: ``C`` stands for one that is large enough, ``c`` for one
that is small enough, and each theorem has its own. Both are 1 here unless given, so bounds that
depend on them show how a quantity grows, not how large it is.
"""

from cobandits.theory.theorems import SampleSize, Theory

__all__ = ["SampleSize", "Theory"]
