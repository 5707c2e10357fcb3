"""What runs where the rows are: a node that answers with sums."""

from __future__ import annotations

import numpy as np
from flwr.app import ArrayRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp

from cobandits import TaskRows
from cobandits.federated import Ask, Node, Privacy

app = ClientApp()


@app.train()
def train(message: Message, context: Context) -> Message:
    """Answer one ask of the server."""
    kind = message.content.config_records["ask"]["kind"]
    (basis,) = message.content.array_records["basis"].to_numpy_ndarrays()
    answer = node_of(context).answer(Ask("start" if kind == "start" else "step", basis))
    sums = RecordDict({"sums": ArrayRecord([np.asarray(part) for part in answer])})
    return Message(content=sums, reply_to=message)


def node_of(context: Context) -> Node:
    """Return the node of this machine's own rows: a file with columns task, reward and features.

    Where it is, and how private the sums are, is up to the owner of the rows, not to the server.
    """
    own = context.node_config
    rows = TaskRows.from_file(str(own["rows"]), task="task", reward="reward")
    privacy = None
    if "noise-multiplier" in own:
        privacy = Privacy(clip=float(own["clip"]), noise_multiplier=float(own["noise-multiplier"]))
    return Node(rows, rank=int(context.run_config["rank"]), privacy=privacy)
