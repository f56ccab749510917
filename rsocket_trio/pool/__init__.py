"""Requests to many servers by one requester: `connect_pool`.

source (a list, DNS, a file, yours)
  └─ sets of targets ── Roster ── one Member for each target ── the sessions of its client
                          └─ chooses the member of each request (Choice)
"""

from .options import PoolOptions, PoolStatistics, Target, TargetStatistics
from .pool import Pool, PoolTargets, connect_pool
from .sources import Watch, dns, target_file

__all__ = [
    "Pool",
    "PoolOptions",
    "PoolStatistics",
    "PoolTargets",
    "Target",
    "TargetStatistics",
    "Watch",
    "connect_pool",
    "dns",
    "target_file",
]
