"""The interface for programs: what is asked is written, what cannot be done is a sentence, strangers are refused."""

from __future__ import annotations

import io
import json
import random
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from studio_server import Client, serving

from musicgen.languages.remi.synthetic import compose
from musicgen.midi.write import midi_bytes
from musicgen.studio.models import Models
from musicgen.studio.take import Take


@pytest.fixture(scope="module")
def client(models: Models, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    with serving(tmp_path_factory.mktemp("takes"), models) as client:
        yield client


def test_a_piece_comes_bar_by_bar_and_is_what_python_writes(client: Client, models: Models) -> None:
    key = client.write(bars=3, seed=4, tempo=100)
    *bars, (last, summary) = client.events(f"/api/pieces/{key}/events")
    assert [kind for kind, _ in bars] == ["bar"] * 3
    assert [bar["bar"] for _, bar in bars] == [0, 1, 2]
    assert (last, summary["status"], summary["bars"]) == ("done", "done", 3)

    piece = models.get("tiny").generate(bars=3, seed=4, tempo=100)
    assert client.get(f"/api/pieces/{key}.mid").body == midi_bytes(piece.score, piece.marks)
    assert [note for _, bar in bars for note in bar["notes"]] == [list(note) for note in piece.score.notes.tolist()]
    assert client.get(f"/api/pieces/{key}.json").json["tokens"] == list(piece.tokens)
    assert client.get(f"/api/pieces/{key}.wav").body[:4] == b"RIFF"


def test_a_stream_that_is_opened_again_goes_on_where_it_was(client: Client) -> None:
    key = client.write(bars=3, seed=1)
    client.finished(key)
    path = f"/api/pieces/{key}/events"
    for events in (client.events(path, {"Last-Event-ID": "1"}), client.events(f"{path}?after=1")):
        assert [data["bar"] for kind, data in events if kind == "bar"] == [2]


def test_forks_share_their_bars_and_are_those_of_the_command(client: Client, models: Models) -> None:
    key = client.write(bars=4, seed=7)
    client.finished(key)
    forks = client.post(f"/api/pieces/{key}/forks", {"bar": 2, "takes": 2}).json["ids"]
    for fork in forks:
        client.finished(fork)
    tokens = [client.get(f"/api/pieces/{one}.json").json["tokens"] for one in forks]
    expected = models.get("tiny").generate_many(1, bars=4, seed=7, fork_at=2, variations=3)
    assert tokens == [list(piece.tokens) for piece in sorted(expected, key=lambda piece: piece.variation)[1:]]
    names = zipfile.ZipFile(io.BytesIO(client.get(f"/api/pieces/{key}.zip").body)).namelist()
    assert len(names) == 3


def test_whoever_listens_never_hears_of_two_complete_takes_of_one_rank(client: Client) -> None:
    key = client.write(bars=4, seed=9)
    client.finished(key)
    heard: dict[str, int] = {}
    ranks: list[list[int]] = []

    def listen(take: Take) -> None:
        if take.parent == key and take.status == "done":
            heard[take.id] = take.score["rank"]
            ranks.append(sorted(heard.values()))

    client.studio.listeners.append(listen)
    fills = client.post(f"/api/pieces/{key}/fills", {"first": 2, "last": 3, "takes": 4}).json["ids"]
    for one in fills:
        client.finished(one)
    client.studio.listeners.remove(listen)
    assert ranks[-1] == [1, 2, 3, 4]
    assert all(len(set(known)) == len(known) for known in ranks)


@pytest.mark.parametrize("model", ["tiny", "tiny-gaps", "tiny-groove"])
def test_bars_are_written_anew_and_what_follows_stays(client: Client, model: str) -> None:
    (sees,) = [one["sees_what_follows"] for one in client.get("/api/models").json if one["name"] == model]
    assert sees == (model == "tiny-gaps")
    key = client.write(model=model, bars=4, seed=9)
    client.finished(key)
    fills = client.post(f"/api/pieces/{key}/fills", {"first": 2, "last": 3, "takes": 2}).json["ids"]
    done = [client.finished(one) for one in fills]
    ranks = [client.get(f"/api/pieces/{one}").json["score"]["rank"] for one in fills]
    assert sorted(ranks) == [1, 2]
    assert ("saw what comes before and after" if sees else "does not see what follows") in done[0]["note"]

    def starts(one: str, *bars: int) -> list[list[int]]:
        """The notes of some bars without their ends, which may be cut by a new note."""
        events = [data for kind, data in client.events(f"/api/pieces/{one}/events") if kind == "bar"]
        return [[note[0], note[2], note[4]] for bar in bars if bar < len(events) for note in events[bar]["notes"]]

    assert starts(fills[0], 1, 2) != starts(key, 1, 2)
    for one in fills:
        assert starts(one, 0) == starts(key, 0)
        assert starts(one, 3) == starts(key, 3)
    refused = client.post(f"/api/pieces/{key}/fills", {"first": 3, "last": 9})
    assert refused.json["error"].startswith("first=3 last=9: takes bars from 1 to 4")


def test_a_take_is_read_again_from_its_tokens(client: Client, models: Models, tmp_path: Path) -> None:
    with serving(tmp_path, models) as first:
        key = first.write(bars=3, seed=2, name="Älter")
        first.finished(key)
        midi = first.get(f"/api/pieces/{key}.mid").body
        session = first.get("/api/session").body
    with serving(tmp_path, models) as second:
        assert second.get(f"/api/pieces/{key}").json["name"] == "Älter"
        assert second.get(f"/api/pieces/{key}.mid").body == midi
        fork = second.post(f"/api/pieces/{key}/forks", {"bar": 1}).json["id"]
        assert second.finished(fork)["bars"] == 3
    copied = client.ask("POST", "/api/session", session).json["ids"]
    assert [client.get(f"/api/pieces/{one}.mid").body for one in copied] == [midi]


def test_settings_change_at_the_next_bar_and_an_endless_piece_stops_at_one(client: Client) -> None:
    key = client.write(endless=True, until=2, seed=3)
    events = client.events(f"/api/pieces/{key}/events")
    assert [next(events)[1]["bar"] for _ in range(2)] == [0, 1]
    client.until(key, "waiting")
    assert client.ask("PATCH", f"/api/pieces/{key}", {"key": "C", "pitches": "C4-C5", "until": 4}).status == 200
    assert client.post(f"/api/pieces/{key}/stop").status == 200
    later = [data for kind, data in events if kind == "bar"]
    pitches = {note[2] for bar in later for note in bar["notes"]}
    assert later
    assert pitches <= {60, 62, 64, 65, 67, 69, 71, 72}
    summary = client.get(f"/api/pieces/{key}").json
    assert (summary["status"], summary["bars"]) == ("stopped", 2 + len(later))


def test_a_deleted_piece_is_written_no_more_and_comes_back(client: Client) -> None:
    key = client.write(endless=True)
    assert client.ask("DELETE", f"/api/pieces/{key}").status == 200
    assert client.get(f"/api/pieces/{key}").status == 404
    assert client.studio.writer.writing == 0
    assert client.post(f"/api/pieces/{key}/restore").json["status"] == "stopped"


def test_closing_a_window_stops_what_it_asked_for(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("musicgen.studio.streams.GRACE", 0.05)
    window = client.events("/api/events?window=w1")
    assert next(window)[0] == "takes"
    key = client.post("/api/pieces", {"endless": True}, **{"X-Window": "w1"}).json["id"]
    other = client.write(endless=True, until=1)
    window.close()
    client.until(key, "stopped")
    assert client.get(f"/api/pieces/{other}").json["status"] in ("writing", "waiting")
    client.ask("DELETE", f"/api/pieces/{other}")


def test_a_dropped_file_is_shown_before_and_after_and_continued(client: Client) -> None:
    score = compose(1, 4)
    answer = client.ask("POST", "/api/prompts?name=my%20song.mid", midi_bytes(score)).json
    assert answer["bars"] == 4
    assert answer["report"].startswith("my song.mid: ")
    assert len(answer["before"]) == len(score.notes)
    assert client.get(f"/api/prompts/{answer['id']}?bars=2").json["bars"] == 2
    key = client.write(prompt=answer["id"], prompt_bars=2, bars=3)
    done = client.finished(key)
    assert (done["prompt_bars"], done["bars"], done["name"]) == (2, 3, "my song")
    refused = client.ask("POST", "/api/prompts?name=x.mid", b"no MIDI")
    assert (refused.status, refused.json) == (
        400,
        {"error": "x.mid: not a MIDI file (it does not begin with a MIDI header)"},
    )


def test_the_way_a_file_is_read_shows_in_its_preview(client: Client) -> None:
    answer = client.ask("POST", "/api/prompts?name=song.mid&grid=file", midi_bytes(compose(1, 4))).json
    live = client.get(f"/api/prompts/{answer['id']}?prompt_tempo=60&bars=2").json
    assert live["report"] != answer["report"]
    assert "live playing" in live["report"]
    for wrong, sentence in (
        ("grid=x", "grid=x: takes one of auto, file"),
        ("prompt_tempo=-1", "prompt_tempo=-1: takes"),
        ("other=1", "song.mid: other=1: is for models of bands"),
        ("grid=file&prompt_tempo=60", "song.mid: grid=file and prompt_tempo="),
    ):
        refused = client.get(f"/api/prompts/{answer['id']}?{wrong}")
        assert refused.status == 400
        assert sentence.partition(": ")[2] in refused.json["error"]
    assert client.get(f"/api/prompts/{answer['id']}?beats=/etc/passwd").status == 200  # no key of an address


def test_bars_come_without_waiting(client: Client) -> None:
    key = client.write(endless=True, until=2, seed=3)
    client.until(key, "waiting")
    answer = client.get(f"/api/pieces/{key}/bars").json
    assert ([bar["bar"] for bar in answer["bars"]], answer["is_last"]) == ([0, 1], False)
    client.post(f"/api/pieces/{key}/stop")
    answer = client.get(f"/api/pieces/{key}/bars?after=0").json
    assert ([bar["bar"] for bar in answer["bars"]], answer["is_last"]) == ([1], True)


@pytest.mark.parametrize(
    "damage",
    [
        {"parent": "self"},
        {"score": {"following": "nan"}},
        {"score": {"rank": 1e300}},
        {"draw": 10**40},
        {"seed": 10**40},
        {"variation": -(10**40)},
        {"bar": 10**400},
        {"likelihood": [-1e308, -1e308]},
        {"setting": {"earlier_tempos": [[1, [100, 100], 1]] * 5000}},
    ],
)
def test_a_session_of_a_stranger_does_no_harm(client: Client, damage: dict[str, Any]) -> None:
    key = client.write(bars=2)
    client.finished(key)
    session = client.get(f"/api/session?piece={key}").json
    (take,) = session["takes"]
    take.update({"parent": take["id"]} if damage == {"parent": "self"} else damage)
    answer = client.ask("POST", "/api/session", session)
    assert answer.status in (201, 400), answer.body
    for one in answer.json.get("ids", []):
        for kind in ("", ".mid", ".json", ".zip"):
            assert client.get(f"/api/pieces/{one}{kind}").status == 200
        assert client.ask("DELETE", f"/api/pieces/{one}").status == 200
    assert b"NaN" not in client.get("/api/pieces").body


def test_the_bin_survives_a_restart(models: Models, tmp_path: Path) -> None:
    with serving(tmp_path, models) as first:
        key = first.write(bars=2)
        first.finished(key)
        first.ask("DELETE", f"/api/pieces/{key}")
        (tmp_path / "0123456789ab.json").write_text("[]")  # no take, and no reason not to start
    with serving(tmp_path, models) as second:
        assert len(second.studio.problems) == 1
        assert second.get("/api/pieces").json == []
        assert second.post(f"/api/pieces/{key}/restore").json["bars"] == 2
    with serving(tmp_path, models) as third:
        assert [take["id"] for take in third.get("/api/pieces").json] == [key]


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ({"bars": 0}, "bars=0: takes a whole number (1 or more) or null"),
        ({"bars": 10_001}, "bars=10001: takes at most 10,000 here; `musicgen generate` writes more"),
        ({"bars": 2, "seconds": 3}, "bars=2 and seconds=3: give one of bars, seconds, tokens"),
        ({"key": "H"}, "key=H: not a key; write it as C, F#m or Bb major"),
        ({"chrods": "C"}, "unknown key 'chrods': did you mean 'chords'?"),
        (
            {"model": "../secret"},
            "model=../secret: no such model (known: groove-small, pop-small, tiny, tiny-gaps, ",
        ),
        ({"model": "tiny-groove", "chords": "C"}, "chords: models of grooves take no chords"),
        ({"from_state": "/etc/passwd"}, "from_state: not here;"),
        ({"prompt": "/etc/passwd"}, "prompt=/etc/passwd: no such file here;"),
        ({"temperature": 10**400}, "temperature="),
        ([1], "the body: takes a JSON object"),
        (b"{", "the body is not JSON"),
        (b"[" * 60_000, "the body is not JSON"),
        (b" " * 70_000, "the body: more than 65,536 bytes"),
    ],
)
def test_what_cannot_be_done_is_the_sentence_of_the_library(client: Client, body: Any, sentence: str) -> None:
    answer = client.post("/api/pieces", body)
    assert answer.status == 400
    assert answer.json["error"].startswith(sentence)


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
    ],
)
def test_other_web_sites_are_refused(client: Client, headers: dict[str, str]) -> None:
    answer = client.ask("POST", "/api/pieces", {"bars": 1}, headers)
    assert answer.status == 403
    assert "error" in answer.json


