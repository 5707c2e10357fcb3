"""The hot loops in C: ``_pass``, where it could be built at installation."""
