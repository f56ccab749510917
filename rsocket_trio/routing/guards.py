"""Guards decide which connections and requests reach the handlers of a router.

A `Guard` has the hooks of one router. It belongs to the handlers of that router, also where they
are included. `Guards` are the guards of one connection: each is asked about the SETUP, about every
request to its handlers, and about every RESUME.

The router that is served may refuse the connection. An included router refuses only requests: if it
refuses the SETUP, it refuses every request to its routes, and to routes that begin with its prefix
and have no handler. So a stranger does not learn which routes exist.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable
from math import inf
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import attrs

from ..config import DEFAULT_LIMITS, Limits
from ..connection.resume_server import NO_SESSION
from ..errors import (
    ApplicationError,
    Forbidden,
    InvalidSetup,
    MetadataError,
    MetadataTooLarge,
    Rejected,
    RejectedResume,
    RejectedSetup,
    SetupError,
    StreamError,
    Unauthenticated,
    addressed,
    setup_refusal,
)
from ..log_policy import logger
from ..requester import Requester
from ..responder import ResumeFacts, Setup
from .access import Authenticate, RequestFacts, as_composite, read_auth
from .admitted import Admitted, Bounded, Stay
from .hooks import NOT_ADMITTED, ask, failed, said
from .refusals import shown

if TYPE_CHECKING:
    from ..metadata.authentication import Authentication
    from .call import RouterCall
    from .layers import Layer
    from .middleware import Step
    from .registered import Registered

__all__ = ["Fence", "Guard", "Guards", "OnResume", "OnSetup", "Visit"]

OnSetup: TypeAlias = Callable[[Setup, Requester], Awaitable[None]]
"""See `rsocket_trio.Router`."""

OnResume: TypeAlias = Callable[[ResumeFacts], Awaitable[None]]
"""See `rsocket_trio.Router`."""

_UNREADABLE: Final = "the metadata of SETUP cannot be read"
_REQUEST_NOT_ADMITTED: Final = "this request was not admitted"


@attrs.frozen(eq=False)
class Guard:
    """The hooks of one router.

    Attributes:
        authenticate: See `rsocket_trio.Router`.
        on_setup: See there.
        on_resume: See there.
    """

    authenticate: Authenticate | None = None
    on_setup: OnSetup | None = None
    on_resume: OnResume | None = None

    @property
    def is_needed(self) -> bool:
        """Whether there is a hook."""
        asked = (self.authenticate, self.on_setup, self.on_resume)
        return any(function is not None for function in asked)

    async def accept(
        self, setup: Setup, requester: Requester, limits: Limits = DEFAULT_LIMITS
    ) -> _Post:
        """Decide about a connection.

        Args:
            setup: Its SETUP.
            requester: For requests to the peer.
            limits: How much of the metadata is read.

        Raises:
            SetupError: It is refused.

        Checkpoint: as the application's functions do.
        If cancelled: as the application's functions do.
        """
        stay: Stay | None = None
        # A client's own SETUP says who the client is, and nothing about the server.
        if self.authenticate is not None and not setup.ours:
            try:
                auth = read_auth(as_composite(setup.metadata, setup.metadata_mime_type, limits))
            except MetadataTooLarge as error:
                raise RejectedSetup(str(error)) from None
            except MetadataError:
                raise InvalidSetup(_UNREADABLE) from None
            answer = await _about_setup("authenticate", self.authenticate, setup, auth, setup)
            principal, until = _parts(answer)
            setup = attrs.evolve(setup, principal=principal)
            stay = None if until == inf else Stay(principal, until)
        if self.on_setup is not None:
            await _about_setup("on_setup", self.on_setup, setup, setup, requester)
        return _Post(self, setup, stay=stay)


def _parts(answer: Any) -> tuple[Any, float]:
    """Return the principal that an authenticator has returned, and until when it is one."""
    return (answer.principal, answer.until) if type(answer) is Admitted else (answer, inf)


async def _about_setup(
    option: str, hook: Callable[..., Awaitable[Any]], setup: Setup, *arguments: object
) -> Any:
    """Ask a hook about a connection; a failure of the hook refuses the connection.

    Raises:
        SetupError: It is refused.
    """
    try:
        return await ask(option, hook, *arguments)
    except Exception as error:  # the hook is the application's
        if addressed(error, SetupError) is not None:
            raise
        if setup_refusal(error) is None:
            failed(option, hook, f"the connection from {_peer_of(setup)}")
        else:
            error.with_traceback(None)  # as in `said`
        raise setup_refusal(error) or RejectedSetup(NOT_ADMITTED) from error


def _peer_of(setup: Setup) -> str:
    return setup.transport.peer or setup.transport.scheme


@attrs.frozen
class Fence:
    """The layers around the routes of an included router, routes without a handler included.

    Attributes:
        prefix: The prefix of its routes.
        layers: The layers, the outermost first.
        routeless: It has handlers for requests without a route.
    """

    prefix: str
    layers: tuple[Layer, ...]
    routeless: bool

    def within(self, prefix: str, layers: tuple[Layer, ...]) -> Fence:
        """Return this fence for the router around the including one."""
        return Fence(prefix + self.prefix, layers + self.layers, self.routeless)

    def encloses(self, route: str | None) -> bool:
        """Whether a route could be one of these."""
        if route is None:
            return self.routeless
        if "{" not in self.prefix:
            return route.startswith(self.prefix)
        literals = re.split(r"\{[^{}]*\}", self.prefix)
        return bool(re.match("[^./]*".join(map(re.escape, literals)), route, re.DOTALL))


class _Post:
    """A guard on one connection.

    Attributes:
        guard: The guard.
        setup: The SETUP, with the principal it was given.
        refusal: The text for the peer, if the guard has refused the SETUP.
        stay: What runs under the principal of the SETUP, if that may run out.
    """

    __slots__ = ("guard", "refusal", "setup", "stay")

    def __init__(
        self,
        guard: Guard,
        setup: Setup,
        refusal: bytes | None = None,
        stay: Stay | None = None,
    ) -> None:
        self.guard = guard
        self.setup = setup
        self.refusal = refusal
        self.stay = stay

    @property
    def asks(self) -> bool:
        """Whether requests have to pass it."""
        return self.refusal is not None or self.guard.authenticate is not None

    def unnamed(self) -> Setup:
        """Return the SETUP as the authenticator got it."""
        return attrs.evolve(self.setup, principal=None)


class Visit:
    """One of the guards that the requests to a handler have to pass.

    Attributes:
        before: The visit to the guard around this one, if there is one; it comes first.
    """

    __slots__ = ("_facts", "_post", "before")

    def __init__(self, post: _Post, before: Visit | None) -> None:
        self._facts: RequestFacts | None = None
        self._post = post
        self.before = before

    async def admit(self, call: RouterCall) -> Bounded | None:
        """Ask the guard, once for a request; the principal of the call is what it says.

        Returns:
            A block for the call, if what the guard says may run out.

        Raises:
            StreamError: It is refused.

        Checkpoint: as the authenticator does.
        If cancelled: as the authenticator does.
        """
        made, request = call._made, call._request  # noqa: SLF001 - same package
        if self in made:
            call.principal = made[self]
            return None
        post = self._post
        if post.refusal is not None:
            raise Rejected(post.refusal)
        outer = None if self.before is None else made[self.before]
        authenticate = post.guard.authenticate
        if authenticate is None:
            call.principal = made[self] = outer
            return None
        interaction, route, auth = request.interaction, request.route, request.auth
        stay, setup, facts = post.stay, post.setup, self._facts
        if stay is not None and stay.is_over:
            if auth is None:
                raise stay.refusal()
            # The answer does not come from the connection then, and does not end with it.
            stay, setup, facts = None, post.unnamed(), None
        if facts is None or facts.route is not route or outer is not None:
            facts = RequestFacts(
                interaction=interaction, route=route, setup=setup, outer_principal=outer
            )
            if outer is None and setup is post.setup:
                self._facts = facts  # nearly all requests to a handler have the same facts
        try:
            answer = await ask("authenticate", authenticate, auth, facts)
        except Exception as error:  # the hook is the application's
            which = f"{interaction.value} {shown(route.name)}"
            refusal = _refusal_of(error, authenticate, which, setup)
            try:
                if refusal is None:
                    raise
                raise refusal from error
            finally:
                del refusal  # its traceback holds this frame
        bounded: Bounded | None = None
        if type(answer) is Admitted:
            own = Stay(answer.principal, answer.until)
            answer = answer.principal
            bounded = Bounded(own, setup.peer._own)  # noqa: SLF001 - same package
        elif stay is not None and (auth is None or answer == stay.principal):
            bounded = Bounded(stay)
        call.principal = made[self] = answer
        return bounded


def _refusal_of(
    error: Exception, authenticate: Authenticate, which: str, setup: Setup
) -> StreamError | None:
    """Return what a requester gets for an error of an authenticator; ``None``: the same."""
    if addressed(error, StreamError) is not None:
        return None
    refusal = said(error, SetupError, RejectedResume)
    if refusal is not None:
        return Rejected(refusal)
    failed("authenticate", authenticate, f"{which} from {_peer_of(setup)}")
    return ApplicationError(_REQUEST_NOT_ADMITTED)


class Guards:
    """The guards of a router on one connection. Make it with `accept`.

    Attributes:
        any: There is a guard that requests have to pass.
        setup: The SETUP, with the principal that the router that is served has returned.
    """

    def __init__(self, served: Layer, post: _Post, fences: Iterable[Fence]) -> None:
        self.any = False
        self.setup = post.setup
        self._outermost = served
        self._served = served.guard
        self._posts = {served.guard: post}
        # The longest prefix first: an unknown route is refused as the routes beside it are.
        self._fences = sorted(fences, key=lambda fence: -len(fence.prefix))

    @classmethod
    async def accept(
        cls,
        served: Layer,
        fences: Iterable[Fence],
        setup: Setup,
        requester: Requester,
        supplied: Callable[[Guard], Guard],
        limits: Limits = DEFAULT_LIMITS,
    ) -> Guards:
        """Ask all guards about a connection, that of the router that is served first.

        Args:
            served: The guard and the middleware of the router that is served.
            fences: The fences of the routers that it includes.
            setup: The SETUP.
            requester: For requests to the peer.
            supplied: Returns a guard whose hooks get what is provided for them.
            limits: How much of the metadata is read.

        Raises:
            SetupError: The first guard refuses. Refusals of the others are kept for the requests.

        Checkpoint: as the application's functions do.
        If cancelled: as the application's functions do.
        """
        post = await supplied(served.guard).accept(setup, requester, limits)
        guards = cls(served, post, fences)
        for fence in guards._fences:
            for guard in (layer.guard for layer in fence.layers):
                if guard.is_needed and guard not in guards._posts:
                    guards._posts[guard] = await _stationed(
                        supplied(guard), setup, requester, limits
                    )
        guards.any = any(post.asks for post in guards._posts.values())
        setup.peer.principal = guards.setup.principal
        if guards.any and not setup.ours:
            setup.peer._renew = guards.renew  # noqa: SLF001 - same package
        return guards

    async def renew(self, auth: Authentication | None) -> None:
        """See `Peer.renew`. All authenticators accept it, or nothing changes.

        Raises:
            StreamError: It is refused.

        Checkpoint: as the authenticators do.
        If cancelled: nothing changes.
        """
        if auth is None:
            raise Unauthenticated("an authentication is renewed by another one")
        renewed: list[tuple[_Post, float]] = []
        for post in self._posts.values():
            authenticate = post.guard.authenticate
            if authenticate is None or post.refusal is not None:
                continue
            setup = post.unnamed()
            try:
                answer = await ask("authenticate", authenticate, auth, setup)
            except Exception as error:  # the hook is the application's
                refusal = _refusal_of(error, authenticate, "a renewal", setup)
                try:
                    if refusal is None:
                        raise
                    raise refusal from error
                finally:
                    del refusal  # its traceback holds this frame
            principal, until = _parts(answer)
            if principal != post.setup.principal:
                raise Forbidden("this is another principal than that of the connection")
            renewed.append((post, until))
        for post, until in renewed:
            if post.stay is not None:
                post.stay.renew(until)
            elif until < inf:
                post.stay = Stay(post.setup.principal, until)

    def steps(self, registered: Registered) -> tuple[Step, ...]:
        """Return what the requests to a handler have to pass, from the outside to the inside."""
        return self._steps(((registered.layers, True),))

    def steps_of_template(self, registered: Registered, route: str | None) -> tuple[Step, ...]:
        """Return the steps of a request to a handler with variables, if others enclose its route.

        A stranger must not learn which routes an included router has: so its guards are asked about
        all other routes under its prefix, also if a template of another router matches them.

        Returns:
            The steps; none if no guard is asked but those of the handler.
        """
        lines = [fence.layers for fence in self._fences if fence.encloses(route)]
        if all(line == registered.layers[: len(line)] for line in lines):
            return ()
        return self._steps((*((line, False) for line in lines), (registered.layers, True)))

    @property
    def middleware(self) -> tuple[Step, ...]:
        """The middleware around all requests: that of the router that is served."""
        return (*self._outermost.middleware,)

    def steps_of_unknown(self, route: str | None) -> tuple[Step, ...]:
        """Return the steps of a request without a handler; ``None``: it names no route.

        The middleware of a fence without a prefix has nothing to do with it.
        """
        enclosing = [fence for fence in self._fences if fence.encloses(route)]
        return self._steps([(fence.layers, bool(fence.prefix)) for fence in enclosing])

    def _steps(self, lines: Iterable[tuple[tuple[Layer, ...], bool]]) -> tuple[Step, ...]:
        """Return the steps through the router that is served and through lines of layers in it.

        Args:
            lines: The lines, that of the handler last; and whether their middleware is passed.
        """
        steps: list[Step] = [*self._outermost.middleware]
        first: Visit | None = None
        if self._served.authenticate is not None:
            first = Visit(self._posts[self._served], None)
            steps.append(first)
        before = last = first
        visits: dict[tuple[Visit | None, Guard], Visit] = {}
        passed: set[Layer] = set()
        for line, is_near in lines:
            before = first
            for layer in line:
                if is_near and layer not in passed:
                    passed.add(layer)
                    steps += layer.middleware
                post = self._posts.get(layer.guard)
                if post is not None and post.asks:
                    key = (before, layer.guard)
                    if key not in visits:
                        last = visits[key] = Visit(post, before)
                        steps.append(last)
                    before = visits[key]
        if before is not None and before is not last:
            steps.append(before)  # not asked again: but the principal is what it has said
        return tuple(steps)

    def refusal_of(self, registered: Registered) -> bytes | None:
        """Return the text of the guard that has refused this connection to a handler, if any."""
        posts = [self._posts.get(layer.guard) for layer in registered.layers]
        return next((post.refusal for post in posts if post and post.refusal is not None), None)

    def nearest(self, registered: Registered) -> tuple[Setup, bool]:
        """Return the SETUP as the nearest authenticator of a handler sees it.

        Returns:
            The SETUP, with the principal that this authenticator has returned for it; and whether
            there is an authenticator.
        """
        for layer in (*reversed(registered.layers), self._outermost):
            guard = layer.guard
            if guard.authenticate is not None:
                return self._posts[guard].setup, True
        return self.setup, False

    def setup_for(self, near: Iterable[Guard]) -> Setup | None:
        """Return the SETUP as the first authenticator of some guards sees it.

        ``None`` if one of them has refused the connection, or was not asked about it: a sender of
        events meets only the guards of their handler.
        """
        near = [guard for guard in near if guard.is_needed]
        if any(guard not in self._posts for guard in near):
            return None
        posts = [self._posts[guard] for guard in near]
        if any(post.refusal is not None for post in posts):
            return None
        return next((p.setup for p in posts if p.guard.authenticate is not None), self.setup)

    async def accept_resume(self, facts: ResumeFacts, default: OnResume) -> None:
        """Ask all guards that have accepted this connection about its RESUME.

        Args:
            facts: The facts about the RESUME.
            default: `Responder.accept_resume` of the router that is served. It is called if that
                router has no ``on_resume``.

        Raises:
            RejectedResume: It is refused.
            StreamError: It is refused.
            SetupError: It is refused.

        Checkpoint: as the application's functions do.
        If cancelled: as the application's functions do.
        """
        if self._served.on_resume is None:
            await default(facts)
        for post in self._posts.values():
            if post.refusal is None:
                await _admit_resume(post, attrs.evolve(facts, setup=post.setup))


async def _stationed(guard: Guard, setup: Setup, requester: Requester, limits: Limits) -> _Post:
    """Ask the guard of an included router, which cannot refuse the connection as a whole."""
    try:
        return await guard.accept(setup, requester, limits)
    except Exception as error:  # a SetupError, or a fault of this package
        refusal = said(error, SetupError)
        if refusal is None:
            logger.exception("the guard of an included router failed")
            refusal = NOT_ADMITTED
        return _Post(guard, setup, refusal)


async def _admit_resume(post: _Post, facts: ResumeFacts) -> None:
    guard = post.guard
    if guard.on_resume is not None:
        await _about_resume("on_resume", guard.on_resume, facts, facts)
    if guard.authenticate is not None and not facts.setup.ours:
        stay = post.stay
        if stay is not None and stay.is_over:
            facts = attrs.evolve(facts, setup=post.unnamed())
        answer = await _about_resume("authenticate", guard.authenticate, facts, None, facts)
        principal, until = _parts(answer)
        if stay is not None and type(answer) is Admitted and principal == stay.principal:
            stay.renew(until)
        elif post.setup.principal is not None and principal != post.setup.principal:
            peer = facts.transport.peer
            logger.info("a session was not resumed from %s: it belongs to another principal", peer)
            raise RejectedResume(NO_SESSION)


async def _about_resume(
    option: str, hook: Callable[..., Awaitable[Any]], facts: ResumeFacts, *arguments: object
) -> Any:
    """Ask a hook about a RESUME; a failure of the hook refuses it."""
    try:
        return await ask(option, hook, *arguments)
    except Exception as error:  # the hook is the application's
        if addressed(error, SetupError, StreamError, RejectedResume) is not None:
            raise
        peer = facts.transport.peer or facts.transport.scheme
        failed(option, hook, f"the resumption of a session from {peer}")
        raise RejectedResume(NOT_ADMITTED) from error
