"""What a musician does on the page, in a real browser."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from studio_server import Client, serving
from studio_window import Window

from musicgen.languages.groove.synthetic import compose_groove
from musicgen.languages.remi.synthetic import compose
from musicgen.midi.write import midi_bytes
from musicgen.studio.models import Models


@pytest.fixture(scope="module")
def client(models: Models, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    with serving(tmp_path_factory.mktemp("takes"), models) as client:
        yield client


@pytest.fixture(scope="module")
def shared(browser: Any, client: Client) -> Iterator[Window]:
    window = Window(browser, client)
    yield window
    window.page.close()


@pytest.fixture
def window(shared: Window) -> Iterator[Window]:
    yield shared
    assert shared.problems == []
    assert shared.foreign == []
    if shared.page.evaluate("studio.player.isOn"):
        shared.page.click("#play")


def test_music_from_nothing_is_drawn_heard_and_taken_away(window: Window) -> None:
    key = window.write(2, seed="5", tempo="120")
    window.until("studio.player.state === 'playing' || studio.player.state === 'ended'")
    assert window.page.evaluate("studio.current.song.bars.length") == 2
    assert window.page.evaluate("studio.current.song.seconds(studio.current.song.end)") == pytest.approx(4.0)
    assert "2 bars" in window.page.inner_text("#facts")
    with window.page.expect_download() as download:
        window.page.evaluate("document.querySelector('#downloads a').click()")
    expected = window.client.studio.models.get("tiny").generate(bars=2, seed=5, tempo=120)
    assert Path(download.value.path()).read_bytes() == midi_bytes(expected.score, expected.marks)
    assert window.client.get(f"/api/pieces/{key}").json["request"]["seed"] == 5
    drawn = """(() => {
      const roll = studio.roll, pen = roll.canvas.getContext("2d"), seen = new Set();
      roll.paint();
      const { data } = pen.getImageData(40, 45, roll.canvas.width - 40, roll.canvas.height - 45);
      for (let i = 0; i < data.length; i += 4) seen.add(data[i] << 16 | data[i + 1] << 8 | data[i + 2]);
      return seen.size > 8;
    })()"""
    window.until(drawn)


def test_a_is_440_hertz_and_drums_and_basses_sound(window: Window) -> None:
    """Each sound is rendered by the player's own soundfont, offline."""
    script = """async () => {
      await studio.player.prepare();
      const heard = {};
      for (const [name, track, pitch] of [["piano", { program: 0 }, 69], ["flute", { program: 73 }, 69],
        ["bass", { program: 33 }, 33], ["drums", { program: 0, drums: true }, 38]]) {
        const context = new OfflineAudioContext(1, 44100, 44100);
        studio.player.sounds.bufferCache.clear();
        studio.player.sounds.play(context, context.destination, track, pitch, 100, 0, 0.9);
        heard[name] = Array.from((await context.startRendering()).getChannelData(0).slice(8192, 8192 + 16384));
      }
      studio.player.sounds.bufferCache.clear();
      return heard;
    }"""
    heard = {name: np.array(samples) for name, samples in window.page.evaluate(script).items()}
    assert all(np.abs(samples).max() > 0.001 for samples in heard.values())
    for name, hertz in (("piano", 440.0), ("flute", 440.0), ("bass", 55.0)):
        spectrum = np.abs(np.fft.rfft(heard[name] * np.hanning(16384), 1 << 19))
        near = slice(int(0.9 * hertz * (1 << 19) / 44100), int(1.1 * hertz * (1 << 19) / 44100))
        peak = (near.start + int(spectrum[near].argmax())) * 44100 / (1 << 19)
        assert peak == pytest.approx(hertz, abs=2 if hertz > 100 else 0.7), name


