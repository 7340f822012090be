"""The page: whole and well-formed whatever it is told, self-contained, and pointing to the right files."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from html.parser import HTMLParser
from urllib.parse import unquote, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from musicgen.sampling.page import MOST_COLUMNS, Entry, page

VOID = {"meta", "img", "path"}
HOSTILE = [
    "with space.mid",
    "\"double\" and 'single'.mid",
    "<script>alert(1)</script>.mid",
    "a&amp;b & c.mid",
    "50%20 #1?x=y.mid",
    "javascript:alert(1)",
    "http:colon.mid",
    "夜の歌 é 🎹.mid",
    "back\\slash.mid",
    "</style></title>.mid",
]
FLOATS = st.lists(st.floats(), max_size=30)


class Reader(HTMLParser):
    """Checks that every tag is closed in its turn, and keeps what the page points to and says."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[tuple[str, str]] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len(dict(attrs)) == len(attrs), f"an attribute of {tag} is there twice"
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append((self.open[-1] if self.open else "", data))

    def attributes(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]

    def links(self) -> list[str]:
        return [
            link
            for _, attributes in self.tags
            for key in ("src", "href", "data", "action")
            if (link := attributes.get(key))
        ]

    def text(self, tag: str) -> list[str]:
        return [data for inside, data in self.words if inside == tag]


def entry(
    name: str = "piece_0",
    kinds: Sequence[str] = ("mid", "json", "png", "wav"),
    likelihood: Sequence[float] = (-1.5, -1.25, -2.0),
    masked: Sequence[float] = (0.0, 0.02, 0.01),
    prompt_bars: int = 0,
) -> Entry:
    return Entry(name, {kind: f"{name}.{kind}" for kind in kinds}, {"seed": "0"}, likelihood, masked, prompt_bars)


def test_a_piece_can_be_heard_seen_and_downloaded() -> None:
    read = Reader(page("Night", {"temperature": "1.2"}, [entry()], ["The prompt was moved."]))
    assert read.attributes("audio")[0]["src"] == "piece_0.wav"
    assert read.attributes("audio")[0]["preload"] == "none"
    assert read.attributes("img")[0] == {"src": "piece_0.png", "alt": "Piano roll of piece_0", "loading": "lazy"}
    downloads = [link["href"] for link in read.attributes("a") if "download" in link]
    assert downloads == ["piece_0.mid", "piece_0.json", "piece_0.png", "piece_0.wav"]
    assert read.text("h1") == ["Night"]
    assert read.text("h2") == ["piece_0"]
    assert "1 piece" in read.text("p")
    assert read.text("dd") == ["0"]
    assert read.text("th") + read.text("td") == ["temperature", "1.2"]
    assert "The prompt was moved." in read.text("li")
    assert read.attributes("html") == [{"lang": "en"}]


def test_nothing_comes_from_elsewhere() -> None:
    text = page("Night", {"a": "b"}, [entry(), entry("piece_1")])
    for link in Reader(text).links():
        assert urlsplit(link)[:2] == ("", "")
    assert not re.search(r"https?:|@import|url\(", text)


@pytest.mark.parametrize("name", HOSTILE)
def test_any_name_is_only_text_and_its_link_leads_to_its_file(name: str) -> None:
    plain = Reader(
        page("title", {"key": "value"}, [Entry("name", {"mid": "f", "png": "f", "wav": "f"}, {}, [-1], [0])])
    )
    files = {"mid": name, "png": name, "wav": name}
    read = Reader(page(name, {name: name}, [Entry(name, files, {name: name}, [-1], [0])], [name]))
    assert [unquote(link) for link in read.links()] == [name] * len(plain.links())
    assert {urlsplit(link)[:2] + urlsplit(link)[3:] for link in read.links()} == {("", "", "", "")}
    for tag in ("title", "h1", "h2", "dt", "dd", "th", "td", "li"):
        assert name in "".join(read.text(tag))
    assert not read.attributes("script")


def test_a_name_that_is_no_text_keeps_its_bytes() -> None:
    text = page("caf\udce9", {}, [Entry("caf\udce9", {"mid": "caf\udce9.mid"}, {}, [], [])])
    assert Reader(text).links() == ["caf%E9.mid"]
    assert "<h1>caf?</h1>" in text
    text.encode("utf-8")


