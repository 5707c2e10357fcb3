"""Where the shards of spread tasks live: in this process (``local``), or on a cluster (``dask``).

An engine is an object with ``call(function, *arguments)``, which returns one result per shard.
"""
