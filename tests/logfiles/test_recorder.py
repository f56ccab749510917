"""`Recorder`: when the registry is written."""

import trio

from rsocket_trio.logfiles.recorder import Recorder
from rsocket_trio.logfiles.registry import Registry


async def test_a_disk_that_was_stuck_does_not_hold_new_files_back(
    tmp_path, monkeypatch, nursery, autojump_clock
):
    """A pause follows each write. It lasted four times as long, however long that was."""
    registry = Registry(tmp_path / "registry")
    store, stuck = registry.store, [60.0]

    def slow(positions):
        if stuck:
            trio.from_thread.run(trio.sleep, stuck.pop())
        store(positions)

    monkeypatch.setattr(registry, "store", slow)
    recorder = Recorder(registry)
    nursery.start_soon(recorder.run)
    recorder.forget((1, 1))
    await recorder.written()
    began = trio.current_time()
    recorder.forget((1, 2))
    await recorder.written()
    assert trio.current_time() - began < 3
    nursery.cancel_scope.cancel()
    registry.close()
