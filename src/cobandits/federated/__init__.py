"""A shared basis from rows that never leave their nodes.

A :class:`Node` holds the tasks of one participant. It is asked with a basis, and answers with a
gradient, (d, r), and an (r, r) matrix: sums over its tasks. :class:`FederatedAltGDMin` asks, and
returns the basis. Every node then has the weights of its own tasks, which nobody else sees.
Messages are plain arrays (:mod:`cobandits.federated.messages`), so any transport will do.
"""

from cobandits.federated.descent import FederatedAltGDMin, SharedBasis
from cobandits.federated.messages import Answer, Ask
from cobandits.federated.node import Node
from cobandits.federated.privacy import Privacy, noise_multiplier

__all__ = [
    "Answer",
    "Ask",
    "FederatedAltGDMin",
    "Node",
    "Privacy",
    "SharedBasis",
    "noise_multiplier",
]
