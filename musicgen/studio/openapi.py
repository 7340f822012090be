"""The OpenAPI description of the program interface. Keys and their texts come from the declared options."""

from __future__ import annotations

from typing import Any

from musicgen.request import RequestOptions
from musicgen.studio.keys import FOR_PROMPTS, ChangeKeys, FillKeys, ForkKeys, PieceKeys, describe


def _schema(*kinds: type[Any]) -> dict[str, Any]:
    """The JSON schema of a body that takes the options of some dataclasses."""
    properties = {}
    for about in (about for kind in kinds for about in describe(kind)):
        bounds = {"minimum": about["least"], "maximum": about["most"], "exclusiveMinimum": about["above"]}
        properties[about["key"]] = {
            "type": [about["kind"], "null"],
            "description": about["help"],
            **({"enum": [*about["choices"], None]} if about["choices"] else {}),
            **{name: value for name, value in bounds.items() if value is not None},
        }
    return {"type": "object", "properties": properties, "additionalProperties": False}


def _operation(summary: str, answer: str, kind: str = "application/json", body: Any = None) -> dict[str, Any]:
    errors = {"description": "a sentence about what is wrong", "content": {"application/json": {"schema": ERROR}}}
    operation: dict[str, Any] = {
        "summary": summary,
        "responses": {"default": {"description": answer, "content": {kind: {}}}, "400": errors},
    }
    if body is not None:
        operation["requestBody"] = {"content": body}
    return operation


def _json(schema: Any) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}


ERROR = {"type": "object", "properties": {"error": {"type": "string"}}}
ID = {"name": "id", "in": "path", "required": True, "schema": {"type": "string"}}
TRACK = {"name": "track", "in": "query", "schema": {"type": "integer", "minimum": 0}}


def _query(name: str, kind: str, about: str) -> dict[str, Any]:
    return {"name": name, "in": "query", "schema": {"type": kind}, "description": about}


READING = [
    _query("model", "string", "the model that will continue it"),
    *(_query(about["key"], about["kind"], about["help"]) for about in describe() if about["key"] in FOR_PROMPTS[1:]),
]
PATHS: dict[str, Any] = {
    "/api/models": {"get": _operation("The models that can write", "a list")},
    "/api/options": {"get": _operation("The options of a request for music", "a list with types, bounds and texts")},
    "/api/pieces": {
        "get": _operation("All pieces", "a list"),
        "post": _operation("Begin a piece", "its id", body=_json(_schema(PieceKeys, RequestOptions))),
    },
    "/api/pieces/{id}": {
        "parameters": [ID],
        "get": _operation("What is known about a piece", "a summary"),
        "patch": _operation(
            "Rename a piece, or change its request from the next bar on",
            "a summary",
            body=_json(_schema(ChangeKeys, RequestOptions)),
        ),
        "delete": _operation("Cancel a piece and put it into the bin", "nothing"),
    },
    "/api/pieces/{id}/events": {
        "parameters": [ID, _query("after", "integer", "the last bar that is known; bars after it are sent")],
        "get": _operation("The bars as they are written: `bar`, then `done` or `error`", "events", "text/event-stream"),
    },
    "/api/pieces/{id}/bars": {
        "parameters": [ID, _query("after", "integer", "the last bar that is known; bars after it are sent")],
        "get": _operation("At most 500 bars, without waiting for more", "bars, and whether they are the last"),
    },
    "/api/pieces/{id}/forks": {
        "parameters": [ID],
        "post": _operation(
            "Begin takes that share the first bars", "their ids", body=_json(_schema(ForkKeys, RequestOptions))
        ),
    },
    "/api/pieces/{id}/fills": {
        "parameters": [ID],
        "post": _operation(
            "Begin takes in which some bars are written anew", "their ids", body=_json(_schema(FillKeys))
        ),
    },
    "/api/pieces/{id}/stop": {"parameters": [ID], "post": _operation("Stop at the next bar line", "a summary")},
    "/api/pieces/{id}/restore": {"parameters": [ID], "post": _operation("Take a piece out of the bin", "a summary")},
    "/api/pieces/{id}.mid": {"parameters": [ID, TRACK], "get": _operation("The MIDI file", "bytes", "audio/midi")},
    "/api/pieces/{id}.wav": {"parameters": [ID, TRACK], "get": _operation("The sound", "bytes", "audio/wav")},
    "/api/pieces/{id}.json": {"parameters": [ID], "get": _operation("The record that `generate` writes", "a record")},
    "/api/pieces/{id}.zip": {
        "parameters": [ID],
        "get": _operation("The MIDI files of all takes of its tree", "bytes", "application/zip"),
    },
    "/api/prompts": {
        "parameters": [
            _query("name", "string", "the name of the file"),
            *READING,
        ],
        "post": _operation("Upload a MIDI file", "its id, and what quantising does to it", body={"audio/midi": {}}),
    },
    "/api/prompts/{id}": {
        "parameters": [
            ID,
            _query("bars", "integer", "takes only this many bars"),
            *READING,
        ],
        "get": _operation("What quantising does to an uploaded file", "notes before and after, and a report"),
    },
    "/api/session": {
        "parameters": [_query("piece", "string", "only the tree of this piece")],
        "get": _operation("All takes as a session file", "a session"),
        "post": _operation("Add the takes of a session file", "their ids", body=_json({"type": "object"})),
    },
    "/api/events": {
        "parameters": [_query("window", "string", "whose writing stops when this stream is closed")],
        "get": _operation("All takes, and each that changes", "events", "text/event-stream"),
    },
}
DESCRIPTION: dict[str, Any] = {
    "openapi": "3.1.0",
    "info": {"title": "musicgen studio", "version": "0"},
    "paths": PATHS,
}