def test_takes_are_forked_kept_named_deleted_and_brought_back(window: Window) -> None:
    window.write(3, seed="6")
    before = len(window.names())
    window.page.click("#home")
    window.page.focus("#roll")
    window.page.keyboard.press("ArrowRight")
    window.page.keyboard.press("ArrowRight")
    window.page.select_option("#count", "2")
    window.page.keyboard.press("f")
    window.until(f"studio.tree.takes.size === {before + 2}")
    window.until("[...studio.tree.takes.values()].every(take => take.status !== 'writing')")
    fork = window.page.evaluate("[...studio.tree.takes.values()].at(-1)")
    assert (fork["bar"], fork["bars"], fork["variation"]) == (2, 3, 2)

    window.page.locator(f"[data-id='{fork['id']}'] .name").dblclick()
    window.page.keyboard.type("<b>Evening</b>")
    window.page.keyboard.press("Enter")
    window.until(f"studio.tree.get('{fork['id']}').name === '<b>Evening</b>'")
    assert "<b>Evening</b>" in window.names()
    window.page.locator(f"[data-id='{fork['id']}'] .keep").click()
    window.until(f"studio.tree.get('{fork['id']}').kept")
    window.page.get_by_label("Delete <b>Evening</b>").click()
    window.until(f"!studio.tree.get('{fork['id']}')")
    window.page.keyboard.press("Control+z")
    window.until(f"studio.tree.get('{fork['id']}')")
    window.page.keyboard.press("Control+Shift+z")
    window.until(f"!studio.tree.get('{fork['id']}')")
    window.page.keyboard.press("Control+z")
    window.until(f"studio.tree.get('{fork['id']}')")
    names = sorted(window.names())
    window.open()
    window.until(f"studio.tree.takes.size === {len(names)}")
    assert sorted(window.names()) == names


def test_an_answer_that_comes_late_does_not_undo_what_events_have_told(window: Window) -> None:
    """The page asks for a new take and is told of its changes. Here each answer waits until the take is done."""
    window.page.evaluate("""() => {
      const plain = window.fetch;
      window.fetch = async (address, options) => {
        const answer = await plain(address, options);
        const id = /^\\/api\\/pieces\\/(\\w+)$/.exec(address)?.[1];
        while (id && options.method === "GET" && studio.tree.get(id)?.status !== "done") {
          await new Promise(resolve => setTimeout(resolve, 20));
        }
        return answer;
      };
    }""")
    take = window.write(2, seed="8")
    assert window.page.evaluate(f"studio.tree.get('{take}').status") == "done"
    window.open()


@pytest.mark.parametrize(
    ("field", "value", "place", "sentence"),
    [
        ("#option-key", "H", "[data-key=key]", "key=H: not a key; write it as C, F#m or Bb major"),
        ("#option-polyphony", "0", "[data-key=polyphony]", "polyphony=0: takes a whole number (1 or more) or null"),
        ("#length", "2.5", ".length", "bars=2.5: takes a whole number (1 or more) or null"),
    ],
)
def test_a_contradiction_is_a_sentence_beside_its_field(
    window: Window, field: str, value: str, place: str, sentence: str
) -> None:
    """The sentence is the library's own, not the browser's."""
    window.page.evaluate("document.querySelectorAll('form details').forEach(more => { more.open = true; })")
    before = window.page.input_value(field)
    window.page.fill(field, value)
    window.page.click("#go")
    error = window.page.locator(f"{place} .error")
    error.wait_for()
    assert error.inner_text() == sentence
    assert window.page.get_attribute(field, "aria-invalid") == "true"
    assert window.problems.pop().startswith("Failed to load resource: the server responded with a status of 400")
    window.page.fill(field, before)


