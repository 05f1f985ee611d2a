"""Call a function in a process of its own, which is ended when it takes too long."""

from __future__ import annotations

import multiprocessing

# what children need is loaded once, in the process that they are forked from
CONTEXT = multiprocessing.get_context("forkserver")


def preload(*modules):
    CONTEXT.set_forkserver_preload(list(modules))


def call(seconds, function, *args):
    """Return ``function(*args)``; TimeoutError after some seconds, RuntimeError if it died."""
    receiver, sender = CONTEXT.Pipe(duplex=False)
    process = CONTEXT.Process(target=_send, args=(sender, function, args))
    process.start()
    sender.close()
    try:
        if not receiver.poll(seconds):
            raise TimeoutError(f"over {seconds:g} s")
        return receiver.recv()
    except EOFError:
        process.join()
        raise RuntimeError(f"the process died, exit code {process.exitcode}") from None
    finally:
        process.kill()
        process.join()
        receiver.close()


def _send(sender, function, args):
    sender.send(function(*args))
