"""A thread of one's own: in order, one at a time, and never waited for in vain."""

import asyncio
import subprocess
import sys
import threading

import pytest

from memproxy.stores.thread import OwnThread


async def test_work_is_done_one_after_the_other_in_the_order_it_was_asked_for() -> None:
    thread, done, names = OwnThread("own"), list[int](), set[str]()

    def work(number: int) -> int:
        names.add(threading.current_thread().name)
        done.append(number)
        return number * 2

    asked = [thread.run(lambda number=number: work(number)) for number in range(50)]  # type: ignore[misc]
    assert await asyncio.gather(*asked) == [number * 2 for number in range(50)]
    assert (done, names) == (list(range(50)), {"own"})
    thread.close()


async def test_what_work_raises_is_raised_where_it_is_waited_for_and_the_thread_goes_on() -> None:
    thread = OwnThread("own")
    with pytest.raises(ZeroDivisionError):
        await thread.run(lambda: 1 // 0)
    assert await thread.run(lambda: 1) == 1
    thread.close()


async def test_work_that_has_begun_is_finished_without_its_caller_and_work_that_has_not_is_dropped() -> None:
    thread, begun, may_end, done = OwnThread("own"), threading.Event(), threading.Event(), list[str]()

    def first() -> None:
        begun.set()
        may_end.wait()
        done.append("first")

    loop = asyncio.get_running_loop()
    asked = [loop.create_task(thread.run(first)), loop.create_task(thread.run(lambda: done.append("second")))]
    await loop.run_in_executor(None, begun.wait)
    for one in asked:
        one.cancel()
    await asyncio.wait(asked)
    may_end.set()
    await thread.run(lambda: done.append("third"))
    assert done == ["first", "third"]
    thread.close()


async def test_a_closed_thread_ends_after_what_was_asked_for_and_a_later_call_has_a_new_one() -> None:
    thread = OwnThread("own")
    running = asyncio.get_running_loop().create_task(thread.run(threading.current_thread))
    await asyncio.sleep(0)
    thread.close()
    ended = await running
    await asyncio.get_running_loop().run_in_executor(None, ended.join)
    assert await thread.run(threading.current_thread) is not ended
    thread.close()


_LEFT_OPEN = """
import asyncio, threading, time
from memproxy.stores.thread import OwnThread

async def main():
    thread = OwnThread("own")
    begun = threading.Event()
    waiting = asyncio.create_task(thread.run(lambda: (begun.set(), time.sleep(0.2), print("done", flush=True))))
    while not begun.is_set():
        await asyncio.sleep(0)
    waiting.cancel()
    return thread

kept = asyncio.run(main())
"""


def test_a_process_ends_when_the_work_that_was_begun_has() -> None:
    ended = subprocess.run([sys.executable, "-c", _LEFT_OPEN], capture_output=True, text=True, timeout=60, check=True)
    assert (ended.stdout, ended.stderr) == ("done\n", "")
