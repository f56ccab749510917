"""``serve --metrics``: a page for Prometheus beside the pages of ``--health``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from rsocket_trio import Router
from rsocket_trio.sockets.workplace import workplace

from .exits import USAGE, Failure

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable

    from rsocket_trio import Page
    from rsocket_trio.workers import Workers

    from .serving import Deployment

__all__ = ["Metrics", "check_metrics"]


def check_metrics(args: argparse.Namespace) -> None:
    """Check that the page can be served, before anything is started.

    Raises:
        Failure: It cannot.
    """
    if not args.metrics:
        return
    if not args.health:
        raise Failure("--metrics needs --health URL: the page is /metrics there", USAGE)


class Metrics:
    """The numbers of servers that start later, and of the calls of their target.

    A worker tells its parent, whose page is that of all workers.

    Args:
        deployment: Gets the page.
        target: What is served; a Router counts its calls from now on.

    Attributes:
        workers: The workers of this process, once it is their parent.

    Raises:
        Failure: The client library of Prometheus is missing.
    """

    def __init__(self, deployment: Deployment, target: Any) -> None:
        try:
            from rsocket_trio.metrics import metrics_page, metrics_text, workers_page
        except ImportError as error:
            raise Failure(f"--metrics: {error}", USAGE) from error
        self._make: Final = metrics_page
        self._make_of_workers: Final = workers_page
        self.workers: Workers | None = None
        self._meters: Final = (
            target._metered()  # noqa: SLF001 - not for applications
            if isinstance(target, Router)
            else []
        )
        self._sources: list[Any] = []
        deployment.pages["/metrics"] = self._page
        place = workplace()
        if place is not None:
            place.metrics = lambda: metrics_text(*self._sources)

    def count(self, servers: Iterable[Any]) -> None:
        """Show these servers, which have started.

        Servers of several wires are given the target's acceptor and know none of its calls, and
        one server knows them all.
        """
        self._sources = [*servers]
        if len(self._sources) > 1:
            self._sources += self._meters

    async def _page(self) -> Page:
        if self.workers is not None:
            return await self._make_of_workers(self.workers)()
        return await self._make(*self._sources)()