def test_another_web_site_may_have_a_link_to_the_page_and_no_more(client: Client) -> None:
    foreign = {"Sec-Fetch-Site": "cross-site"}
    assert client.ask("GET", "/", None, foreign).status == 200
    assert client.ask("GET", "/api/session", None, foreign).status == 403


def test_a_token_is_needed_where_there_is_one(models: Models, tmp_path: Path) -> None:
    with serving(tmp_path, models, token="secret") as client:  # noqa: S106
        assert client.get("/api/pieces").status == 401
        assert client.get("/api/pieces?token=wrong").status == 401
        assert client.get("/api/pieces?token=secret").status == 200
        assert client.ask("GET", "/api/pieces", None, {"Authorization": "Bearer secret"}).status == 200
        opened = client.get("/?token=secret")
        assert (opened.status, opened.headers["location"]) == (303, "/")
        cookie = opened.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert client.ask("GET", "/api/pieces", None, {"Cookie": cookie.partition(";")[0]}).status == 200


def test_every_answer_forbids_foreign_code(client: Client) -> None:
    for path in ("/", "/api/models", "/nothing"):
        policy = client.get(path).headers["content-security-policy"]
        assert "default-src 'none'; script-src 'self'" in policy
        assert "unsafe" not in policy
    for name in ("../app.py", "%2e%2e%2fapp.py", "0" * 300, "%00", "%ff"):
        assert client.get(f"/page/{name}").status == 404