def test_the_same_arguments_give_the_same_text() -> None:
    assert page("Night", {"a": "b"}, [entry()]) == page("Night", {"a": "b"}, [entry()])


def test_what_is_not_there_leaves_no_trace() -> None:
    read = Reader(page("Night", {}, [Entry("piece_0", {}, {}, [], [])]))
    assert not {"audio", "img", "a", "svg", "ul", "dl", "table", "script"} & {tag for tag, _ in read.tags}


def test_a_page_of_nothing_says_so() -> None:
    read = Reader(page("Night", {}, []))
    assert "No piece was made, so there is nothing to see or hear." in read.text("p")


def test_one_sound_stops_another_where_there_are_two() -> None:
    assert not Reader(page("Night", {}, [entry(), entry("piece_1", ["mid"])])).attributes("script")
    assert Reader(page("Night", {}, [entry(), entry("piece_1")])).attributes("script")


def test_every_bar_says_its_numbers() -> None:
    read = Reader(page("Night", {}, [entry(prompt_bars=1)]))
    assert read.text("title")[1:] == [
        "bar 1 (prompt): log-likelihood −1.5 per token, masks took 0\N{NO-BREAK SPACE}%",
        "bar 2: log-likelihood −1.25 per token, masks took 2\N{NO-BREAK SPACE}%",
        "bar 3: log-likelihood −2 per token, masks took 1\N{NO-BREAK SPACE}%",
    ]
    assert read.attributes("rect")[0] == {"class": "prompt", "width": "1.000", "height": "100"}


def test_pieces_have_one_scale() -> None:
    read = Reader(page("Night", {}, [entry("a", likelihood=[-4.0]), entry("b", likelihood=[-2.0])]))
    heights = [re.findall(r"v(-[\d.]+)h", path["d"] or "") for path in read.attributes("path")]
    assert [float(height[0]) for height in heights if height] == [-60, -30]


@pytest.mark.parametrize("likelihood", [[], [-1.0]])
@pytest.mark.parametrize("masked", [[], [0.5, 0.25]])
def test_either_series_may_be_missing_or_shorter(likelihood: list[float], masked: list[float]) -> None:
    read = Reader(page("Night", {}, [entry(likelihood=likelihood, masked=masked)]))
    assert len(read.attributes("rect")) == max(len(likelihood), len(masked))


def test_numbers_that_are_none_are_not_drawn_and_endless_ones_fill_the_chart() -> None:
    odd = entry(likelihood=[-2.0, math.nan, -math.inf], masked=[math.nan, math.nan, math.inf])
    read = Reader(page("Night", {}, [odd]))
    assert read.text("title")[1:] == [
        "bar 1: log-likelihood −2 per token",
        "bar 2: nothing known",
        "bar 3: log-likelihood −∞ per token, masks took ∞\N{NO-BREAK SPACE}%",
    ]
    assert read.attributes("path")[0]["d"] == "M0.1 62v-60.0h.8V62zM2.1 62v-60.0h.8V62z"


@given(FLOATS, FLOATS, st.integers(-5, 50))
def test_any_numbers_stay_inside_the_chart(likelihood: list[float], masked: list[float], prompt: int) -> None:
    text = page("Night", {}, [entry(likelihood=likelihood, masked=masked, prompt_bars=prompt)])
    read = Reader(text)
    drawn = " ".join(path["d"] or "" for path in read.attributes("path"))
    assert all(-60 <= float(height) <= 36 for height in re.findall(r"v([^h]+)h", drawn))
    assert len(text) < 20_000


def test_ten_thousand_bars_are_a_small_chart_of_means() -> None:
    bars = 10_000
    long = entry(likelihood=[-1.0, -3.0] * (bars // 2), masked=[0.5] * bars, prompt_bars=25)
    text = page("Night", {}, [long])
    read = Reader(text)
    assert read.text("title")[1] == "bars 1 to 50: log-likelihood −2 per token, masks took 50\N{NO-BREAK SPACE}%"
    assert len(read.text("title")) == 1 + MOST_COLUMNS
    assert read.attributes("rect")[0]["width"] == "0.500"
    assert len(text) < 60_000


def test_a_hundred_pieces_stay_light() -> None:
    pieces = [entry(f"piece_{number}", likelihood=[-1.0] * 32, masked=[0.1] * 32) for number in range(100)]
    assert len(page("Night", {}, pieces)) < 1_000_000
