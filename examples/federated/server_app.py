"""What runs on the server: it sends a basis, adds the answers, and saves the basis at the end."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MessageType, RecordDict
from flwr.serverapp import Grid, ServerApp

from cobandits.federated import Answer, Ask, FederatedAltGDMin, SharedBasis
from cobandits.federated.descent import added

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Find the basis with all nodes that are there."""
    told = context.run_config
    server = FederatedAltGDMin(
        rank=int(told["rank"]), dim=int(told["dim"]), iterations=int(told["iterations"])
    )
    nodes = wait_for(grid, int(told["nodes"]))
    found = descended(server, grid, nodes)
    np.save(Path(str(told["out"])), found.basis, allow_pickle=False)
    print(f"{len(nodes)} nodes, {found.status}")


def wait_for(grid: Grid, n: int) -> list[int]:
    """Return the nodes, as soon as so many are there."""
    while len(nodes := sorted(grid.get_node_ids())) < n:
        time.sleep(1)
    return nodes


def descended(server: FederatedAltGDMin, grid: Grid, nodes: list[int]) -> SharedBasis:
    """Ask all nodes in every round, until the basis is found."""
    rounds = server.rounds()
    ask = next(rounds)
    while True:
        try:
            ask = rounds.send(asked(grid, nodes, ask))
        except StopIteration as end:
            found: SharedBasis = end.value
            return found


def asked(grid: Grid, nodes: list[int], ask: Ask) -> Answer:
    """Return the sum of the answers of all nodes; a node that is missing would bias it."""
    content = RecordDict(
        {"ask": ConfigRecord({"kind": ask.kind}), "basis": ArrayRecord([np.asarray(ask.basis)])}
    )
    messages = [
        Message(content=content, message_type=MessageType.TRAIN, dst_node_id=node) for node in nodes
    ]
    replies = list(grid.send_and_receive(messages))
    failed = [reply for reply in replies if reply.has_error()]
    if failed or len(replies) < len(nodes):
        reasons = {reply.error.reason for reply in failed}
        raise RuntimeError(f"{len(nodes) - len(replies) + len(failed)} nodes failed: {reasons}")
    by_node = sorted(replies, key=lambda reply: reply.metadata.src_node_id)
    sums = (reply.content.array_records["sums"].to_numpy_ndarrays() for reply in by_node)
    return added([Answer(gradient, weighted) for gradient, weighted in sums])