def _nonsense(chance: random.Random, depth: int = 0) -> Any:
    simple = [None, True, -1, 0, 3, 1e308, 10**30, "", "C", "x" * 300, "\ud800", "../..", float("nan")]
    if depth > 2 or chance.random() < 0.7:
        return chance.choice(simple)
    if chance.random() < 0.5:
        return [_nonsense(chance, depth + 1) for _ in range(chance.randrange(4))]
    return {str(chance.choice(simple)): _nonsense(chance, depth + 1) for _ in range(3)}


def test_nonsense_gets_an_answer_and_never_a_failure(client: Client) -> None:
    chance = random.Random(0)
    keys = ["bars", "n", "key", "chords", "tempo", "pitches", "polyphony", "seed", "draw", "until", "name", "tracks"]
    keys += [
        "temperature",
        "top_p",
        "top_k",
        "min_p",
        "rhythm_temperature",
        "model",
        "prompt",
        "grammar",
        "endless",
        "bar",
        "takes",
        "kept",
    ]
    piece = client.write(bars=1)
    client.finished(piece)
    session = client.get(f"/api/session?piece={piece}").json
    for _ in range(300):
        body = {chance.choice(keys): _nonsense(chance) for _ in range(chance.randrange(4))}
        body.setdefault("bars", 1)
        damaged = json.loads(json.dumps(session))
        take = damaged["takes"][0]
        take[chance.choice(list(take))] = _nonsense(chance)
        method, path, data = chance.choice(
            [
                ("POST", "/api/pieces", body),
                ("POST", f"/api/pieces/{piece}/forks", body),
                ("PATCH", f"/api/pieces/{piece}", body),
                ("POST", "/api/session", damaged),
                ("POST", "/api/prompts?name=%FF", chance.randbytes(50)),
                ("GET", f"/api/prompts/{piece}?bars=%00", None),
                ("GET", f"/api/pieces/{piece}.mid?track={chance.choice(['-1', '9', 'x', '%C2%B2'])}", None),
                (chance.choice(["PUT", "DELETE", "BREW"]), "/api/models", None),
            ]
        )
        answer = client.ask(method, path, data)
        assert answer.status < 500, (method, path, data, answer.body)
        for one in answer.json.get("ids", []) if answer.status == 201 else []:
            assert client.ask("DELETE", f"/api/pieces/{one}").status == 200
    assert client.get("/api/models").status == 200
