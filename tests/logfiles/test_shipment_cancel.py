"""A shipment, cancelled at every step: nothing is left behind, and no line is lost."""

from __future__ import annotations

import pytest
import trio

from rsocket_trio.logfiles import Registry
from rsocket_trio.testing import assert_no_leaks, cancel_everywhere
from tests.logfiles.shipping import FOLLOWING, Receiver, positions, ship_once, shipment_of


@pytest.mark.parametrize("followed", [False, True], ids=["once", "followed"])
@pytest.mark.parametrize("every_task", [False, True], ids=["own steps", "all steps"])
async def test_run(tmp_path, followed, every_task):
    """The registry has only what was acknowledged, is not locked, and the rest comes again."""
    file = tmp_path / "a.log"
    lines = [str(number) for number in range(10)]
    file.write_text("".join(f"{line}\n" for line in lines))
    registry_file = tmp_path / "registry.json"
    receiver = Receiver()

    async def operation():
        registry = Registry(registry_file)
        try:
            shipment = shipment_of(
                tmp_path,
                receiver,
                "a.log",
                registry=registry,
                following=FOLLOWING if followed else None,
                max_events=4,
                in_flight=2,
            )
            async with trio.open_nursery() as nursery:
                nursery.start_soon(shipment.run)
                if followed:
                    await receiver.until(lambda r: r.messages[-1:] == ["9"])
                    shipment.stop(1)
        finally:
            registry.close()

    async def check():
        acknowledged = [position.offset for position in positions(tmp_path)]
        assert acknowledged in ([], [0], [8], [16], [20])
        assert 2 * len(set(receiver.messages)) >= sum(acknowledged)
        await ship_once(tmp_path, receiver, "a.log")
        assert sorted(set(receiver.messages)) == lines
        registry_file.unlink()
        receiver.events.clear()

    async with assert_no_leaks():
        # A place with a wait for a thread has a varying number of steps, and some runs complete
        # early. The largest number of places is what counts.
        places = [
            await cancel_everywhere(operation, check, every_task=every_task) for _ in range(3)
        ]
    assert max(places) >= 3