def test_a_dropped_file_is_shown_cut_and_continued(window: Window, tmp_path: Path) -> None:
    path = tmp_path / "my song.mid"
    path.write_bytes(midi_bytes(compose(1, 6)))
    window.page.set_input_files("#file", str(path))
    window.until("studio.roll.song?.bars.length === 4 && studio.roll.ghosts.length > 0")
    assert "my song.mid" in window.page.inner_text("#prompt")
    window.page.fill("#option-prompt_bars", "2")
    window.page.keyboard.press("Tab")
    window.until("studio.roll.song.bars.length === 2")
    window.write(4)
    window.until("studio.tree.get(studio.current.id).bars === 4")
    take = window.page.evaluate("studio.tree.get(studio.current.id)")
    assert (take["name"], take["prompt_bars"], take["bars"]) == ("my song", 2, 4)
    assert window.page.evaluate("studio.current.song.promptBars") == 2
    window.page.get_by_label("Do not continue this file").click()


def test_a_file_on_the_roll_has_its_own_buttons_and_leaves_when_it_is_dismissed(window: Window, tmp_path: Path) -> None:
    key = window.write(2)
    path = tmp_path / "song.mid"
    path.write_bytes(midi_bytes(compose(1, 6)))
    window.page.set_input_files("#file", str(path))
    window.until("studio.roll.ghosts.length > 0")
    assert window.page.locator("#fork:disabled, #fill:disabled, #more:disabled").count() == 3
    assert window.page.locator("#downloads a").count() == 0  # those of another take would mislead
    window.page.evaluate("document.querySelectorAll('form details').forEach(more => { more.open = true; })")
    with window.page.expect_response(lambda answer: "/api/prompts/" in answer.url) as answer:
        window.page.select_option("#option-grid", "file")
    assert "grid=file" in answer.value.url
    window.page.select_option("#option-grid", "auto")
    window.page.get_by_label("Do not continue this file").click()
    window.until(f"studio.current?.id === '{key}' && document.querySelectorAll('#downloads a').length > 0")


def test_space_after_a_click_plays_and_does_not_press_the_button_again(window: Window) -> None:
    window.write(2)
    count = window.page.evaluate("studio.tree.takes.size")
    for state in (False, True):
        if window.page.evaluate("studio.player.isOn") == state:
            window.page.keyboard.press("Space")
        window.until(f"studio.player.isOn === {str(not state).lower()}")
    window.page.click("#go")
    window.until("studio.current && !studio.current.song.isGrowing && studio.player.isOn")
    window.page.keyboard.press("Space")
    window.until("!studio.player.isOn")
    assert window.page.evaluate("studio.tree.takes.size") == count + 1


