"""Windows of a browser share the machine: fair shares, writing that ends with its request, and bars written anew."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from studio_server import Client, serving
from studio_window import Window

from musicgen.studio.models import Models


@pytest.fixture(scope="module")
def client(models: Models, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    with serving(tmp_path_factory.mktemp("takes"), models) as client:
        yield client


@pytest.fixture
def windows(browser: Any, client: Client) -> Iterator[list[Window]]:
    windows = [Window(browser, client), Window(browser, client)]
    yield windows
    for window in windows:
        assert (window.problems, window.foreign) == ([], [])
        window.page.close()


def begin(window: Window) -> str:
    """Press Write for more bars than anyone waits for, wait for two of them, and return the id of the piece."""
    window.page.fill("#length", "5000")
    window.page.click("#go")
    window.until("studio.current?.song.bars.length >= 2 && studio.tree.get(studio.current.id).status === 'writing'")
    return str(window.page.evaluate("studio.current.id"))


def tokens(client: Client, *keys: str) -> list[int]:
    """How many tokens takes have, between two steps of the writer."""
    takes = [client.studio.takes[key] for key in keys]
    return client.studio.writer.call(lambda: [len(take.written.tokens) for take in takes]).result(60)


def test_windows_share_the_machine_and_a_window_that_closes_stops_its_writing(
    windows: list[Window], client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("musicgen.studio.streams.GRACE", 0.05)
    keys = [begin(window) for window in windows]
    before = tokens(client, *keys)
    windows[1].until(f"studio.current.song.bars.length > {windows[1].page.evaluate('studio.current.song.bars.length')}")
    after = tokens(client, *keys)
    assert after[0] - before[0] == after[1] - before[1] > 0

    windows[0].page.goto("about:blank")
    end = time.monotonic() + 60
    while client.studio.takes[keys[0]].is_busy:
        assert time.monotonic() < end
        time.sleep(0.05)
    before = tokens(client, *keys)
    windows[1].until(f"studio.current.song.bars.length > {windows[1].page.evaluate('studio.current.song.bars.length')}")
    after = tokens(client, *keys)
    assert (after[0], client.studio.takes[keys[1]].is_busy) == (before[0], True)
    assert after[1] > before[1]

    windows[1].page.locator(f"[data-id='{keys[1]}']").get_by_title("Delete").click()
    windows[1].until(f"!studio.tree.get('{keys[1]}')")
    assert client.studio.writer.writing == 0
    (writer,) = [thread for thread in threading.enumerate() if thread.name == "writer"]
    clock = time.pthread_getcpuclockid(writer.ident or 0)
    work = time.clock_gettime(clock)
    before = tokens(client, *keys)
    time.sleep(0.5)
    assert tokens(client, *keys) == before
    assert time.clock_gettime(clock) - work < 0.1  # it waits for the next request, and does not turn


def test_bars_are_written_anew_on_the_page_and_it_says_what_the_model_sees(windows: list[Window]) -> None:
    window = windows[0]
    for model, words in (("tiny", "The model does not see what follows"), ("tiny-gaps", "The model saw what comes")):
        window.page.select_option("#model", model)
        key = window.write(4, seed="9")
        bars = window.page.evaluate("studio.current.song.bars")
        for place, bar in (("#from", "2"), ("#to", "3")):
            window.page.fill(place, bar)
            window.page.keyboard.press("Tab")
        window.page.select_option("#count", "2")
        assert ("does not see" in str(window.page.get_attribute("#fill", "title"))) == (model == "tiny")
        window.page.click("#fill")
        of_this = f"[...studio.tree.takes.values()].filter(take => take.parent === '{key}' && take.status === 'done')"
        window.until(f"{of_this}.length === 2")
        window.until(f"studio.current.id !== '{key}' && !studio.current.song.isGrowing")
        window.until("document.querySelector('#note').textContent")
        assert window.page.inner_text("#note").startswith(words)
        assert sorted(window.page.evaluate(f"{of_this}.map(take => take.score.rank)")) == [1, 2]
        assert "bars 2–3 anew" in window.page.inner_text("#tree")

        def starts(bar: list[list[int]]) -> list[tuple[int, int]]:
            """Notes without their ends, which may be cut by a new note."""
            return [(note[0], note[2]) for note in bar]

        anew = window.page.evaluate("studio.current.song.bars")
        assert [starts(anew[bar]) for bar in (0, 3)] == [starts(bars[bar]) for bar in (0, 3)]
        assert [starts(anew[bar]) for bar in (1, 2)] != [starts(bars[bar]) for bar in (1, 2)]


def test_four_windows_of_one_browser_write_at_once(browser: Any, client: Client) -> None:
    """A browser opens six connections to an address, for all of its windows."""
    context = browser.new_context()
    windows = [Window(context, client) for _ in range(4)]
    for window in windows:
        window.page.click("#radio")
        window.until("studio.current?.song.bars.length >= 2")
    for window in windows:
        window.page.click("#stop")
        window.until("studio.tree.get(studio.current.id).status === 'stopped'")
        assert (window.problems, window.foreign) == ([], [])
    context.close()
