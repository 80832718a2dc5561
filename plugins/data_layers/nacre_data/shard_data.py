"""ShardData: records from SINGA's shards."""

from __future__ import annotations

from typing import Any

from .skipping import SkippingLayer
from .stores.packed import CodecName
from .stores.shard import Shard, TornTail


class ShardDataLayer(SkippingLayer, is_source=True):
    """Feed the records of SINGA's shards in the order in which they were written.

    y[n] = field[order[position + n]], where position grows by batch_size with every batch.

    This is the source Data with the store Shard. In phase `train` with `random_skip`, each rank begins at a record of
    its own, drawn from seed and rank, and goes on at the first record after the last one; so ranks may feed the same
    record in one pass. After SINGA's `ShardData`. Raises DataError if a shard cannot be read or does not match the
    others.

    Example:
        [[layer]]
        type = "ShardData"
        source = "train.shard"  # a folder with shard.dat
        tops = ["data", "label"]  # (8, 3, 8, 8), (8,)
        batch_size = 8
        random_skip = 5000
    """

    codec: CodecName = ""
    torn_tail: TornTail = False

    def reading(self) -> dict[str, Any]:
        return {"store": Shard(codec=self.codec, torn_tail=self.torn_tail)}