def test_undo_and_writing_go_on_when_the_page_is_loaded_again(window: Window, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("musicgen.studio.streams.GRACE", 60.0)
    window.page.evaluate("document.querySelectorAll('form details').forEach(more => { more.open = true; })")
    window.page.fill("#length", "5000")
    window.page.click("#go")
    window.until("studio.current?.song.bars.length > 1 && studio.tree.get(studio.current.id).status === 'writing'")
    key, name = window.page.evaluate("[studio.current.id, sessionStorage.window]")
    window.open()
    assert window.page.evaluate("sessionStorage.window") == name  # so the studio does not miss this window
    window.until(f"studio.current?.id === '{key}' && studio.current.song.isGrowing")
    window.page.click("#undo")
    window.until(f"!studio.tree.get('{key}')")
    window.page.click("#redo")
    window.until(f"studio.tree.get('{key}')?.status === 'stopped'")


def test_a_radio_goes_on_when_another_one_was_on_the_roll(window: Window) -> None:
    window.page.fill("#option-tempo", "224")
    keys = []
    for _ in range(2):
        before = window.page.evaluate("studio.current?.id ?? ''")
        window.page.click("#radio")
        window.until(f"studio.current && studio.current.id !== '{before}' && studio.player.state === 'playing'")
        keys.append(window.page.evaluate("studio.current.id"))
    window.until("studio.player.tick > 8 * studio.current.song.barTicks")  # further than the first was written
    window.page.locator(f"[data-id='{keys[0]}'] .name").click()
    known = window.page.evaluate(f"studio.tree.get('{keys[0]}').bars")
    window.until(f"studio.current.id === '{keys[0]}' && studio.current.song.bars.length > {known} + 2")
    for key in keys:
        window.page.get_by_label("Delete " + window.page.evaluate(f"studio.tree.get('{key}').name"), exact=True).click()
        window.until(f"!studio.tree.get('{key}')")
    window.page.fill("#option-tempo", "")


def test_a_groove_is_muted_soloed_and_split(window: Window, tmp_path: Path) -> None:
    path = tmp_path / "groove.mid"
    path.write_bytes(midi_bytes(compose_groove(0, 0, 4)))
    window.page.select_option("#model", "tiny-groove")
    window.page.set_input_files("#file", str(path))
    window.until("studio.roll.song?.tracks.length === 3")
    window.write(5)
    silent = "[...studio.player.silent].join()"
    window.page.get_by_label("Mute Drums").click()
    window.until(f"{silent} === '1'")
    window.page.get_by_label("Solo Bass").click()
    window.until(f"{silent} === '1,2'")
    assert len(window.page.locator("#downloads a").all()) == 8
    window.page.get_by_label("Do not continue this file").click()
    window.page.select_option("#model", "tiny")


def test_the_radio_plays_changes_and_stops_at_a_bar_line(window: Window) -> None:
    window.page.fill("#option-tempo", "200")
    window.page.click("#radio")
    window.until("studio.player.state === 'playing'")
    window.until("studio.player.tick > studio.current.song.barTicks")
    ahead = window.page.evaluate("studio.current.song.bars.length - studio.player.tick / studio.current.song.barTicks")
    assert ahead < 6  # it does not write far beyond what is heard, so a change is heard soon
    window.page.fill("#option-key", "C")
    window.page.click("#apply")
    window.until("studio.tree.get(studio.current.id).request.key === 'C'")
    changed = window.page.evaluate("studio.current.song.bars.length")
    window.until(f"studio.current.song.bars.length > {changed + 2}")
    window.page.click("#stop")
    window.until("studio.tree.get(studio.current.id).status === 'stopped'")
    window.until("!studio.current.song.isGrowing")
    late = window.page.evaluate(f"studio.current.song.bars.slice({changed + 1}).flat().map(note => note[2] % 12)")
    assert late
    assert set(late) <= {0, 2, 4, 5, 7, 9, 11}
    for key in ("key", "tempo"):
        window.page.fill(f"#option-{key}", "")


def test_a_loop_stays_in_its_bars(window: Window) -> None:
    window.write(3, tempo="200")
    for place in ("#from", "#to"):
        window.page.fill(place, "2")
        window.page.keyboard.press("Tab")
    window.page.click("#loop")
    if not window.page.evaluate("studio.player.isOn"):
        window.page.click("#play")
    window.until("studio.player.anchors.length && studio.player.tick >= studio.current.song.barTicks")
    places = []
    for _ in range(15):
        time.sleep(0.1)
        places.append(window.page.evaluate("studio.player.tick / studio.current.song.barTicks"))
    assert all(0.99 <= place <= 2.01 for place in places), places
    window.page.click("#loop")


@pytest.mark.parametrize("width", [390, 1400])
def test_nothing_is_wider_than_the_window_and_everything_has_a_name(window: Window, width: int) -> None:
    window.page.set_viewport_size({"width": width, "height": 844})
    assert window.page.evaluate("document.documentElement.scrollWidth") <= width
    nameless = window.page.evaluate(
        """() => [...document.querySelectorAll("button, input, select, a, [role=slider]")]
          .filter(one => one.checkVisibility() && !one.getAttribute("aria-label") && !one.textContent.trim())
          .filter(one => !one.labels?.length && !one.title).map(one => one.outerHTML)"""
    )
    assert nameless == []
    window.page.set_viewport_size({"width": 1400, "height": 900})
