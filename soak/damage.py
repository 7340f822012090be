"""Random damage to bytes, MIDI files, JSON and safetensors files. The same `Random` gives the same damage."""

from __future__ import annotations

import json
from random import Random
from typing import Any

HOSTILE: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2, 127, 128, 255, 65535, 1 << 20, 1 << 31, 1 << 63, 10**20, 10**400, -(10**400),
    0.5, -0.5, 1e300, -1e300, 1e-300, float("nan"), float("inf"), -float("inf"),
    "", "x", "\0", "../../x", "/dev/zero", "/etc/passwd", "\ud800", "ü" * 300, "NaN", "null", "1e400",
    [], {}, [[]], [None], [1, 2], ["x"], {"x": 1}, {"": None}, [0] * 1000,
)  # fmt: skip
"""Values that are wrong somewhere: types, signs, sizes, paths, texts."""
BYTES = (0, 0x7F, 0x80, 0x90, 0xF0, 0xF7, 0xFF)


def damage_bytes(data: bytes, chance: Random) -> bytes:
    """Change, cut out, put in or cut off bytes; or replace all by noise."""
    damaged, kind = bytearray(data), chance.random()
    if kind < 0.08:
        return bytes(damaged[: chance.randrange(len(damaged) + 1)])
    if kind < 0.12:
        return chance.randbytes(chance.randrange(600))
    for _ in range(chance.choice((1, 1, 2, 5, 40))):
        place = chance.randrange(len(damaged) if chance.random() < 0.6 else min(80, len(damaged)))
        match chance.randrange(4):
            case 0:
                damaged[place] = chance.randrange(256)
            case 1:
                del damaged[place : place + chance.randrange(1, 9)]
            case 2:
                damaged[place:place] = chance.randbytes(chance.randrange(1, 9))
            case _:
                damaged[place] = chance.choice(BYTES)
        if len(damaged) < 20:
            break
    return bytes(damaged)


def damage_midi(data: bytes, chance: Random) -> bytes:
    """Damage inside the tracks of a MIDI file, mostly with lengths that fit, so that it reaches the parser."""
    if chance.random() < 0.4:
        return damage_bytes(data, chance)
    header, chunks, place = data[:14], [], 14
    while place + 8 <= len(data):
        size = int.from_bytes(data[place + 4 : place + 8], "big")
        chunks.append(data[place + 8 : place + 8 + size])
        place += 8 + size
    number = chance.randrange(len(chunks))
    chunks[number] = damage_bytes(chunks[number], chance)
    return header + b"".join(b"MTrk" + len(chunk).to_bytes(4, "big") + chunk for chunk in chunks)


def deep(chance: Random) -> str:
    """JSON text that is nested deeply."""
    depth = chance.choice((33, 500, 990, 5_000, 200_000))
    return "[" * depth + "]" * depth if chance.random() < 0.5 else '{"a":' * depth + "1" + "}" * depth


def damage_value(value: Any, chance: Random) -> Any:
    """Plain data in which a few values, keys or whole parts are changed."""
    value = json.loads(json.dumps(value))
    for _ in range(chance.choice((1, 1, 1, 2, 4))):
        places = list(_places(value))
        if not places:
            return chance.choice(HOSTILE)
        parent, key = chance.choice(places)
        match chance.randrange(6):
            case 0 if isinstance(parent, dict):
                parent.pop(key, None)
            case 1 if isinstance(parent, dict):
                parent[chance.choice(("x", "_target_", "", "1", "\0"))] = parent.pop(key, None)
            case 2 if isinstance(parent[key], int) and not isinstance(parent[key], bool):
                parent[key] = parent[key] * chance.choice((-1, 0, 2, 3, 1000, 10**20)) + chance.choice((0, 1, -1))
            case _:
                parent[key] = chance.choice(HOSTILE)
    return value


def _places(value: Any) -> list[tuple[Any, Any]]:
    """Every container in plain data with each of its keys, the upper ones as often as all the lower ones."""
    found: list[tuple[Any, Any]] = []
    level = [value]
    while level:
        here = [(item, key) for item in level for key in (item if isinstance(item, dict) else range(len(item)))]
        found += here[:200]
        level = [item[key] for item, key in here if isinstance(item[key], dict | list) and item[key]]
    return found


def damage_json(text: str, chance: Random) -> bytes:
    """A JSON document that is damaged as text, as data, or by nesting."""
    kind = chance.random()
    if kind < 0.1:
        return deep(chance).encode()
    if kind < 0.25:
        return damage_bytes(text.encode(), chance)
    try:
        content = json.loads(text)
    except ValueError:
        return damage_bytes(text.encode(), chance)
    return json.dumps(damage_value(content, chance)).encode("utf-8", "surrogatepass")


def damage_lines(text: str, chance: Random) -> bytes:
    """A file of JSON lines, one of which is damaged, missing or doubled."""
    lines = text.splitlines()
    number = chance.randrange(len(lines))
    match chance.randrange(5):
        case 0:
            del lines[number]
        case 1:
            lines.insert(number, lines[number])
        case _:
            lines[number] = damage_json(lines[number], chance).decode("utf-8", "replace").replace("\n", " ")
    return "\n".join(lines).encode("utf-8", "surrogatepass")


def damage_tensors(data: bytes, chance: Random) -> bytes:
    """A safetensors file whose header or numbers are damaged."""
    size = int.from_bytes(data[:8], "little")
    if chance.random() < 0.2 or size > len(data):
        return damage_bytes(data, chance)
    header, body = json.loads(data[8 : 8 + size]), bytearray(data[8 + size :])
    kind = chance.random()
    if kind < 0.35 and "__metadata__" in header:
        name = chance.choice(sorted(header["__metadata__"]))
        header["__metadata__"][name] = damage_json(header["__metadata__"][name], chance).decode("utf-8", "replace")
    elif kind < 0.7:
        name = chance.choice([key for key in header if key != "__metadata__"])
        about = header[name]
        match chance.randrange(4):
            case 0:
                about["dtype"] = chance.choice(("F64", "F16", "BF16", "I64", "I32", "U8", "BOOL", "X"))
            case 1:
                about["shape"] = [chance.choice((*about["shape"], 0, 1, 1 << 40, 10**20)) for _ in about["shape"]]
            case 2:
                chance.shuffle(about["shape"])
            case _:
                header["x" + name] = header.pop(name)
    else:
        number = chance.choice((b"\0\0\xc0\x7f", b"\0\0\x80\x7f", b"\xff\xff\x7f\x7f", chance.randbytes(4)))
        place = 4 * chance.randrange(max(1, len(body) // 4))
        times = chance.choice((1, 1, len(body) // 4 - place // 4))
        body[place : place + 4 * times] = number * times
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + bytes(body)
