"""``--metrics``: a page for Prometheus beside the pages of ``--health``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from rsocket_trio import CallMeter, Router
from rsocket_trio.workers import Workers

from .exits import USAGE, Failure

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from rsocket_trio import Page

__all__ = ["Metrics"]


class Metrics:
    """The numbers of servers that start later, and of the calls of their target.

    A worker tells its parent, whose page has the sums of all workers.

    Args:
        target: What is served; a Router counts its calls from now on.

    Attributes:
        meters: What counts the calls; middleware for a target that is no Router.

    Raises:
        Failure: The client library of Prometheus is missing.
    """

    def __init__(self, target: Any) -> None:
        try:
            from rsocket_trio.metrics import metrics_page, worker_metrics, workers_page
        except ImportError as error:
            raise Failure(f"--metrics: {error}", USAGE) from error
        self._make: Final = metrics_page, worker_metrics, workers_page
        self.meters: Final[list[CallMeter]] = (
            target._metered()  # noqa: SLF001 - not for applications
            if isinstance(target, Router)
            else [CallMeter()]
        )
        self._of_router: Final = isinstance(target, Router)
        self._page: Callable[[], Awaitable[Page]] = metrics_page()

    async def page(self) -> Page:
        """Return the page of now.

        Checkpoint: if there are workers, which are asked.
        If cancelled: nothing is lost.
        """
        return await self._page()

    def count(self, server: Any) -> None:
        """Show a server that has started, or several as one, or workers.

        Servers of several wires are given the target's acceptor and know none of its calls, and
        one server knows them all.
        """
        page, tell_parent, page_of_workers = self._make
        if isinstance(server, Workers):
            self._page = page_of_workers(server)
            return
        sources = getattr(server, "servers", [server])
        if len(sources) > 1 and self._of_router:
            sources = [*sources, *self.meters]
        self._page = page(*sources)
        tell_parent(*sources)
