"""Pages of pieces in a real browser: the roll and the player of the studio, from a disk, without a server."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from musicgen.evaluation.report.page import findings_page
from musicgen.midi.write import write_midi
from musicgen.sampling import Piece
from musicgen.sampling.bar_data import piece_json, score_json
from musicgen.sampling.gallery import entry_of
from musicgen.sampling.page import page as gallery_page
from musicgen.studio.models import Models


@pytest.fixture(scope="module")
def piece(models: Models) -> Piece:
    return models.get("tiny").generate(bars=3, seed=1, tempo=120)


class Page:
    """A page from a disk, and what went wrong in it."""

    def __init__(self, browser: Any) -> None:
        self.page, self.problems = browser.new_page(viewport={"width": 390, "height": 844}), list[str]()
        self.page.set_default_timeout(120_000)
        self.page.on("pageerror", lambda error: self.problems.append(str(error)))
        self.page.on("console", lambda line: self.problems.append(line.text))

    def open(self, path: Path, text: str) -> None:
        path.write_text(text, "utf-8")
        self.page.goto(path.as_uri())
        self.page.wait_for_selector(".roll-box[aria-valuemax='3']")

    def until(self, script: str) -> None:
        """Wait until something holds. The policy of the page forbids the browser's own way."""
        end = time.monotonic() + 120
        while not self.page.evaluate(f"() => Boolean({script})"):
            assert time.monotonic() < end, f"{script}; {self.problems}"
            time.sleep(0.02)


@pytest.fixture
def page(browser: Any) -> Iterator[Page]:
    page = Page(browser)
    yield page
    assert page.problems == []
    page.page.close()


def test_the_playhead_and_the_recording_go_together(page: Page, piece: Piece, tmp_path: Path) -> None:
    (tmp_path / "piece.wav").write_bytes(piece.sound())
    (tmp_path / "piece.png").write_bytes(piece.picture())
    entry = entry_of(piece, "rock/fast_1/0", {"mid": "piece.mid", "png": "piece.png", "wav": "piece.wav"})
    page.open(tmp_path / "index.html", gallery_page("Music", {}, [entry]))
    assert page.page.inner_text("h2") == "Rock · fast 1 · 0"
    assert "0:00 / 0:06 · bar 1 of 3" in page.page.inner_text(".controls")
    assert page.page.locator("audio, .roll").filter(visible=True).count() == 0
    assert page.page.evaluate("document.documentElement.scrollWidth") <= 390
    page.page.focus(".roll-box")
    page.page.keyboard.press("ArrowRight")
    page.page.wait_for_selector(".roll-box[aria-valuenow='2']")
    assert page.page.evaluate("document.querySelector('audio').currentTime") == pytest.approx(2.0, abs=0.05)
    page.page.keyboard.press(" ")
    page.until("pieces[0].player.isOn && pieces[0].song.seconds(pieces[0].roll.playhead) > 2.3")
    page.page.click(".controls button")
    page.until("!pieces[0].player.isOn")
    apart = "pieces[0].song.seconds(pieces[0].roll.playhead) - pieces[0].player.sound.currentTime"
    assert page.page.evaluate(apart) == pytest.approx(0.0, abs=0.1)


def test_pieces_without_recordings_sound_too_and_one_at_a_time(page: Page, piece: Piece, tmp_path: Path) -> None:
    entries = [entry_of(piece, "a", {"mid": "a.mid"}), entry_of(piece, "b", {"mid": "b.mid", "wav": "lost.wav"})]
    page.open(tmp_path / "index.html", gallery_page("Music", {}, entries))
    page.until("pieces.length === 2")
    heard = """(() => {
      const samples = new Float32Array(2048);
      pieces[%d].player.analyser?.getFloatTimeDomainData(samples);
      return samples.some(sample => Math.abs(sample) > 0.001);
    })()"""
    page.page.get_by_label("Play A").click()
    page.until(heard % 0)
    page.page.locator("[data-music]").nth(1).get_by_label("Play B").click()  # its file is not there
    page.until("!pieces[0].player.isOn && pieces[1].player.isOn")
    page.until(heard % 1)
    page.until("pieces[1].roll.playhead > pieces[1].song.ticksPerBeat")
    page.problems[:] = [line for line in page.problems if "ERR_FILE_NOT_FOUND" not in line]


def test_the_simple_instruments_are_in_tune(page: Page, piece: Piece, tmp_path: Path) -> None:
    page.open(tmp_path / "index.html", gallery_page("Music", {}, [entry_of(piece, "a", {})]))
    script = """async () => {
      const heard = {}, strength = (samples, hertz) => {
        let [real, imaginary] = [0, 0];
        samples.forEach((sample, i) => {
          const turn = 2 * Math.PI * hertz * i / 44100;
          real += sample * Math.cos(turn);
          imaginary += sample * Math.sin(turn);
        });
        return Math.hypot(real, imaginary);
      };
      for (const [name, track, pitch] of [["piano", { program: 0 }, 69], ["flute", { program: 73 }, 69],
        ["kick", { drums: true }, 36], ["snare", { drums: true }, 38], ["hat", { drums: true }, 42]]) {
        const context = new OfflineAudioContext(1, 44100, 44100);
        (await synth).play(context, context.destination, track, pitch, 100, 0, 0.9);
        const samples = (await context.startRendering()).getChannelData(0).slice(0, 32768);
        const hertz = [220, 430, 436, 438, 439, 440, 441, 442, 444, 450, 880];
        const strengths = hertz.map(one => strength(samples, one));
        heard[name] = [samples.reduce((most, sample) => Math.max(most, Math.abs(sample)), 0),
          hertz[strengths.indexOf(Math.max(...strengths))]];
      }
      return heard;
    }"""
    heard = page.page.evaluate(script)
    assert all(0.01 < loudest <= 1 for loudest, _ in heard.values())
    assert heard["piano"][1] == heard["flute"][1] == 440


def test_a_midi_file_looks_as_its_piece_and_a_report_plays_it(page: Page, piece: Piece, tmp_path: Path) -> None:
    from musicgen.midi.read import read_midi

    write_midi(piece.score, tmp_path / "piece.mid", piece.marks)
    music = score_json(read_midi(tmp_path / "piece.mid"))
    assert sorted(music) == sorted(piece_json(piece))
    page.open(tmp_path / "index.html", findings_page("Report", [], [], [], [("A piece by tiny", music)]))
    page.page.get_by_label("Play A piece by tiny").click()
    page.until("pieces[0].roll.playhead > pieces[0].song.ticksPerBeat")
